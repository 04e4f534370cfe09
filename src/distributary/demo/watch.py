"""Feeds the board from the publisher, as any subscriber would be, and shows it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rich.console import Console
from rich.live import Live

import distributary
from distributary.demo.board import Board, Figures, plain, render
from distributary.subscriber.subscribed_change import SubscribedChange

VIEWS = ("odds", "matches")
FIRST_SNAPSHOT = 180.0
"""Seconds to wait for a view's first rows: on a busy machine Spark takes its time to begin."""

_FRAME = 0.2
_LINE = 3.0


async def follow(board: Board, view: str, url: str, heard: Callable[[str, SubscribedChange], None]) -> None:
    """Bring every change of one view to the board, for ever; ``heard(view, change)`` is called after each."""
    async with distributary.subscribe(view, url=url, timeout=FIRST_SNAPSHOT) as changes:
        async for change in changes:
            board.apply(view, change, changes.rows, time.time())
            heard(view, change)


async def show(board: Board, console: Console) -> None:
    """Show the board for ever: drawn in place on a terminal, a line now and then elsewhere."""
    if not console.is_terminal:
        while True:
            await asyncio.sleep(_LINE)
            console.print(plain(board, time.time()), soft_wrap=True, highlight=False)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            # What is around the table takes nine lines; the rest of the window is for matches.
            live.update(render(board, time.time(), rows=max(3, min(16, console.height - 9))), refresh=True)
            await asyncio.sleep(_FRAME)


async def report(board: Board, tell: Callable[[Figures], None]) -> None:
    """Tell the figures now and then, for ever."""
    while True:
        await asyncio.sleep(_LINE)
        tell(board.figures(time.time()))
