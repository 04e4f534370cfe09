from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.control_api import FEED, VIEW
from tests.support.threaded_api import ThreadedApi

from distributary.cli.main import main
from distributary.cli.view_command import wait_for
from distributary.control.api_client import ControlClient

TOML = """
[[feeds]]
name = "bets"
topic = "bets"

[[views]]
name = "totals"
feed = "bets"
reduce = "aggregate"
ttl = "1h"
[views.aggregates]
total = "sum(stake)"

[[views]]
name = "odds"
feed = "odds"
key = "market_id"
"""


def test_views_of_a_file_are_applied(
    control: ThreadedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    control.api.define()
    (tmp_path / "views.toml").write_text(TOML)
    assert main(["view", "apply", "-f", "views.toml", "--no-wait"]) == 0
    printed = capsys.readouterr().err
    assert "view totals: accepted, being built" in printed
    assert "view odds: unchanged (live)" in printed
    stored = json.loads(control.api.store.writer.views()["totals"].definition)
    assert (stored["view"]["ttl"], stored["view"]["aggregates"]) == (3600.0, {"total": "sum(stake)"})
    assert stored["feed"]["topic"] == "bets"


def test_view_is_created_from_options(control: ThreadedApi) -> None:
    words = ["view", "apply", "--no-wait", "--name", "sums", "--feed", "odds", "--reduce", "aggregate"]
    assert main([*words, "--aggregate", "n=count()", "--stale-after", "30 s"]) == 0
    view = json.loads(control.api.store.writer.views()["sums"].definition)["view"]
    assert (view["aggregates"], view["stale_after"]) == ({"n": "count()"}, 30.0)


@pytest.mark.parametrize(
    ("words", "status", "printed"),
    [
        (["apply"], 2, "there is nothing to apply"),
        (["apply", "-f", "none.toml"], 2, "none.toml cannot be read: No such file"),
        (["apply", "-f", "bad.toml"], 2, 'bad.toml:2: views.odds.feed: unknown feed "ods"'),
        (["apply", "-f", "bad.toml", "--name", "x"], 2, "not both"),
        (["apply", "--name", "x", "--feed", "odds", "--ttl", "soon"], 1, "ttl"),
        (["apply", "--name", "x", "--feed", "odds", "--aggregate", "n"], 2, "is not FIELD=FUNCTION"),
        (["describe", "ods"], 1, 'unknown view "ods"'),
        (["delete", "ods"], 1, 'unknown view "ods"'),
        ([], 2, "ACTION"),
    ],
)
def test_wrong_command_line_is_refused(
    control: ThreadedApi,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    status: int,
    printed: str,
) -> None:
    control.api.define()
    (tmp_path / "bad.toml").write_text('[[views]]\nfeed = "ods"\nname = "odds"\n')
    assert main(["view", *words]) == status
    assert printed in capsys.readouterr().err


def test_views_are_listed_described_and_deleted(
    control: ThreadedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    control.api.define()
    assert main(["view", "list"]) == 0
    assert "odds" in capsys.readouterr().out
    assert main(["view", "describe", "odds"]) == 0
    text = capsys.readouterr().out
    assert "sportsbook.odds" in text
    assert VIEW.build_id(FEED) in text
    assert main(["view", "describe", "odds", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "live"
    assert main(["view", "delete", "odds"]) == 0
    assert main(["view", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


class Scripted(ControlClient):
    """Answers with one state after the other."""

    def __init__(self, *states: dict[str, Any]) -> None:
        super().__init__("")
        self.states = iter(states)

    def get(self, path: str) -> Any:
        assert path == "/v1/views/odds/status"
        return next(self.states)


LIVE = {"build": "b1", "status": "live", "rows": 1000, "reason": "", "next": None}


def building(lag: int | None) -> dict[str, Any]:
    return LIVE | {"next": {"build": "b2", "status": "building", "lag": lag, "reason": ""}}


@pytest.fixture
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.cli.view_command._POLL", 0)


@pytest.mark.usefixtures("no_sleep")
def test_waiting_prints_progress_and_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    states = [building(None), building(5000), building(5000), LIVE | {"build": "b2"}]
    assert wait_for(Scripted(*states), "odds", "b2")
    assert capsys.readouterr().err.splitlines() == [
        "view odds: building",
        "view odds: building, 5,000 records behind",
        "view odds: live, 1,000 rows",
    ]


@pytest.mark.usefixtures("no_sleep")
def test_stopped_build_is_printed_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    reason = "[UNRESOLVED_COLUMN] `prize` cannot be resolved. Did you mean `price`?"
    stopped = LIVE | {"next": {"build": "b2", "status": "stopped", "reason": reason}}
    assert not wait_for(Scripted(building(1), stopped), "odds", "b2")
    assert reason in capsys.readouterr().err


@pytest.mark.usefixtures("no_sleep")
def test_replaced_build_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert not wait_for(Scripted(LIVE), "odds", "b2")
    assert "replaced" in capsys.readouterr().err
