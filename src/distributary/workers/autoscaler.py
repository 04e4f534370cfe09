"""How many workers there should be. Pure.

One worker for every ``lag_per_worker`` records of lag, at once when more are needed. Fewer only after the
lag has been small for a while, and one at a time, since each change rebalances the consumer group.
"""

from __future__ import annotations

from dataclasses import dataclass

LAG_PER_WORKER = 1_000
CALM_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """The minimum and the maximum number of workers; ``maximum`` 0 means one for each partition."""

    minimum: int = 1
    maximum: int = 0

    def within(self, partitions: int) -> tuple[int, int]:
        """The limits for a topic: a worker more than it has partitions would have nothing to do."""
        top = max(1, partitions)
        maximum = min(self.maximum or top, top)
        return min(self.minimum, maximum), maximum

    def __str__(self) -> str:
        if self.minimum == self.maximum:
            return str(self.minimum)
        return f"{self.minimum}..{self.maximum or ''}"


def parse_limits(text: str) -> WorkerLimits:
    """Parse ``3``, ``1..4`` or ``2..``; raises ValueError."""
    first, dots, last = text.partition("..")
    try:
        minimum = int(first)
        maximum = minimum if not dots else int(last) if last else 0
    except ValueError:
        raise ValueError(f"{text!r} is not a number of workers: write 3, or 1..4") from None
    if minimum < 0 or (dots and last and maximum < max(1, minimum)):
        raise ValueError(
            f"{text!r} is not a number of workers: the minimum must not be negative, nor above the maximum"
        )
    return WorkerLimits(minimum, maximum)


class Autoscaler:
    """Decides from time to time; it remembers since when fewer workers would be enough."""

    def __init__(self, lag_per_worker: int = LAG_PER_WORKER, calm: float = CALM_SECONDS) -> None:
        self._lag_per_worker = lag_per_worker
        self._calm = calm
        self._small_since: float | None = None
        """Since when the lag has been small enough for fewer workers."""

    def decide(self, now: float, lag: int | None, running: int, partitions: int, limits: WorkerLimits) -> int:
        """Return how many there should be; an unknown ``lag`` (None) changes nothing by itself."""
        minimum, maximum = limits.within(partitions)
        bounded = min(max(running, minimum), maximum)
        if lag is None or bounded != running:
            self._small_since = None
            return bounded
        needed = min(max(-(-lag // self._lag_per_worker), minimum), maximum)
        if needed > running:
            self._small_since = None
            return needed
        # Twice as many as are needed stay: the lag to come may be larger than the last one.
        if min(max(-(-2 * lag // self._lag_per_worker), minimum), maximum) >= running:
            self._small_since = None
            return running
        if self._small_since is None:
            self._small_since = now
        if now - self._small_since < self._calm:
            return running
        self._small_since = now
        return running - 1
