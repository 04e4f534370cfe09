"""A query's rows, kept for those who need more than its changes: the first n, or a pace of their own. Pure.

They begin from a state that was read under a hold, as every subscriber does (R18), and then follow the
channel's publications; so at any moment they are what a subscriber who applied all of them would have.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from distributary.model.order import Order
from distributary.publisher.codec import websocket_frames
from distributary.publisher.codec.publication import Step, tell
from distributary.publisher.codec.websocket_frames import Pub
from distributary.publisher.hub.join_buffer import Joining
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.top_n import Top

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class TooMany(Exception):
    """The query has more rows than may be kept."""


class Broken(Exception):
    """A row changed that is not here: something was lost, and the rows must be read anew."""


class Kept:
    """The rows of one query. They are there once ``settle`` said so (``ready``)."""

    def __init__(self, joining: Joining, most: int, order: Order | None = None) -> None:
        self.rows: dict[str, bytes] = {}
        self.top = None if order is None else Top(order, self.rows)
        self.incomplete = False
        self._joining = joining
        self._most = most
        self._snapshot: Snapshot | None = None

    @property
    def ready(self) -> bool:
        """Say whether the rows are there."""
        return self._joining.position is not None

    def at(self, seq: int) -> int:
        """Say at which number the rows are true when the hub is at ``seq``: the state may be ahead of it."""
        return max(seq, self._joining.position or 0)

    def live(self, seq: int) -> bool:
        """Say whether a hub at ``seq`` has passed the state that the rows began from."""
        return self._joining.live(seq)

    def settle(self, snapshot: Snapshot) -> bool:
        """Begin from a state; False when it must be read again. Raises TooMany, Broken."""
        if self.ready:
            return True
        if len(snapshot.rows) > self._most:
            raise TooMany
        held = self._joining.settle(snapshot.epoch, snapshot.seq)
        if held is None:
            return False
        self.rows.update(snapshot.rows)
        self.incomplete = snapshot.incomplete
        for pub in held:
            self._apply(pub)
        if self.top is not None:
            self.top.load()
        return True

    def take(self, pubs: Sequence[Pub]) -> list[Step]:
        """Apply publications as they come; returns those that a subscriber is to be told of.

        With an order these are the changes of the first rows. Raises Overflow, TooMany, Broken.
        """
        steps: list[Step] = []
        for pub in self._joining.take(pubs):
            step = self._apply(pub)
            if self.top is None:
                steps.append(step)
            else:
                steps += self.top.apply(step)
        if len(self.rows) > self._most:
            raise TooMany
        return steps

    def snapshot(self, epoch: str, seq: int) -> Snapshot:
        """Give the rows as a state; the hub is at ``seq``. Encoded once until a row changes."""
        position = self.at(seq)
        found = self._snapshot
        if found is None:
            keys = self.top.keys if self.top is not None else list(self.rows)
            rows = [(key, self.rows[key]) for key in keys]
            found = self._snapshot = Snapshot(epoch, position, rows, self.incomplete)
        found.seq = position
        return found

    def _apply(self, pub: Pub) -> Step:
        seq, data = pub
        told = tell(data)
        rows, key = self.rows, told.key
        if told.op == "add":
            rows[key] = bytes(told.row)
        elif told.op == "remove":
            rows.pop(key, None)
        elif key not in rows:
            raise Broken
        else:
            fields = _fields.decode(rows[key]) | told.changed
            for name in told.gone:
                fields.pop(name, None)
            rows[key] = websocket_frames.encode(fields)
        self._snapshot = None
        return Step(seq, data, told.op, key, told.time)
