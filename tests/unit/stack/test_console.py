"""The events of a stack as text and as JSON."""

from __future__ import annotations

import json

from distributary.stack.component import Event, EventKind
from distributary.stack.console import as_json, lines, where_to_go


def test_ready_component_is_one_line_with_its_addresses() -> None:
    event = Event(EventKind.READY, "publisher", "in 0.4 s", {"websocket": "ws://h:1/c", "http": "http://h:2"})
    assert lines(event) == ["publisher   ready in 0.4 s at ws://h:1/c, http://h:2"]


def test_dead_component_shows_the_end_of_its_log() -> None:
    shown = lines(Event(EventKind.DIED, "reducers", "ended with exit code 1", log_tail=["a", "b"]))
    assert shown[0] == "reducers    ended with exit code 1"
    assert [line.strip() for line in shown[2:]] == ["| a", "| b"]


def test_json_is_one_line_without_empty_fields() -> None:
    event = Event(EventKind.DIED, "kafka", "said\nso", log_tail=["x"])
    assert json.loads(as_json(event)) == {
        "event": "died",
        "component": "kafka",
        "message": "said\nso",
        "log": ["x"],
    }
    assert "\n" not in as_json(event)


def test_addresses_are_listed_page_first_and_unknown_last() -> None:
    rows = where_to_go({"kafka": "k:1", "other": "o:1", "http": "http://h:1"})
    assert [row.split()[-1] for row in rows] == ["http://h:1", "k:1", "o:1"]
