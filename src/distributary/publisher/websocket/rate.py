"""How often a connection may speak. Pure: the caller brings the clock."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["yes", "no", "enough"]


class Rate:
    """A bucket of commands that fills at a rate, up to a burst.

    What is refused costs as well: whoever does not slow down owes more and more, and a whole burst of
    debt is enough to be closed for.
    """

    __slots__ = ("_burst", "_last", "_left", "_per_second")

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = float(burst)
        self._last: float | None = None

    def take(self, now: float) -> Verdict:
        """Ask for one command at ``now`` (seconds, never going back)."""
        if self._last is not None:
            self._left = min(self._burst, self._left + (now - self._last) * self._per_second)
        self._last = now
        self._left -= 1
        if self._left >= 0:
            return "yes"
        return "no" if self._left >= -self._burst else "enough"
