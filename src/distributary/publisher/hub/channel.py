"""The subscriptions of one query in this process, and in which encodings they are sent its publications.

A channel has one encoder for every WebSocket channel name and format (the name is in every frame) and one for
every kind of HTTP stream. What is published is encoded once per encoder, then written to all its live
subscriptions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from distributary.model.field_mask import FieldMask
from distributary.model.query import Query
from distributary.publisher.codec.publication import Publication, project_publications
from distributary.publisher.hub.conflation import ConflatedSubscription
from distributary.publisher.hub.join_buffer import JoinBuffer
from distributary.publisher.hub.materialized_query import MaterializedQuery
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.subscription import ChannelEncoder, Subscription, Write


class Channel:
    """One query of one view, and its subscriptions."""

    def __init__(self, number: int, query: Query) -> None:
        # What log entries call the query.
        self.number = number
        self.query = query
        # The encodings in use, with the subscriptions that are sent every publication.
        self.encoders: dict[str, ChannelEncoder] = {}
        # Those that have no state yet.
        self.joining: dict[Subscription, None] = {}
        # The read that all of them wait for, while there is one.
        self.reading: asyncio.Task[Snapshot] | None = None
        # How large the state was that was sent last: the next one is about as large.
        self.last_size: int | None = None
        # The query's rows, as long as any subscription needs them: those that are conflated, and all where
        # the query has an order.
        self.materialized: MaterializedQuery | None = None
        self.needs_rows: dict[Subscription, None] = {}
        # The live ones that are conflated.
        self.conflated: dict[Subscription, ConflatedSubscription] = {}

    @property
    def empty(self) -> bool:
        """Whether no subscription is left."""
        return not self.encoders and not self.joining and not self.conflated

    @property
    def size(self) -> int:
        """How many subscriptions there are, live and joining."""
        return len(self.subscriptions())

    def subscriptions(self) -> list[Subscription]:
        """Return all subscriptions."""
        live = (one for encoder in self.encoders.values() for one in encoder.live)
        return list(dict.fromkeys([*self.joining, *live, *self.conflated]))

    def start_buffering(self, subscription: Subscription, buffer: JoinBuffer) -> None:
        """Buffer publications for a subscription that joins, from now on."""
        subscription.channel = self
        subscription.buffer = buffer
        self.joining[subscription] = None

    def materialize(self, subscription: Subscription, buffer: JoinBuffer, max_rows: int) -> None:
        """Materialize the query's rows for a subscription that joins, unless they are already."""
        subscription.channel = self
        self.joining[subscription] = None
        self.needs_rows[subscription] = None
        if self.materialized is None:
            self.materialized = MaterializedQuery(buffer, max_rows, self.query.order)

    def enter(self, subscription: Subscription, after: int = 0) -> ConflatedSubscription | None:
        """Make a subscription live whose subscriber has the materialized rows, or those at ``after``.

        Returns what sends it the newest rows, to be started, where it is conflated.
        """
        if subscription.conflation is None or self.materialized is None:
            self.go_live(subscription)
            return None
        self.joining.pop(subscription, None)
        found = self.conflated[subscription] = ConflatedSubscription(
            subscription, self, self.materialized, subscription.conflation, after
        )
        return found

    def undo_enter(self, subscription: Subscription) -> None:
        """Let a conflated subscription join again."""
        self.conflated.pop(subscription).stop()
        self.joining[subscription] = None

    def go_live(self, subscription: Subscription) -> None:
        """Write every publication to a subscription from now on."""
        self.joining.pop(subscription, None)
        subscription.buffer = None
        own = subscription.sink.encoder()
        encoder = subscription.encoder = self.encoders.setdefault(own.key, own)
        encoder.live[subscription] = subscription.sink.write

    def leave_encoder(self, subscription: Subscription) -> None:
        """Stop writing every publication to a subscription; an encoder goes with its last one."""
        encoder, subscription.encoder = subscription.encoder, None
        if encoder is not None:
            encoder.live.pop(subscription, None)
            if not encoder.live:
                self.encoders.pop(encoder.key, None)

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription; the materialized rows go with the last one that needs them."""
        self.joining.pop(subscription, None)
        subscription.buffer = None
        self.leave_encoder(subscription)
        conflated = self.conflated.pop(subscription, None)
        if conflated is not None:
            conflated.stop()
        self.needs_rows.pop(subscription, None)
        if not self.needs_rows:
            self.materialized = None


class ProjectedEncoder:
    """Implements ``ChannelEncoder``: another encoder, for some fields of the rows.

    Each publication is projected by itself, once for all who requested the same fields of the same channel. A
    change of other fields alone is not sent, so the numbers have more gaps; a later position covers what was
    left out.
    """

    def __init__(self, inner: ChannelEncoder, fields: FieldMask) -> None:
        self.key = f"{inner.key}\0{fields.text}"
        self.live: dict[Subscription, Write] = {}
        self._inner = inner
        self._fields = fields

    def encode(self, epoch: str, publications: Sequence[Publication]) -> bytes:
        """Encode what these publications say about the fields."""
        found = project_publications(self._fields, publications)
        return self._inner.encode(epoch, found) if found else b""

    def encode_notice(self, data: bytes) -> bytes:
        """Encode a notice: it is not about rows."""
        return self._inner.encode_notice(data)


def projected(encoder: ChannelEncoder, fields: FieldMask | None) -> ChannelEncoder:
    """Restrict an encoder to some fields; None: all."""
    return encoder if fields is None else ProjectedEncoder(encoder, fields)
