"""Messages of clients become records of feeds: ``publish`` to the channel ``feed:NAME``.

A message is acknowledged only after every in-sync replica has it. After an error a client does not know
whether the record was written: sending it again may write it twice. A message that its topic's schema rejects
is a bad request, and is written to the dead-letter topic.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from distributary.auth import OPEN, Grant
from distributary.errors import DistributaryError, Forbidden
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_producer import Delivered
from distributary.model.build import load_definition
from distributary.model.feed import Feed
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.store.contract import ReaderStore

log = logging.getLogger(__name__)

PREFIX = "feed:"
IN_FLIGHT = 1_000
"""How many messages of one process may wait for Kafka at the same time."""
REFRESH_SECONDS = 2.0
"""How often the feeds of the views are read at most, for a name that is not in the configuration."""

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text = msgspec.json.Decoder(str)
_key = msgspec.json.Decoder(str | int | float | bool)


Produce = Callable[[OutgoingRecord], Awaitable[Delivered]]
"""Writes a record and returns when it is acknowledged; raises DistributaryError when it is not."""


class ClientPublisher:
    """Publishes the messages of this process. One client's messages keep their order within a record key."""

    def __init__(
        self,
        feeds: Iterable[Feed],
        store: ReaderStore,
        produce: Produce,
        *,
        in_flight: int = IN_FLIGHT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # How many messages wait for Kafka.
        self.waiting = 0
        self._configured = {feed.name: feed for feed in feeds}
        self._store = store
        self._produce = produce
        self._max_in_flight = in_flight
        self._clock = clock
        # Feeds that came with views, by name.
        self._view_feeds: dict[str, Feed] = {}
        # When the feeds of the views were last read; None: never.
        self._refreshed: float | None = None
        self._refreshing = asyncio.Lock()

    async def publish(self, channel: str, data: bytes, grant: Grant = OPEN) -> None:
        """Write a client's message; returns when it is acknowledged. Raises Refused."""
        name = channel.removeprefix(PREFIX)
        if name == channel:
            raise Refused(codes.denied(f"messages can be published to channels of the form {PREFIX}NAME"))
        try:
            grant.require_publish(name)
        except Forbidden as error:
            raise Refused(codes.denied(error.message)) from None
        if self.waiting >= self._max_in_flight:
            raise Refused(codes.TOO_MANY_REQUESTS)
        self.waiting += 1
        try:
            feed = await self._feed(name)
            if feed is None or not feed.publish:
                raise Refused(codes.denied(f"no feed {name[:80]!r} accepts messages of clients"))
            key, value = record(feed, data)
            written = await self._produce(OutgoingRecord(feed.topic, value, key, sender=grant.user))
        except DistributaryError as error:
            log.warning("a message for feed %r was not written (%s)", name[:80], error)
            if error.retry:
                raise Refused(codes.unwritten("Kafka did not acknowledge the message")) from error
            raise Refused(codes.unwritten("Kafka refused the message")._replace(temporary=False)) from error
        finally:
            self.waiting -= 1
        if written.reason:
            raise Refused(codes.bad_request(f"not for feed {name}: {written.reason}"))

    async def _feed(self, name: str) -> Feed | None:
        """Return a feed of the configuration, else one that came with a view."""
        found = self._configured.get(name)
        if found is not None:
            return found
        async with self._refreshing:
            now = self._clock()
            if self._refreshed is None or now - self._refreshed >= REFRESH_SECONDS:
                try:
                    self._view_feeds = await self._read_view_feeds()
                except Exception as error:
                    log.warning("cannot read the feeds of the views (%s)", error or type(error).__name__)
                    raise Refused(codes.INTERNAL) from error
                self._refreshed = now
        return self._view_feeds.get(name)

    async def _read_view_feeds(self) -> dict[str, Feed]:
        found: dict[str, Feed] = {}
        for view in await self._store.views():
            info = await self._store.view(view)
            try:
                feeds = load_definition(info.definition)[1:] if info is not None else ()
            except (ValueError, KeyError, TypeError):
                continue  # of another version
            found.update({feed.name: feed for feed in feeds if feed is not None})
        return found


def record(feed: Feed, data: bytes) -> tuple[bytes | None, bytes]:
    """Return the key and value of a message's record, by the feed's format. Raises Refused (107)."""
    if not data:
        raise Refused(codes.bad_request("data is missing"))
    if feed.format == "bytes":
        return None, data
    try:
        data.decode()  # msgspec does not check strings that are skipped
        if feed.format == "text":
            return None, _text.decode(data).encode()
        fields = _object.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        expected = "a string" if feed.format == "text" else "an object"
        raise Refused(
            codes.bad_request(f"the data for feed {feed.name} must be {expected} in JSON")
        ) from None
    field = feed.publish_key or feed.partitioned_by
    return (_key_of(field, fields) if field else None), data


def _key_of(field: str, fields: dict[str, msgspec.Raw]) -> bytes:
    """Return the record key of a message: a string is its own key, other values are written as JSON."""
    found = bytes(fields.get(field, b"null")).strip()
    try:
        value = _key.decode(found)
    except (msgspec.MsgspecError, ValueError):
        why = f"the field {field[:80]!r} is the record's key: it must be a string, a number or a boolean"
        raise Refused(codes.bad_request(why)) from None
    return value.encode() if isinstance(value, str) else found
