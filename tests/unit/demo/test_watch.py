"""Changes reach the board through the public subscriber."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator, Mapping
from typing import Any, Self

import pytest
from rich.console import Console
from tests.support.clock import LIMIT

import distributary
from distributary.demo import watch
from distributary.demo.board import Board, Figures
from distributary.subscriber.subscribed_change import SubscribedChange

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
    asked: list[tuple[str, dict[str, Any]]] = []

    def subscribe(view: str, **more: Any) -> FakeChanges:
        asked.append((view, more))
        return FakeChanges(
            SubscribedChange("snapshot", rows={"k": ROW}),
            SubscribedChange("change", "k", ROW, time=1),
            SubscribedChange("add", "l", ROW, time=1),
            SubscribedChange("stale"),
        )

    monkeypatch.setattr(distributary, "subscribe", subscribe)
    board = Board()
    seen: list[tuple[str, str]] = []
    await watch.follow(board, "odds", "ws://here", lambda view, change: seen.append((view, change.op)))
    assert asked == [("odds", {"url": "ws://here", "timeout": watch.FIRST_SNAPSHOT})]
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
    monkeypatch.setattr(watch, "_FRAME", 0.01)
    monkeypatch.setattr(watch, "_LINE", 0.01)
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    task = asyncio.create_task(watch.show(Board(), console))
    wanted = "Ctrl-C stops everything" if terminal else "0 changes, 0/s"
    await until(lambda: wanted in out.getvalue())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ("\x1b" in out.getvalue()) == terminal


async def test_report_tells_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LINE", 0.01)
    told: list[Figures] = []
    task = asyncio.create_task(watch.report(Board(), told.append))
    await until(lambda: told)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert told[0] == Figures(0, 0.0, None, None)
