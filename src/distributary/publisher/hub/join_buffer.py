"""From the hold to live without a gap and without a repeat (R18). Pure.

Hold first: from its making on, a ``Joining`` is given every publication of its channel. Then the state is
read somewhere else, true at some position. ``settle`` says what to deliver beyond that position, or that
the state is too old and must be read again. The state may also be newer than what the hub has seen: then
what comes late and is already in it is dropped, until the hub has caught up.
"""

from __future__ import annotations

from collections.abc import Sequence

from distributary.publisher.codec.websocket_frames import Pub


class Overflow(Exception):
    """More was held than is allowed; the join must fail."""


class Joining:
    """One subscriber between its hold and live. ``seq`` is where the hub was when the hold began."""

    def __init__(self, epoch: str, seq: int, *, limit: int = 1 << 62) -> None:
        self.epoch = epoch
        self.position: int | None = None
        self._from = seq
        self._limit = limit
        self._bytes = 0
        self._held: list[Pub] = []

    def take(self, pubs: Sequence[Pub]) -> Sequence[Pub]:
        """Take what the hub publishes on the channel; return what is to be delivered now."""
        position = self.position
        if position is not None:
            return pubs if pubs and pubs[0][0] > position else [pub for pub in pubs if pub[0] > position]
        self._bytes += sum(len(data) for _, data in pubs)
        if self._bytes > self._limit:
            self._held.clear()
            raise Overflow
        self._held += pubs
        return ()

    def settle(self, epoch: str, seq: int) -> Sequence[Pub] | None:
        """Take the position that the state read is true at.

        Returns what was held beyond it, to be delivered after the state; None when the state is of another
        epoch, or older than the hold: read again.
        """
        if epoch != self.epoch or seq < self._from:
            return None
        self.position = seq
        held, self._held = self._held, []
        return [pub for pub in held if pub[0] > seq]

    def live(self, seq: int) -> bool:
        """Say whether the hub, at ``seq``, has passed the state: from now on no look at numbers is needed."""
        return self.position is not None and seq >= self.position
