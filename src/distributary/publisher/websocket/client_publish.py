"""Messages of clients become records of feeds: ``publish`` to the channel ``feed:NAME``.

A client is told that its message was taken only after every in-sync replica has it. One that is told of a
failure does not know whether the record was written: whoever sends again may write it twice. A message that
its topic's schema refuses is a bad request, and is kept as a dead letter.
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
"""Messages of one process that may wait for Kafka at the same time."""
LOOK_AGAIN = 2.0
"""How often the views' own feeds are looked at for a name that is not in the configuration, in seconds."""

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text = msgspec.json.Decoder(str)
_key = msgspec.json.Decoder(str | int | float | bool)


Produce = Callable[[OutgoingRecord], Awaitable[Delivered]]
"""Writes a record and returns when it is acknowledged; raises DistributaryError when it is not."""


class Inlet:
    """Where the messages of this process go. One client's messages keep their order within a record key."""

    def __init__(
        self,
        feeds: Iterable[Feed],
        store: ReaderStore,
        produce: Produce,
        *,
        in_flight: int = IN_FLIGHT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.waiting = 0
        self._configured = {feed.name: feed for feed in feeds}
        self._store = store
        self._produce = produce
        self._most = in_flight
        self._clock = clock
        self._defined: dict[str, Feed] = {}
        self._looked: float | None = None
        self._looking = asyncio.Lock()

    async def publish(self, channel: str, data: bytes, grant: Grant = OPEN) -> None:
        """Write a client's message; returns when it is acknowledged. Raises Refused."""
        name = channel.removeprefix(PREFIX)
        if name == channel:
            raise Refused(codes.denied(f"messages go to channels of the form {PREFIX}NAME"))
        try:
            grant.require_publish(name)
        except Forbidden as error:
            raise Refused(codes.denied(error.message)) from None
        if self.waiting >= self._most:
            raise Refused(codes.TOO_MANY_REQUESTS)
        self.waiting += 1
        try:
            feed = await self._feed(name)
            if feed is None or not feed.publish:
                raise Refused(codes.denied(f"no feed {name[:80]!r} takes messages of clients"))
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
        """Find a feed: in the configuration, else among those that came with views."""
        found = self._configured.get(name)
        if found is not None:
            return found
        async with self._looking:
            now = self._clock()
            if self._looked is None or now - self._looked >= LOOK_AGAIN:
                try:
                    self._defined = await self._defined_feeds()
                except Exception as error:
                    log.warning("the feeds of the views cannot be read (%s)", error or type(error).__name__)
                    raise Refused(codes.INTERNAL) from error
                self._looked = now
        return self._defined.get(name)

    async def _defined_feeds(self) -> dict[str, Feed]:
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
    """Make a message's record, key and value, by the feed's format. Raises Refused (107)."""
    if not data:
        raise Refused(codes.bad_request("a message has data"))
    if feed.format == "bytes":
        return None, data
    try:
        data.decode()  # a field that is passed over is not looked at otherwise
        if feed.format == "text":
            return None, _text.decode(data).encode()
        fields = _object.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        wanted = "a text" if feed.format == "text" else "an object"
        raise Refused(codes.bad_request(f"the data for feed {feed.name} is {wanted} in JSON")) from None
    field = feed.publish_key or feed.partitioned_by
    return (_key_of(field, fields) if field else None), data


def _key_of(field: str, fields: dict[str, msgspec.Raw]) -> bytes:
    """Read the record key out of a message: a text is its own key, anything else its JSON text."""
    found = bytes(fields.get(field, b"null")).strip()
    try:
        value = _key.decode(found)
    except (msgspec.MsgspecError, ValueError):
        why = f"the field {field[:80]!r} is the record's key: give it a text, a number or a boolean"
        raise Refused(codes.bad_request(why)) from None
    return value.encode() if isinstance(value, str) else found
