"""How many workers there should be. Pure.

One worker for every ``per`` records that wait, at once when more are needed. Fewer only after the lag has
been small for a while, and one at a time: each change makes the group share its partitions out anew.
"""

from __future__ import annotations

from dataclasses import dataclass

PER = 1_000
CALM = 30.0


@dataclass(frozen=True, slots=True)
class Span:
    """How few and how many workers there may be; ``most`` 0 is as many as there are partitions."""

    least: int = 1
    most: int = 0

    def within(self, partitions: int) -> tuple[int, int]:
        """The span for a topic: a worker more than it has partitions would have nothing to do."""
        top = max(1, partitions)
        most = min(self.most or top, top)
        return min(self.least, most), most

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least}..{self.most or ''}"


def parse_span(text: str) -> Span:
    """Read ``3``, ``1..4`` or ``2..``; raises ValueError."""
    first, dots, last = text.partition("..")
    try:
        least = int(first)
        most = least if not dots else int(last) if last else 0
    except ValueError:
        raise ValueError(f"{text!r} is no number of workers: write 3, or 1..4") from None
    if least < 0 or (dots and last and most < max(1, least)):
        raise ValueError(f"{text!r} is no number of workers: the first is 0 or more, the second not less")
    return Span(least, most)


class Scaler:
    """Decides from time to time; it remembers since when fewer would do."""

    def __init__(self, per: int = PER, calm: float = CALM) -> None:
        self._per = per
        self._calm = calm
        self._since: float | None = None

    def decide(self, now: float, lag: int | None, running: int, partitions: int, span: Span) -> int:
        """Say how many there should be; ``lag`` None is not known, and changes nothing by itself."""
        least, most = span.within(partitions)
        inside = min(max(running, least), most)
        if lag is None or inside != running:
            self._since = None
            return inside
        if min(max(-(-lag // self._per), least), most) > running:
            self._since = None
            return min(max(-(-lag // self._per), least), most)
        # Twice as many as are needed are kept: what comes next may be more than what came last.
        if min(max(-(-2 * lag // self._per), least), most) >= running:
            self._since = None
            return running
        if self._since is None:
            self._since = now
        if now - self._since < self._calm:
            return running
        self._since = now
        return running - 1
