"""From probabilities to prices: the bookmaker's margin and the ladder of decimal odds.

Prices are exact decimals with two digits, always on the ladder, so always over 1.00.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from decimal import Decimal

OVERROUND = 1.05
"""The sum of the implied probabilities of one market; what exceeds 1 is the bookmaker's margin."""

LIKELIEST = 0.97
"""No outcome of an open market is priced as more probable than this."""

_STEPS = (
    # up to, by: one bet exchange's ladder, in hundredths
    (200, 1),
    (300, 2),
    (400, 5),
    (600, 10),
    (1_000, 20),
    (2_000, 50),
    (3_000, 100),
    (5_000, 200),
    (10_000, 500),
    (100_000, 1_000),
)


def _ladder() -> list[int]:
    rungs = [101]
    for top, step in _STEPS:
        while rungs[-1] < top:
            rungs.append(rungs[-1] + step)
    return rungs


LADDER = _ladder()


def on_ladder(price: float) -> Decimal:
    """Return the rung nearest to a price."""
    hundredths = price * 100
    at = bisect_left(LADDER, hundredths)
    if at == 0:
        best = LADDER[0]
    elif at == len(LADDER):
        best = LADDER[-1]
    else:
        below, above = LADDER[at - 1], LADDER[at]
        best = above if above - hundredths < hundredths - below else below
    return Decimal(best).scaleb(-2)


def tempered(chances: Sequence[float], noise: Sequence[float]) -> list[float]:
    """Shift each chance by its noise in log space and normalize them, with none close to certain."""
    floor = (1 - LIKELIEST) / (len(chances) - 1)
    weights = [max(p, floor) * math.exp(n) for p, n in zip(chances, noise, strict=True)]
    total = sum(weights)
    shares = [max(w / total, floor) for w in weights]
    # The largest is reduced by what the floors add, so that the sum stays 1.
    top = shares.index(max(shares))
    shares[top] -= sum(shares) - 1
    return shares


def prices(shares: Sequence[float]) -> list[Decimal]:
    """Price a market: each share raised to the power at which they add up to the overround.

    Unlike dividing all by one factor, this never gives a favourite a price under 1, and it
    loads long shots more than favourites, as bookmakers do.
    """
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        if sum(share**middle for share in shares) > OVERROUND:
            low = middle
        else:
            high = middle
    return [on_ladder(share**-high) for share in shares]
