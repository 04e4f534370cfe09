"""The output of the demo, as text and as JSON."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Self

import pytest
from rich.console import Console
from tests.support.clock import LIMIT

import distributary
from distributary.demo import demo_output
from distributary.demo.board import Board, Figures
from distributary.demo.demo_output import DemoOutput
from distributary.stack.component import Event, EventKind
from distributary.subscriber.subscribed_change import SubscribedChange

ADDRESSES = {"http": "http://127.0.0.1:8001", "websocket": "ws://127.0.0.1:8000/connection/websocket"}


def demo_printer(*, as_json: bool = False) -> tuple[DemoOutput, io.StringIO]:
    out = io.StringIO()
    return DemoOutput(Console(file=out, width=40), time.monotonic() - 2.0, as_json=as_json), out


def test_page_and_first_change_are_printed_once() -> None:
    printer, out = demo_printer()
    printer.ready(ADDRESSES)
    printer.first_change()
    printer.first_change()
    lines = out.getvalue().split("\n")
    assert "Open http://127.0.0.1:8001/" in lines
    assert [line for line in lines if line.startswith("first change")] == [
        "first change on screen after 2.0 s"
    ]


def test_dead_component_shows_the_end_of_its_log() -> None:
    printer, out = demo_printer()
    printer.on_event(
        Event(EventKind.DIED, "kafka", "was killed by SIGKILL", log_tail=["[ERROR] out of memory"])
    )
    assert out.getvalue() == "kafka       died: was killed by SIGKILL\n  [ERROR] out of memory\n"


def test_unimportant_events_are_not_printed() -> None:
    printer, out = demo_printer()
    for kind in (EventKind.STARTING, EventKind.STOPPING, EventKind.STOPPED):
        printer.on_event(Event(kind, "kafka"))
    assert out.getvalue() == ""


def test_json_output_is_one_object_a_line() -> None:
    printer, out = demo_printer(as_json=True)
    printer.on_event(Event(EventKind.READY, "kafka", ""))
    printer.on_event(Event(EventKind.NOTE, message="fetching jars"))
    printer.ready(ADDRESSES)
    printer.first_change()
    printer.figures(Figures(10, 2.0, 5.0, None))
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [one["event"] for one in found] == ["ready", "page", "first-change", "figures"]
    assert found[1]["page"] == "http://127.0.0.1:8001/"
    assert found[2]["seconds"] >= 2.0
    assert found[3]["p99"] is None


ROW = {"price": 2, "status": "open"}


class FakeChanges:
    """Gives what it was made with, then ends."""

    def __init__(self, *changes: SubscribedChange) -> None:
        self._changes: Iterator[SubscribedChange] = iter(changes)
        self.rows: Mapping[str, Any] = {"k": ROW}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SubscribedChange:
        try:
            return next(self._changes)
        except StopIteration:
            raise StopAsyncIteration from None


async def test_follow_counts_changes_but_not_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    subscribed: list[tuple[str, dict[str, Any]]] = []

    def subscribe(view: str, **more: Any) -> FakeChanges:
        subscribed.append((view, more))
        return FakeChanges(
            SubscribedChange("snapshot", rows={"k": ROW}),
            SubscribedChange("change", "k", ROW, time=1),
            SubscribedChange("add", "l", ROW, time=1),
            SubscribedChange("stale"),
        )

    monkeypatch.setattr(distributary, "subscribe", subscribe)
    board = Board()
    seen: list[tuple[str, str]] = []
    await demo_output.follow(board, "odds", "ws://here", lambda view, change: seen.append((view, change.op)))
    assert subscribed == [("odds", {"url": "ws://here", "timeout": demo_output.FIRST_SNAPSHOT})]
    assert seen == [("odds", op) for op in ("snapshot", "change", "add", "stale")]
    assert board.changes == 2
    assert board.odds == {"k": ROW}
    assert board.stale


async def until(condition: Any) -> None:
    async with asyncio.timeout(5 * LIMIT):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("terminal", [False, True])
async def test_show_draws_on_a_terminal_and_prints_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr(demo_output, "_FRAME_SECONDS", 0.01)
    monkeypatch.setattr(demo_output, "_LINE_SECONDS", 0.01)
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    task = asyncio.create_task(demo_output.show(Board(), console))
    wanted = "Ctrl-C stops everything" if terminal else "0 changes, 0/s"
    await until(lambda: wanted in out.getvalue())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ("\x1b" in out.getvalue()) == terminal


async def test_report_prints_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_output, "_LINE_SECONDS", 0.01)
    printer: list[Figures] = []
    task = asyncio.create_task(demo_output.report(Board(), printer.append))
    await until(lambda: printer)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert printer[0] == Figures(0, 0.0, None, None)
