"""Football: rare goals, each of which turns the prices over."""

from __future__ import annotations

import math
from random import Random
from typing import ClassVar

from distributary.demo.games.game import Market, either, line, undecided


class Football:
    """Goals come at random, evenly over the match, at each side's own rate."""

    SHORTEST: ClassVar[float] = 90.0
    BREAK = 3.0  # minutes; nobody wants to watch a quarter of an hour of half-time

    def __init__(self, rng: Random, home: str, away: str) -> None:
        self.rates = (rng.uniform(0.9, 2.1), rng.uniform(0.7, 1.7))
        self.goals = [0, 0]
        self.clock = 0.0
        self.length = 90.0 + rng.randint(2, 5)
        self.rest = self.BREAK
        self.over = False
        edge = self.rates[0] - self.rates[1]
        self.handicap = -1.5 if edge > 0.9 else -0.5 if edge > 0 else 0.5 if edge > -0.6 else 1.5
        self.markets: tuple[Market, ...] = (
            Market("1x2", "Match result", (("home", home), ("draw", "Draw"), ("away", away))),
            Market("ou25", "Total goals 2.5", (("over", "Over 2.5"), ("under", "Under 2.5"))),
            Market(
                "hcap",
                "Handicap",
                (("home", f"{home} {line(self.handicap)}"), ("away", f"{away} {line(-self.handicap)}")),
            ),
            Market("btts", "Both teams to score", (("yes", "Yes"), ("no", "No"))),
        )

    @property
    def score(self) -> str:
        """Home and away goals."""
        return f"{self.goals[0]}-{self.goals[1]}"

    @property
    def period(self) -> str:
        """First half, half-time, second half."""
        if self.over:
            return "Full time"
        if self.clock < 45:
            return "1st half"
        return "Half-time" if self.rest > 0 else "2nd half"

    def play(self, rng: Random, minutes: float) -> bool:
        """Run the clock; a goal suspends."""
        if self.clock >= 45 and self.rest > 0:
            self.rest -= minutes
            return False
        end = 45.0 if self.clock < 45 else self.length
        minutes = min(minutes, end - self.clock)
        self.clock += minutes
        scored = False
        for side, rate in enumerate(self.rates):
            if rng.random() < rate * minutes / 90.0:
                self.goals[side] += 1
                scored = True
        self.over = self.clock >= self.length
        return scored

    def chances(self) -> dict[str, tuple[float, ...]]:
        """Sum over the goals that may still come."""
        left = max(0.0, 1.0 - self.clock / self.length) if not self.over else 0.0
        home, away = (_poisson(rate * left) for rate in self.rates)
        win = draw = over = covered = both = 0.0
        for more_home, p_home in enumerate(home):
            for more_away, p_away in enumerate(away):
                p = p_home * p_away
                h, a = self.goals[0] + more_home, self.goals[1] + more_away
                win += p * (h > a)
                draw += p * (h == a)
                over += p * (h + a > 2.5)
                covered += p * (h + self.handicap > a)
                both += p * (h > 0 and a > 0)
        if not self.over:
            win, draw, over, covered, both = map(undecided, (win, draw, over, covered, both))
        # What no further goal can change is decided, though the match goes on.
        over = 1.0 if sum(self.goals) > 2.5 else over
        both = 1.0 if min(self.goals) > 0 else both
        return {
            "1x2": (win, draw, max(0.0, 1.0 - win - draw)),
            "ou25": either(over),
            "hcap": either(covered),
            "btts": either(both),
        }


def _poisson(mean: float) -> list[float]:
    """Return the chances of 0, 1, 2, … events, the last standing for "or more"."""
    if mean <= 0:
        return [1.0]
    terms = [math.exp(-mean)]
    for n in range(1, 9):
        terms.append(terms[-1] * mean / n)
    terms[-1] += 1.0 - sum(terms)
    return terms
