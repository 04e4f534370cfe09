"""From measurements to figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """What a figure should be: at most (``<=``) or at least (``>=``) a number."""

    sign: str
    number: float

    def met(self, value: float) -> bool:
        return value <= self.number if self.sign == "<=" else value >= self.number

    def __str__(self) -> str:
        return f"{self.sign} {self.number:,g}"


TARGETS = {
    "e2e_1000_p50_ms": Target("<=", 5),
    "e2e_1000_p99_ms": Target("<=", 40),
    "e2e_20_p50_ms": Target("<=", 5),
    "e2e_20_p99_ms": Target("<=", 40),
    "live_rec_s": Target(">=", 12_000),
    "catchup_rec_s": Target(">=", 40_000),
    "fanout_ratio_to_go": Target(">=", 1.8),
    "match_changes_s": Target(">=", 10_000),
    "match_cost_ratio": Target("<=", 1.5),
    "match_bytes_per_query": Target("<=", 1_000),
    "register_ms_key": Target("<=", 50),
    "register_ms_index": Target("<=", 50),
    "register_ms_any": Target("<=", 1_000),
    "rest_rows_ms": Target("<=", 1_000),
    "rest_arrow_ms": Target("<=", 1_000),
    "pace_p99_ratio": Target("<=", 2),
    "cycles_rss_growth": Target("<=", 0.02),
    "bytes_per_query_publisher": Target("<=", 8_000),
    "bytes_per_subscription": Target("<=", 4_000),
    "hostile_p99_ratio": Target("<=", 2),
}

SHARES = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest rank: the smallest value that ``share`` of all do not exceed."""
    if not ordered:
        raise ValueError("no values")
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


def summary(name: str, delays_ms: Sequence[float]) -> dict[str, float]:
    """``<name>_p50_ms`` and so on."""
    ordered = sorted(delays_ms)
    return {f"{name}_{what}_ms": round(percentile(ordered, share), 3) for what, share in SHARES.items()}


@dataclass(frozen=True)
class Sample:
    """How many records the topic had and how many were folded, at a time in seconds."""

    at: float
    ends: int
    folded: int

    @property
    def lag(self) -> int:
        return max(0, self.ends - self.folded)


@dataclass(frozen=True)
class Verdict:
    """Whether a rate was held, and what says so."""

    sustained: bool
    rate: float
    lag_end: int
    lag_max: int
    growth: float
    """Records that the lag grew by each second, over the second half."""
    why: str = ""


def judge(samples: Sequence[Sample], wanted: float, bound: float) -> Verdict:
    """A rate is sustained when the lag ends below ``bound`` seconds of records and does not grow.

    Growth is the slope over the second half; it may be 1 % of the rate, and below a quarter of a second
    of records it is only the lag breathing. The producer must have reached 98 % of the rate, or nothing
    was shown.
    """
    if len(samples) < 4:
        raise ValueError("too few samples")
    first, last = samples[0], samples[-1]
    span = last.at - first.at
    produced = (last.ends - first.ends) / span
    rate = min(produced, (last.folded - first.folded) / span)  # what was left from before is no merit
    half = samples[len(samples) // 2 :]
    growth = _slope([one.at for one in half], [float(one.lag) for one in half])
    recent = [one.lag for one in samples[-3:]]
    lag_end = sorted(recent)[1]  # one sample may fall into a pause
    whys = []
    if produced < 0.98 * wanted:
        whys.append(f"only {produced:,.0f} rec/s were produced")
    if lag_end > bound * wanted:
        whys.append(f"{lag_end:,} records behind at the end")
    if growth > 0.01 * wanted and lag_end > 0.25 * wanted:
        whys.append(f"the lag grows by {growth:,.0f} rec/s")
    return Verdict(
        not whys, round(rate, 1), lag_end, max(s.lag for s in samples), round(growth, 1), "; ".join(whys)
    )


def _slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    if not spread:
        return 0.0
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread


Say = Callable[[str], None]
"""Hears one line of progress."""
