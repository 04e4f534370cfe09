"""What a client may ask beside its channels."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.fake_hub import LatchedReader
from tests.support.fake_view import VIEW, FakeView

from distributary.publisher.codec.codes import Refused
from distributary.publisher.websocket.rpc import METHODS, call

ODDS = b'{"view":"odds"}'


async def refused(store: Any, method: str, data: bytes) -> tuple[int, bool]:
    with pytest.raises(Refused) as why:
        await call(store, method, data)
    return why.value.refusal.code, why.value.refusal.temporary


async def test_position_method_returns_the_position() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}), ("b", {"n": 1}))
    message = json.loads(await call(fake_view.reader, "position", ODDS))
    assert message == {"view": VIEW, "position": f"{fake_view.epoch}:2"}


async def test_status_method_returns_the_status() -> None:
    fake_view = FakeView(stale_after=5)
    clock = [1000.0]
    fake_view.store.clock = lambda: clock[0]
    fake_view.store.writer.mark_source_active(VIEW)
    message = json.loads(await call(fake_view.reader, "status", ODDS))
    assert message == {
        "view": VIEW,
        "status": "live",
        "reason": "",
        "stale": False,
        "incomplete": False,
        "position": f"{fake_view.epoch}:0",
    }
    clock[0] += 6
    assert json.loads(await call(fake_view.reader, "status", ODDS))["stale"]


async def test_position_of_a_view_being_built_is_refused() -> None:
    fake_view = FakeView(live=False)
    assert json.loads(await call(fake_view.reader, "status", ODDS))["status"] == "building"
    assert await refused(fake_view.reader, "position", ODDS) == (1100, True)


@pytest.mark.parametrize("method", sorted(METHODS))
async def test_invalid_calls_are_refused(method: str) -> None:
    fake_view = FakeView()
    assert await refused(fake_view.reader, method, b'{"view":"nothing"}') == (102, False)
    for data in (b"", b"null", b"[]", b"{}", b'{"view":1}', b"\xff", b"[" * 100_000):
        assert await refused(fake_view.reader, method, data) == (107, False)
    latched = LatchedReader(fake_view.reader)
    latched.broken.add("view")
    assert await refused(latched, method, ODDS) == (100, True)


async def test_unknown_method_is_refused() -> None:
    assert await refused(FakeView().reader, "nonsense", ODDS) == (104, False)
    assert await refused(FakeView().reader, "", b"") == (104, False)
