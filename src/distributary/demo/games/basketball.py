"""Basketball: many small scores, so prices glide more than they jump."""

from __future__ import annotations

import math
from random import Random
from typing import ClassVar

from distributary.demo.games.game import Market, either, line, undecided


class Basketball:
    """Points come thick and fast; the difference drifts by the sides' strengths."""

    SHORTEST: ClassVar[float] = 48.0
    LENGTH = 48.0
    OVERTIME = 5.0

    def __init__(self, rng: Random, home: str, away: str) -> None:
        self.rates = (rng.uniform(2.2, 2.5), rng.uniform(2.1, 2.45))
        self.points = [0, 0]
        self.clock = 0.0
        self.length = self.LENGTH
        self.over = False
        edge = (self.rates[0] - self.rates[1]) * self.LENGTH
        self.handicap = -(math.floor(edge) + 0.5)
        self.total = math.floor(sum(self.rates) * self.LENGTH) + 0.5
        self.markets: tuple[Market, ...] = (
            Market("winner", "Match winner", (("home", home), ("away", away))),
            Market(
                "hcap",
                "Handicap",
                (("home", f"{home} {line(self.handicap)}"), ("away", f"{away} {line(-self.handicap)}")),
            ),
            Market(
                "points",
                f"Total points {self.total}",
                (("over", f"Over {self.total}"), ("under", f"Under {self.total}")),
            ),
        )

    @property
    def score(self) -> str:
        """Home and away points."""
        return f"{self.points[0]}-{self.points[1]}"

    @property
    def period(self) -> str:
        """The quarter, or overtime."""
        if self.over:
            return "Full time"
        return f"Q{int(self.clock // 12) + 1}" if self.clock < self.LENGTH else "Overtime"

    def play(self, rng: Random, minutes: float) -> bool:
        """Run the clock; only the end of a quarter suspends."""
        before = self.period
        minutes = min(minutes, self.length - self.clock)
        self.clock += minutes
        for side, rate in enumerate(self.rates):
            if rng.random() < rate / 2.1 * minutes:
                self.points[side] += rng.choices((2, 3, 1), (60, 25, 15))[0]
        if self.clock >= self.length:
            if self.points[0] == self.points[1]:
                self.length += self.OVERTIME
            else:
                self.over = True
        return self.period != before and not self.over

    def chances(self) -> dict[str, tuple[float, ...]]:
        """Take the points that may still come as a normal distribution."""
        left = 0.0 if self.over else max(self.length - self.clock, 0.05)
        ahead = self.points[0] - self.points[1] + (self.rates[0] - self.rates[1]) * left
        total = sum(self.points) + sum(self.rates) * left
        spread = 1.9 * math.sqrt(left)
        decided = sum(self.points) > self.total
        return {
            "winner": either(_above(ahead, spread)),
            "hcap": either(_above(ahead + self.handicap, spread)),
            "points": either(1.0 if decided else _above(total - self.total, 1.3 * spread)),
        }


def _above(mean: float, spread: float) -> float:
    """Return the chance that a normal variable is over zero."""
    if spread == 0:
        return 1.0 if mean > 0 else 0.0
    return undecided(0.5 * (1.0 + math.erf(mean / spread / math.sqrt(2.0))))
