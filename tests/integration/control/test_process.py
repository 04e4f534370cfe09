from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.control.conftest import Start, client_of
from tests.support.clock import LIMIT
from tests.support.reducer_harness import ReducerHarness
from tests.support.servers import StoreServer

from distributary.errors import NotReady, StoreUnavailable, ViewBuilding
from distributary.model.build import Definition
from distributary.model.feed import Feed
from distributary.model.view import View

ODDS = Definition(View("odds", "odds", key="id"), Feed("odds", "sportsbook.odds"))


def test_view_from_its_definition_to_its_end(start: Start, store: StoreServer) -> None:
    process = start("distributary.control")
    assert process.component == "control"
    api = client_of(process)
    assert api.call("PUT", "/v1/views/odds", {"feed": "odds", "key": "id"})["build"] == ODDS.build
    with pytest.raises(ViewBuilding, match="is being built"):
        api.call("POST", "/v1/subscriptions", {"view": "odds"})
    folding = ReducerHarness(store.url, ODDS)
    folding.fold(a={"n": 1}, b={"n": 2})
    folding.go_live()
    shown = api.get("/v1/views/odds/status")
    assert (shown["status"], shown["rows"], shown["seq"]) == ("live", 2, 2)
    assert shown["position"] == {"0": {"offset": 1, "end": None}}
    found = api.get("/v1/views/odds?where=n%20%3D%202")
    assert (found["rows"], found["position"]) == ([["b", {"n": 2}]], f"{shown['epoch']}:2")
    keys = "&".join(f"key={'k' * 60}{n}" for n in range(600))  # as long as an address may be
    assert api.get(f"/v1/views/odds?key=a&{keys}")["rows"] == [["a", {"n": 1}]]

    made = api.call("POST", "/v1/subscriptions", {"view": "odds", "keys": ["a"]})
    assert api.get(f"/v1/subscriptions/{made['id']}")["state"] == "waiting"
    assert api.call("POST", f"/v1/subscriptions/{made['id']}/begin")["state"] == "begun"
    api.call("DELETE", f"/v1/subscriptions/{made['id']}")
    assert folding.store.registry("odds")[1] == []
    api.call("DELETE", "/v1/views/odds")
    assert api.get("/v1/views")["views"] == []
    folding.store.close()


def test_ready_stack_responds(start: Start) -> None:
    api = client_of(start("distributary.control"))
    assert api.get("/healthz") == {"status": "ok"}
    with pytest.raises(NotReady, match="not ready: Kafka does not respond"):
        api.get("/readyz")


def test_unreachable_store_is_reported_until_it_recovers(start: Start, store: StoreServer) -> None:
    api = client_of(start("distributary.control"))
    assert api.call("PUT", "/v1/views/odds", {"feed": "odds", "key": "id"})["changed"]
    store.kill()
    with pytest.raises(StoreUnavailable):
        api.get("/v1/views")
    with pytest.raises(StoreUnavailable):
        api.call("PUT", "/v1/views/odds", {"feed": "odds"})
    store.start()
    assert api.call("PUT", "/v1/views/odds", {"feed": "odds", "key": "other"})["changed"]
    assert [view["name"] for view in api.get("/v1/views")["views"]] == ["odds"]


def test_sigterm_is_a_clean_end(start: Start, tmp_path: Path) -> None:
    process = start("distributary.control")
    status, took = process.stop()
    assert status == 0
    assert took < 5 * LIMIT
    assert "Traceback" not in (tmp_path / "distributary.control.log").read_text()


def test_taken_port_is_one_line(start: Start, tmp_path: Path) -> None:
    start("distributary.control")
    with pytest.raises(AssertionError, match="cannot listen on"):
        start("distributary.control")
    assert "Traceback" not in (tmp_path / "distributary.control.log").read_text()
