"""The games themselves: what happens on the pitch, and how probable each outcome still is.

Every game has the same shape. ``play(rng, minutes)`` lets time pass and returns whether
something happened for which a bookmaker suspends betting; ``chances()`` gives for every
market of ``markets`` the probabilities of its outcomes, which are exactly 0 and 1 once it
is decided. The clock never goes back, and a game that is ``over`` has every market decided.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar, NamedTuple, Protocol


class Market(NamedTuple):
    """One question a bet can be put on: its id within the match, its title, and its outcomes (id, label)."""

    id: str
    title: str
    outcomes: tuple[tuple[str, str], ...]


class Game(Protocol):
    """The interface of any sport."""

    SHORTEST: ClassVar[float]
    """Minutes before which no game of this sport is over."""

    clock: float
    over: bool
    markets: tuple[Market, ...]

    @property
    def score(self) -> str:
        """The score, as on the scoreboard."""

    @property
    def period(self) -> str:
        """The part of the game that is being played."""

    def play(self, rng: Random, minutes: float) -> bool:
        """Let time pass; returns whether betting must be suspended."""

    def chances(self) -> dict[str, tuple[float, ...]]:
        """The probability of every outcome of every market."""


def either(p: float) -> tuple[float, float]:
    """The chances of the two outcomes of a question."""
    return p, 1.0 - p


def undecided(p: float) -> float:
    """Bound a chance away from 0 and 1, which floating point reaches long before the game does."""
    return min(max(p, 1e-9), 1.0 - 1e-9)


def line(value: float) -> str:
    """Format a handicap with its sign."""
    return f"{value:+.1f}"
