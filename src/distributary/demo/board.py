"""The board in the terminal: the busiest matches, their prices, and how fast changes come.

``Board`` is the state, fed with changes; ``render`` draws it. Neither does I/O, and time is
given to them, so that both can be tested as they are.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from distributary.subscriber.subscribed_change import SubscribedChange

Row = Mapping[str, Any]

SPAN = 5.0  # seconds that the figures cover
SAMPLES = 5_000  # the latest changes whose latency is used, at most
GLOW = 1.5  # seconds for which a moved price is coloured

_RESULT = (("1x2", "home"), ("1x2", "draw"), ("1x2", "away"))
_WINNER = (("winner", "home"), None, ("winner", "away"))


@dataclass(frozen=True)
class Figures:
    """The numbers of the board; latencies in ms, None without recent changes."""

    changes: int
    rate: float
    p50: float | None
    p99: float | None


@dataclass
class Board:
    """The rows of both views, and statistics of their changes.

    Times are seconds of the wall clock: latency is the time of ``apply`` minus the record's timestamp,
    and right if this machine's clock agrees with the producer's.
    """

    addresses: Mapping[str, str] = field(default_factory=dict)
    odds: Mapping[str, Row] = field(default_factory=dict)
    matches: Mapping[str, Row] = field(default_factory=dict)
    stale: bool = False
    changes: int = 0
    _heat: Counter[str] = field(default_factory=Counter)
    """By match, how often its prices moved."""
    _moved: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By selection, the direction and the time of its last move."""
    _arrivals: deque[float] = field(default_factory=deque)
    """Times of the changes of the last SPAN seconds."""
    _delays: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    """Time and latency of these changes."""
    _prices: dict[str, Any] = field(default_factory=dict)
    """The last price of each selection."""

    def apply(self, view: str, change: SubscribedChange, rows: Mapping[str, Row], now: float) -> None:
        """Apply one change of a view; ``rows`` are the view's rows after it."""
        if view == "odds":
            self.odds = rows
        else:
            self.matches = rows
        if change.op in ("stale", "fresh"):
            self.stale = change.op == "stale"
        elif change.op == "snapshot":
            self.stale = self.stale if view == "odds" else change.stale
            if view == "odds":
                self._prices = {key: row["price"] for key, row in rows.items()}
        else:
            self._count(change, now)
            if change.key is None:
                return
            if view == "odds":
                self._move(change.key, change.row, now)
            elif change.op == "remove":
                del self._heat[change.key]

    def _count(self, change: SubscribedChange, now: float) -> None:
        self.changes += 1
        self._arrivals.append(now)
        if change.time is not None:
            self._delays.append((now, max(0.0, now * 1000 - change.time)))

    def _move(self, key: str, row: Row | None, now: float) -> None:
        if row is None:
            self._prices.pop(key, None)
            self._moved.pop(key, None)
            return
        before, price = self._prices.get(key), row["price"]
        self._prices[key] = price
        if before is not None and price != before:
            self._moved[key] = ("up" if price > before else "down", now)
            self._heat[key.partition(":")[0]] += 1

    def direction(self, key: str, now: float) -> str:
        """The direction in which a price has just moved: up, down, or "" if that was a while ago."""
        direction, since = self._moved.get(key, ("", 0.0))
        return direction if now - since < GLOW else ""

    def figures(self, now: float) -> Figures:
        """The figures of the last seconds."""
        since = now - SPAN
        while self._arrivals and self._arrivals[0] <= since:
            self._arrivals.popleft()
        while self._delays and self._delays[0][0] <= since:
            self._delays.popleft()
        ranked = sorted(delay for _, delay in self._delays)
        return Figures(
            self.changes, len(self._arrivals) / SPAN, quantile(ranked, 0.50), quantile(ranked, 0.99)
        )

    def busiest(self, n: int) -> list[str]:
        """Return the ids of the live matches with the most moves, filled up with upcoming ones.

        They come in the order of their ids, so that a line stays where it is on the screen.
        """
        order = {"live": 0, "upcoming": 1}
        rows = self.matches.items()
        found = [(order[row["status"]], -self._heat[id], id) for id, row in rows if row["status"] in order]
        return sorted((id for _, _, id in sorted(found)[:n]), key=lambda id: (len(id), id))


def quantile(ranked: Sequence[float], q: float) -> float | None:
    """Return the value below which a share q of sorted values lies (nearest rank); None of none."""
    return ranked[min(len(ranked) - 1, int(q * len(ranked)))] if ranked else None


def render(board: Board, now: float, rows: int = 10) -> RenderableType:
    """Draw the board with at most ``rows`` matches."""
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column("", width=8, no_wrap=True)
    table.add_column("match", ratio=1, no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    for head in ("1", "X", "2"):
        table.add_column(head, justify="right", width=9, no_wrap=True)
    for id in board.busiest(rows):
        match = board.matches[id]
        cells = _RESULT if f"{id}:1x2:home" in board.odds else _WINNER
        shown = [_price(board, f"{id}:{cell[0]}:{cell[1]}", now) if cell else Text("") for cell in cells]
        live = match["status"] == "live"
        table.add_row(
            Text(_clock(match), style="cyan" if live else "dim"),
            Text(str(match["name"]), style="" if live else "dim"),
            Text(str(match["score"]) if live else "", style="bold"),
            *shown,
        )
    return Group(_head(board, now), Text(), table, Text(), _addresses(board))


def _clock(match: Row) -> str:
    if match["status"] == "upcoming":
        return "soon"
    if match["sport"] == "football":
        return "HT" if match["period"] == "Half-time" else f"{match['minute']}'"
    return str(match["period"])


def _price(board: Board, key: str, now: float) -> Text:
    row = board.odds.get(key)
    if row is None:
        return Text("")
    if row["status"] != "open":
        return Text(f"{row['price']:.2f}  ", style="dim strike" if row["status"] == "suspended" else "dim")
    direction = board.direction(key, now)
    arrow, style = {"up": ("▲", "bold green"), "down": ("▼", "bold red")}.get(direction, (" ", ""))
    return Text(f"{row['price']:.2f} {arrow}", style=style)


def _head(board: Board, now: float) -> Text:
    figures = board.figures(now)
    text = Text.assemble(
        ("Distributary demo", "bold"),
        ("   ", ""),
        (f"{figures.rate:.0f}", "bold"),
        (" changes/s   latency p50 ", "dim"),
        (_ms(figures.p50), "bold"),
        ("  p99 ", "dim"),
        (_ms(figures.p99), "bold"),
    )
    if board.stale:
        text.append("   no new records from the source", style="yellow")
    return text


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.0f} s"


def _addresses(board: Board) -> Text:
    text = Text()
    for name, address in board.addresses.items():
        text.append(f"{name:<10}", style="dim").append(f"{address}\n")
    return text.append("Ctrl-C stops everything", style="dim")


def plain(board: Board, now: float) -> str:
    """Format the figures as one line, for a log."""
    figures = board.figures(now)
    live = sum(row["status"] == "live" for row in board.matches.values())
    line = (
        f"{figures.changes} changes, {figures.rate:.0f}/s, latency p50 {_ms(figures.p50)}"
        f" p99 {_ms(figures.p99)}, {live} live matches, {len(board.odds)} prices"
    )
    return f"{line}, no new records from the source" if board.stale else line
