"""From subscribing to live without a gap and without a repeat (R18). Pure.

1. Buffering starts: from its creation on, a ``JoinBuffer`` is given every publication of its channel.
2. The state is read somewhere else, true at some position. Changes that are made meanwhile are in the buffer.
3. ``flush`` returns what the buffer has beyond that position, or says that the state is older than the buffer
   and must be read again: what lies between the two would be missing.
4. The state may also be newer than what the hub has published. Then publications that come late and are
   already in it are dropped, until the hub has passed its position.
"""

from __future__ import annotations

from collections.abc import Sequence

from distributary.publisher.codec.publication import Publication


class BufferOverflow(Exception):
    """More bytes were buffered than is allowed; the join must fail."""


class JoinBuffer:
    """Buffers for one subscriber between its subscribe and live."""

    def __init__(self, epoch: str, seq: int, *, max_bytes: int = 1 << 62) -> None:
        self.epoch = epoch
        # Where the state is true; None until it was read.
        self.position: int | None = None
        # Where the hub was when buffering started.
        self._start = seq
        self._max_bytes = max_bytes
        self._bytes = 0
        self._buffered: list[Publication] = []

    def take(self, publications: Sequence[Publication]) -> Sequence[Publication]:
        """Take what the hub publishes on the channel; return what is to be delivered now."""
        position = self.position
        if position is not None:
            if publications and publications[0][0] > position:
                return publications
            return [publication for publication in publications if publication[0] > position]
        self._bytes += sum(len(data) for _, data in publications)
        if self._bytes > self._max_bytes:
            self._buffered.clear()
            raise BufferOverflow
        self._buffered += publications
        return ()

    def flush(self, epoch: str, seq: int) -> Sequence[Publication] | None:
        """Take the position at which the state that was read is true.

        Returns what was buffered beyond it, to be delivered after the state. None: the state is of another
        epoch, or older than the buffer, and must be read again.
        """
        if epoch != self.epoch or seq < self._start:
            return None
        self.position = seq
        buffered, self._buffered = self._buffered, []
        return [publication for publication in buffered if publication[0] > seq]

    def passed(self, seq: int) -> bool:
        """Return whether the hub, at ``seq``, has passed the state: then no publication must be checked."""
        return self.position is not None and seq >= self.position
