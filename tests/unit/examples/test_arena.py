"""The rules of the arena hold for any actions and events."""

from __future__ import annotations

import re
from typing import Any

import pytest
from examples.arena import rules
from hypothesis import given
from hypothesis import strategies as st
from tests.support.doc_blocks import ROOT, blocks

from distributary.config import load
from distributary.reducers.event_fold import event_rule_of
from distributary.reducers.reduce_rules import Event, rule_of

FOLDER = ROOT / "examples" / "arena"

fields = st.integers(0, rules.SIZE - 1)
steers = st.fixed_dictionaries({"do": st.just("steer"), "dx": st.integers(-1, 1), "dy": st.integers(-1, 1)})
ticks = st.builds(lambda n: {"kind": "tick", "n": n}, st.integers(1, 1000))
blasts = st.fixed_dictionaries(
    {"kind": st.just("blast"), "x": fields, "y": fields, "by": st.sampled_from(["ann", "bob"])}
)


def event(fields: dict[str, Any], key: str = "ann", *, tombstone: bool = False) -> Event:
    made = Event(fields)
    made.key, made.time, made.partition, made.offset, made.tombstone = key, 0, 0, 0, tombstone
    return made


@given(st.text(), st.lists(steers | ticks | blasts, max_size=60))
def test_player_stays_in_the_arena_and_in_health(name: str, game: list[dict[str, Any]]) -> None:
    row = rules.fold_action(None, event({"do": "steer", "dx": 1, "dy": -1}, name))
    for one in game:
        assert row is not None
        before = dict(row)
        row = (
            rules.fold_action(row, event(one, name))
            if "do" in one
            else rules.fold_event(row, event(one, name))
        )
        assert row is not None
        assert 0 <= row["x"] < rules.SIZE
        assert 0 <= row["y"] < rules.SIZE
        assert 0 < row["health"] <= rules.HEALTH
        assert row["cell"] == f"{row['x'] // rules.CELL}-{row['y'] // rules.CELL}"
        if one.get("kind") == "tick":
            assert max(abs(row["x"] - before["x"]), abs(row["y"] - before["y"])) <= 1
        if one.get("kind") == "blast":
            far = max(abs(before["x"] - one["x"]), abs(before["y"] - one["y"]))
            assert (row != before) == (far <= rules.REACH and one["by"] != name)


@given(fields, fields, fields, fields)
def test_nearby_filter_matches_only_nearby_cells(x: int, y: int, other_x: int, other_y: int) -> None:
    cells = set(re.findall(r"'([^']+)'", rules.nearby_filter({"x": x, "y": y})))
    seen = f"{other_x // rules.CELL}-{other_y // rules.CELL}" in cells
    far = max(abs(x - other_x), abs(y - other_y))
    assert seen or far > rules.CELL
    assert not seen or far < 2 * rules.CELL


def test_unknown_action_and_event_are_refused() -> None:
    row = rules.spawn("ann")
    for bad in ({"do": "fly"}, {"do": "steer", "dx": 2, "dy": 0}):
        with pytest.raises(ValueError, match=r"unknown action|by at most one field"):
            rules.fold_action(row, event(bad))
    with pytest.raises(ValueError, match="unknown event"):
        rules.fold_event(row, event({"kind": "flood"}))
    assert rules.fold_action(row, event({"do": "leave"})) is None
    assert rules.fold_action(row, event({}, tombstone=True)) is None


def test_configuration_uses_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    view = load(FOLDER / "distributary.toml", env={}).view("players")
    assert rule_of(view) is not None
    assert event_rule_of(view) is not None


def test_readme_runs_existing_files() -> None:
    lines = [
        line
        for block in blocks("examples/arena/README.md")
        if block.language == "sh"
        for line in block.text.splitlines()
    ]
    assert [line.partition("#")[0].split() for line in lines] == [
        ["PYTHONPATH=.", "distributary", "up"],
        ["python", "bots.py"],
        ["python", "play.py", "ann"],
    ]
    assert all((FOLDER / name).is_file() for name in ("bots.py", "play.py"))
