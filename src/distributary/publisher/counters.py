"""What a publisher counts, and how long changes take from their record to here."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from distributary.httpd.connection_limits import Connections

WINDOW = 30.0
"""Percentiles are of the last one to two windows, in seconds."""

BOUNDS: tuple[int, ...] = tuple(sorted({round(1.2**i) for i in range(77)}))
"""Upper bounds of the delay's buckets in ms, each about a fifth over the last: 1 ms to 17 minutes."""

PUBLIC = tuple(
    BOUNDS[bisect_left(BOUNDS, ms)] for ms in (1, 2, 5, 10, 20, 50, 100, 250, 500, 1000, 2500, 10_000)
)
"""The bounds that the metrics show."""


class Latency:
    """A histogram of delays in ms; percentiles of late, totals since the start."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0
        self.sum = 0.0
        self._clock = clock
        self._now = [0] * (len(BOUNDS) + 1)
        self._before = [0] * (len(BOUNDS) + 1)
        self._turned = clock()

    def observe_all(self, times: Sequence[int]) -> None:
        """Note that records of these times (ms since 1970) are being published now."""
        now = self._clock()
        self._turn(now)
        ms = now * 1000
        for at in times:
            delay = ms - at
            self._now[bisect_left(BOUNDS, delay)] += 1
            self.sum += max(0.0, delay)
        self.total += len(times)

    def percentile(self, share: float) -> float | None:
        """Return the delay (ms) that ``share`` of the recent changes did not exceed; None without any."""
        self._turn(self._clock())
        both = [a + b for a, b in zip(self._now, self._before, strict=True)]
        left = sum(both) * share
        if not left:
            return None
        for bound, count in zip((*BOUNDS, BOUNDS[-1]), both, strict=True):
            left -= count
            if left <= 0 and count:
                return float(bound)
        return float(BOUNDS[-1])

    def cumulative(self) -> list[tuple[int, int]]:
        """Return (bound, how many were at or below it) for the public bounds, since the start."""
        whole = [a + b + c for a, b, c in zip(self.counts, self._now, self._before, strict=True)]
        return [(bound, sum(whole[: bisect_left(BOUNDS, bound) + 1])) for bound in PUBLIC]

    def _turn(self, now: float) -> None:
        turns = min(2, int((now - self._turned) / WINDOW))
        for _ in range(turns):
            self.counts = [a + b for a, b in zip(self.counts, self._before, strict=True)]
            self._before, self._now = self._now, [0] * (len(BOUNDS) + 1)
        if turns:
            self._turned = now


class Stats:
    """The counters of one process; ``tally`` has those of its connections."""

    def __init__(self, tally: Connections | None = None) -> None:
        self.refused_connections: Counter[str] = tally.refused if tally else Counter()
        self.slow_connections: Counter[str] = tally.timed_out if tally else Counter()
        self.connections = 0
        self.streams = 0
        self.accepted = 0
        self.deliveries = 0
        self.writes = 0
        self.bytes = 0
        self.slow = 0
        self.conflated = 0
        self.dropped = 0
        self.refused_origins = 0
        self.refused_access = 0
        self.pings = 0
        self.publishes = {"written": 0, "refused": 0}
        self.joins = {"snapshot": 0, "recovered": 0, "waiting": 0, "refused": 0}
        self.closes: dict[int, int] = {}
        self.started = time.time()
        self._latencies: dict[str, Latency] = {}

    def latency(self, view: str) -> Latency:
        """Return the histogram of a view; it outlives the view's followers, not the view."""
        return self._latencies.setdefault(view, Latency())

    def keep(self, views: Collection[str]) -> None:
        """Forget the histograms of all other views: they are gone."""
        self._latencies = {view: found for view, found in self._latencies.items() if view in views}

    def latencies(self) -> Iterable[tuple[str, Latency]]:
        """List the histograms."""
        return self._latencies.items()

    def closed(self, code: int) -> None:
        """Count a connection that was closed from here."""
        self.closes[code] = self.closes.get(code, 0) + 1
