"""Tennis: games within sets within a match."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import ClassVar

from distributary.demo.games.game import Market, either


class Tennis:
    """Best of three sets, game by game: who serves usually wins the game."""

    SHORTEST: ClassVar[float] = 30.0
    GAME = 4.0  # minutes

    def __init__(self, rng: Random, home: str, away: str) -> None:
        self.hold_chances = (round(rng.uniform(0.68, 0.88), 2), round(rng.uniform(0.68, 0.88), 2))
        self.sets: list[tuple[int, int]] = []
        self.games = (0, 0)
        self.server = rng.randrange(2)
        self.clock = 0.0
        self.next_game = self.GAME
        self.over = False
        self.markets: tuple[Market, ...] = (
            Market("winner", "Match winner", (("home", home), ("away", away))),
            *(Market(f"set{n}", f"Set {n} winner", (("home", home), ("away", away))) for n in (1, 2)),
            Market("sets25", "Total sets 2.5", (("over", "Over 2.5"), ("under", "Under 2.5"))),
        )

    @property
    def score(self) -> str:
        """Games, set by set."""
        shown = self.sets if self.over else [*self.sets, self.games]
        return " ".join(f"{home}-{away}" for home, away in shown)

    @property
    def period(self) -> str:
        """The set."""
        return "Finished" if self.over else f"Set {len(self.sets) + 1}"

    def play(self, rng: Random, minutes: float) -> bool:
        """Run the clock; a break of serve suspends."""
        self.clock += minutes
        if self.clock < self.next_game:
            return False
        self.next_game += self.GAME * rng.uniform(0.6, 1.6)
        if self.games == (6, 6):
            home_won, broken = rng.random() < _tiebreak(self.hold_chances), False
        else:
            held_serve = rng.random() < self.hold_chances[self.server]
            home_won, broken = held_serve == (self.server == 0), not held_serve
        home, away = self.games
        self.games = (home + 1, away) if home_won else (home, away + 1)
        self.server = 1 - self.server
        if _taken(*self.games) is not None:
            self.sets.append(self.games)
            self.games = (0, 0)
            self.over = max(self._won()) == 2
        return broken and not self.over

    def _won(self) -> tuple[int, int]:
        home = sum(h > a for h, a in self.sets)
        return home, len(self.sets) - home

    def chances(self) -> dict[str, tuple[float, ...]]:
        """Follow every way the set can go, then every way the match can."""
        home, away = self._won()
        next_set = (_set(self.hold_chances, 0, 0, 0) + _set(self.hold_chances, 0, 0, 1)) / 2
        now = _set(self.hold_chances, *self.games, self.server)

        def match(h: int, a: int, p: float) -> float:
            if h == 2 or a == 2:
                return 1.0 if h == 2 else 0.0
            return p * match(h + 1, a, next_set) + (1 - p) * match(h, a + 1, next_set)

        def nth(n: int) -> float:
            if n < len(self.sets):
                return 1.0 if self.sets[n][0] > self.sets[n][1] else 0.0
            return now if n == len(self.sets) else next_set

        first, second = nth(0), nth(1)
        return {
            "winner": either(match(home, away, now)),
            "set1": either(first),
            "set2": either(second),
            "sets25": either(first * (1 - second) + (1 - first) * second),
        }


def _taken(home: int, away: int) -> int | None:
    """The winner of the set (0 home, 1 away), None while it is open."""
    high, low = max(home, away), min(home, away)
    if high == 7 or (high == 6 and low <= 4):
        return 0 if home > away else 1
    return None


def _tiebreak(hold_chances: tuple[float, float]) -> float:
    return 0.5 + 0.8 * (hold_chances[0] - hold_chances[1])


@cache
def _set(hold_chances: tuple[float, float], home: int, away: int, server: int) -> float:
    taken = _taken(home, away)
    if taken is not None:
        return 1.0 - taken
    if home == away == 6:
        return _tiebreak(hold_chances)
    p = hold_chances[0] if server == 0 else 1.0 - hold_chances[1]
    return p * _set(hold_chances, home + 1, away, 1 - server) + (1 - p) * _set(
        hold_chances, home, away + 1, 1 - server
    )
