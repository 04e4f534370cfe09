"""What the demo says, to people and to programs."""

from __future__ import annotations

import io
import json
import time

from rich.console import Console

from distributary.demo.board import Figures
from distributary.demo.demo_output import Teller
from distributary.stack.component import Event, EventKind

ADDRESSES = {"http": "http://127.0.0.1:8001", "websocket": "ws://127.0.0.1:8000/connection/websocket"}


def teller(*, as_json: bool = False) -> tuple[Teller, io.StringIO]:
    out = io.StringIO()
    return Teller(Console(file=out, width=40), time.monotonic() - 2.0, as_json=as_json), out


def test_the_page_and_the_first_change_once() -> None:
    told, out = teller()
    told.ready(ADDRESSES)
    told.first_change()
    told.first_change()
    lines = out.getvalue().split("\n")
    assert "Open http://127.0.0.1:8001/" in lines
    assert [line for line in lines if line.startswith("first change")] == [
        "first change on screen after 2.0 s"
    ]


def test_a_dead_part_shows_the_end_of_its_log() -> None:
    told, out = teller()
    told.stack(Event(EventKind.DIED, "kafka", "was killed by SIGKILL", log_tail=["[ERROR] out of memory"]))
    assert out.getvalue() == "kafka       died: was killed by SIGKILL\n  [ERROR] out of memory\n"


def test_what_needs_no_words_gets_none() -> None:
    told, out = teller()
    for kind in (EventKind.STARTING, EventKind.STOPPING, EventKind.STOPPED):
        told.stack(Event(kind, "kafka"))
    assert out.getvalue() == ""


def test_json_is_one_object_a_line() -> None:
    told, out = teller(as_json=True)
    told.stack(Event(EventKind.READY, "kafka", ""))
    told.stack(Event(EventKind.NOTE, message="fetching jars"))
    told.ready(ADDRESSES)
    told.first_change()
    told.figures(Figures(10, 2.0, 5.0, None))
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [one["event"] for one in found] == ["ready", "page", "first-change", "figures"]
    assert found[1]["page"] == "http://127.0.0.1:8001/"
    assert found[2]["seconds"] >= 2.0
    assert found[3]["p99"] is None
