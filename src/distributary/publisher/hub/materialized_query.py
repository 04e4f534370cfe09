"""A query's rows, materialized for subscriptions that need more than its changes: an order, or conflation.

They start from a state that was read while changes were buffered, as for every subscriber (R18), and then
follow the channel's publications. So they always are what a subscriber that applied all of these would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from distributary.model.order import Order
from distributary.model.position import Position
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.codec.publication import (
    Publication,
    RowChange,
    decode_publication,
    encode_json,
    row_change,
)
from distributary.publisher.hub.join_buffer import JoinBuffer
from distributary.publisher.hub.resume import read_missed
from distributary.publisher.hub.snapshot import Snapshot, read_shared
from distributary.publisher.hub.subscription import Recovered
from distributary.publisher.hub.top_n import TopRows
from distributary.store.build_scan import StaleRead
from distributary.store.contract import ReaderStore

if TYPE_CHECKING:
    from distributary.publisher.hub.channel import Channel
    from distributary.publisher.hub.subscription import Subscription

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class TooManyRows(Exception):
    """The query has more rows than may be materialized."""


class RowsDiverged(Exception):
    """A row changed that is not here: changes were lost, and the rows must be read again."""


class MaterializedQuery:
    """The rows of one query. Pure. They are there once ``load`` returned True (``ready``)."""

    def __init__(self, buffer: JoinBuffer, max_rows: int, order: Order | None = None) -> None:
        self.rows: dict[str, bytes] = {}
        # The first rows, where the query has an order.
        self.top = None if order is None else TopRows(order, self.rows)
        # The build has lost some of its source's records.
        self.incomplete = False
        self._buffer = buffer
        self._max_rows = max_rows
        # The rows as a state, until one changes.
        self._snapshot: Snapshot | None = None

    @property
    def ready(self) -> bool:
        """Whether the rows are there."""
        return self._buffer.position is not None

    def position(self, seq: int) -> int:
        """Return the number at which the rows are true when the hub is at ``seq``: it may be behind them."""
        return max(seq, self._buffer.position or 0)

    def passed(self, seq: int) -> bool:
        """Return whether a hub at ``seq`` has passed the state that the rows started from."""
        return self._buffer.passed(seq)

    def load(self, snapshot: Snapshot) -> bool:
        """Start from a state; False when it must be read again. Raises TooManyRows, RowsDiverged."""
        if self.ready:
            return True
        if len(snapshot.rows) > self._max_rows:
            raise TooManyRows
        buffered = self._buffer.flush(snapshot.epoch, snapshot.seq)
        if buffered is None:
            return False
        self.rows.update(snapshot.rows)
        self.incomplete = snapshot.incomplete
        for publication in buffered:
            self._apply(publication)
        if self.top is not None:
            self.top.rank_all()
        return True

    def apply(self, publications: Sequence[Publication]) -> list[RowChange]:
        """Apply publications as they come; return the changes that subscribers are sent.

        With an order these are the changes of the first rows. Raises BufferOverflow, TooManyRows,
        RowsDiverged.
        """
        changes: list[RowChange] = []
        for publication in self._buffer.take(publications):
            change = self._apply(publication)
            if self.top is None:
                changes.append(change)
            else:
                changes += self.top.apply(change)
        if len(self.rows) > self._max_rows:
            raise TooManyRows
        return changes

    def snapshot(self, epoch: str, seq: int) -> Snapshot:
        """Return the rows as a state when the hub is at ``seq``. Encoded once until a row changes."""
        position = self.position(seq)
        found = self._snapshot
        if found is None:
            keys = self.top.keys if self.top is not None else list(self.rows)
            rows = [(key, self.rows[key]) for key in keys]
            found = self._snapshot = Snapshot(epoch, position, rows, self.incomplete)
        found.seq = position
        return found

    def _apply(self, publication: Publication) -> RowChange:
        seq, data = publication
        found = decode_publication(data)
        rows, key = self.rows, found.key
        if found.op == "add":
            rows[key] = bytes(found.row)
        elif found.op == "remove":
            rows.pop(key, None)
        elif key not in rows:
            raise RowsDiverged
        else:
            fields = _fields.decode(rows[key]) | found.changed
            for name in found.gone:
                fields.pop(name, None)
            rows[key] = encode_json(fields)
        self._snapshot = None
        return RowChange(seq, data, found.op, key, found.time)


# --- joins --------------------------------------------------------------------------------------------------


async def read_state(store: ReaderStore, subscription: Subscription, max_rows: int) -> Snapshot:
    """Return the rows as they are now. Raises StaleRead, and Refused when there are too many.

    The rows and the hub are at one position when this returns: the subscription can go live at once.
    """
    _, materialized = await _wait_for_rows(store, subscription, max_rows)
    return materialized.snapshot(subscription.follower.epoch, subscription.follower.seq)


async def _wait_for_rows(
    store: ReaderStore, subscription: Subscription, max_rows: int
) -> tuple[Channel, MaterializedQuery]:
    """Wait until the rows are there; of several that wait, the first to have the state loads it for all."""
    follower = subscription.follower
    while (channel := subscription.channel) is not None and not subscription.detached:
        materialized = channel.materialized
        assert materialized is not None
        if materialized.ready:
            return channel, materialized
        snapshot = await read_shared(store, follower.build, channel)
        if (
            subscription.detached
            or channel.materialized is not materialized
            or snapshot.epoch != follower.epoch
        ):
            break
        try:
            materialized.load(snapshot)
        except TooManyRows:
            raise Refused(codes.too_many_rows(len(snapshot.rows), max_rows)) from None
        except RowsDiverged:
            break
    raise StaleRead


async def recover(store: ReaderStore, subscription: Subscription, position: Position, max_rows: int) -> bool:
    """Send a conflated subscription the newest of every row that changed since its position.

    False when these rows are not all known. Raises StaleRead, Refused.
    """
    follower = subscription.follower
    channel, materialized = await _wait_for_rows(store, subscription, max_rows)
    if channel.query.order is not None:
        return False
    # It queues changes before the log is read, so that none falls between the two.
    conflated = channel.enter(subscription, position.seq)
    assert conflated is not None
    since = materialized.position(follower.seq)
    found = await read_missed(store, follower.build, channel.query, position)
    if subscription.detached or channel.materialized is not materialized:
        raise StaleRead
    if found is None or found.epoch != follower.epoch or found.seq < since:
        channel.undo_enter(subscription)
        return False
    subscription.answer(Recovered(found.epoch, position.seq, ()))
    subscription.end_turn()  # the rest is sent as the reader takes it
    missed = (row_change(one) for one in found.publications if one[0] <= since)
    conflated.start(missed, found.seq)
    return True
