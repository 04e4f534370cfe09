"""What the demo shows: the board, fed by a subscription, and lines of text or JSON."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.live import Live

import distributary
from distributary.demo.board import Board, Figures, plain, render
from distributary.stack.component import Event, EventKind
from distributary.subscriber.subscribed_change import SubscribedChange

VIEWS = ("odds", "matches")
FIRST_SNAPSHOT = 180.0
"""Seconds to wait for a view's first rows: on a busy machine Spark is slow to start."""

_FRAME_SECONDS = 0.2
_LINE_SECONDS = 3.0


class DemoOutput:
    """Prints lines for people, or one JSON object a line. ``began``: the start, by the monotonic clock."""

    def __init__(self, console: Console, began: float, *, as_json: bool = False) -> None:
        self.console = console
        self._began = began
        self._json = as_json
        self._had_change = False

    def on_event(self, event: Event) -> None:
        """Print what happens to the components of the stack."""
        if self._json:
            if event.kind in (EventKind.READY, EventKind.DIED, EventKind.FAILED, EventKind.STOPPED):
                self._object(event.kind, component=event.component, message=event.message)
            return
        lines = {
            EventKind.NOTE: event.message,
            EventKind.WAITING: f"{event.component:<11} waiting: {event.message}",
            EventKind.READY: f"{event.component:<11} ready after {self._elapsed():.1f} s",
            EventKind.DIED: f"{event.component:<11} died: {event.message}",
            EventKind.FAILED: f"{event.component:<11} failed: {event.message}",
        }
        if event.kind in lines:
            self._line(lines[event.kind])
            for line in event.log_tail if event.kind in (EventKind.DIED, EventKind.FAILED) else ():
                self._line(f"  {line}")

    def ready(self, addresses: Mapping[str, str]) -> None:
        """Print the address of the page."""
        page = f"{addresses['http']}/"
        if self._json:
            self._object("page", page=page, addresses=dict(addresses))
        else:
            self._line(f"\nOpen {page}\n")

    def first_change(self) -> None:
        """Print, once, that a change was received."""
        if self._had_change:
            return
        self._had_change = True
        if self._json:
            self._object("first-change")
        else:
            self._line(f"first change on screen after {self._elapsed():.1f} s")

    def figures(self, figures: Figures) -> None:
        """Print the current figures."""
        self._object("figures", **asdict(figures))

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _object(self, event: str, **more: Any) -> None:
        body = {"event": event, "seconds": round(self._elapsed(), 3), **more}
        print(json.dumps(body, ensure_ascii=False), file=self.console.file, flush=True)


async def follow(
    board: Board, view: str, url: str, on_change: Callable[[str, SubscribedChange], None]
) -> None:
    """Apply every change of one view to the board, for ever; call ``on_change(view, change)`` after each."""
    async with distributary.subscribe(view, url=url, timeout=FIRST_SNAPSHOT) as changes:
        async for change in changes:
            board.apply(view, change, changes.rows, time.time())
            on_change(view, change)


async def show(board: Board, console: Console) -> None:
    """Show the board for ever: drawn in place on a terminal, a line at intervals elsewhere."""
    if not console.is_terminal:
        while True:
            await asyncio.sleep(_LINE_SECONDS)
            console.print(plain(board, time.time()), soft_wrap=True, highlight=False)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            # What is around the table takes nine lines; the rest of the window is for matches.
            live.update(render(board, time.time(), rows=max(3, min(16, console.height - 9))), refresh=True)
            await asyncio.sleep(_FRAME_SECONDS)


async def report(board: Board, print_figures: Callable[[Figures], None]) -> None:
    """Report the figures at intervals, for ever."""
    while True:
        await asyncio.sleep(_LINE_SECONDS)
        print_figures(board.figures(time.time()))
