"""HTTP streams: ``GET /v1/views/{view}/events``, the same joins and changes as over WebSocket.

They are server-sent events, or lines of JSON where the request accepts only those. Events are ``snapshot``
(pages; all but the last say ``more``), ``ready``, ``change``, ``stale`` (a notice: stale or fresh),
``waiting`` and ``end``. Only ``ready`` and ``change`` carry an id, ``epoch:seq``: a stream that breaks inside
a snapshot begins again with a snapshot.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace

from aiohttp import web
from multidict import MultiMapping

from distributary.config import Config
from distributary.errors import BadQuery, TokenRefused
from distributary.model.fields import Fields
from distributary.model.position import Position
from distributary.model.start import read_start
from distributary.permit import Held
from distributary.publish.access import refusals
from distributary.publish.access.door import Door
from distributary.publish.hub import names
from distributary.publish.hub.channel import Initial, Outcome, Outlet, Recovered, Tier
from distributary.publish.hub.fields import projected
from distributary.publish.hub.hub import Hub, Wish
from distributary.publish.hub.pace import OPTIONS, read_pace
from distributary.publish.hub.snapshot import Snapshot
from distributary.publish.stats import Stats
from distributary.publish.stream.access import held_of
from distributary.publish.stream.events import SSE, EventOutlet, Shape, shape_of
from distributary.publish.wire import codes, frames
from distributary.publish.wire.codes import Ending, Refusal, Refused

HEARTBEAT = 15.0
PAGE_BYTES = 65_536

_ERRORS = {
    codes.UNKNOWN_CHANNEL.code: (404, "not-found"),
    codes.BAD_REQUEST.code: (400, "bad-query"),
    codes.BUILDING.code: (503, "view-building"),
    codes.LIMIT_EXCEEDED.code: (400, "limit-exceeded"),
    codes.INTERNAL.code: (503, "store-unavailable"),
    codes.PERMISSION_DENIED.code: (403, "forbidden"),
    codes.LIMIT_EXCEEDED.code: (429, "limit-exceeded"),
}


class EventSink:
    """Implements ``Sink`` for one stream: what is written waits here, bounded, for the handler to send."""

    def __init__(
        self,
        limit: int,
        too_slow: Callable[[], object] = lambda: None,
        shape: Shape = SSE,
        epoch: Callable[[str], str] = str,
        fields: Fields | None = None,
    ) -> None:
        self.over = False
        self.shape = shape
        self.fields = fields
        self._epoch = epoch
        self._limit = limit
        self._too_slow = too_slow
        self._waiting: list[bytes] = []
        self._size = 0
        self._some = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Add to what waits; over the limit the stream ends, and the client resumes by its last id."""
        if self.over:
            return
        if self._size + len(data) > self._limit:
            self.over = True
            self._waiting.clear()
            self._too_slow()
        else:
            self._waiting.append(data)
            self._size += len(data)
        self._some.set()

    def room(self) -> int:
        """Say how much may wait beside what waits."""
        return min(frames.ROOM, self._limit // 2) - sum(map(len, self._waiting))

    def write_state(self, data: bytes) -> None:
        """Add an initial state, which may be larger than what else may wait."""
        if not self.over:
            self._waiting.append(data)
            self._some.set()

    @property
    def empty(self) -> bool:
        """Say whether nothing waits."""
        return not self._waiting

    async def take(self, timeout: float) -> bytes:
        """Wait for something to send; empty when nothing came in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._some.wait()
        self._some.clear()
        waiting, self._waiting, self._size = self._waiting, [], 0
        return b"".join(waiting)

    def outlet(self) -> Outlet:
        """All streams of a query and a list of fields share one encoding for each shape.

        How positions are told is part of it.
        """
        return projected(EventOutlet(self.shape, self._epoch), self.fields)

    def joined(self, outcome: Outcome) -> None:
        """Write the state or what was missed, then that the stream is ready."""
        if isinstance(outcome, Recovered):
            if outcome.whole:
                # Without ids: a stream that breaks between them begins again where it began.
                for _, data in outcome.pubs:
                    self.write_state(self.shape.event("change", data))
            elif outcome.pubs:
                self.write_state(self.shape.changes(self._epoch(outcome.epoch), outcome.pubs))
            self._ready(outcome.epoch, outcome.seq, outcome.tier)
        elif isinstance(outcome, Initial):
            self.begun(outcome.snapshot, outcome.stale)
        else:
            self.write(self.shape.event("waiting", b'{"op":"waiting"}'))

    def begun(self, snapshot: Snapshot, stale: bool) -> None:
        """Write the state in pages, then that the stream is ready."""
        for page in snapshot.pages(stale=stale, size=PAGE_BYTES):
            self.write_state(self.shape.event("snapshot", page))
        self._ready(snapshot.epoch, snapshot.seq, "snapshot")

    def _ready(self, epoch: str, seq: int, tier: Tier) -> None:
        position = f"{self._epoch(epoch)}:{seq}"
        recovered = b"false" if tier == "snapshot" else b"true"
        data = b'{"op":"ready","position":%b,"recovered":%b,"tier":"%b"}' % (
            frames.encode(position),
            recovered,
            tier.encode(),
        )
        self.write_state(self.shape.event("ready", data, position))

    def expel(self, error: TokenRefused) -> None:
        """End the stream: what its caller showed no longer counts."""
        said = refusals.answer(error, connected=True)
        self.ended(said if isinstance(said, Ending) else codes.EXPIRED)

    def ended(self, ending: Ending) -> None:
        """End the stream; the client comes back with its last id, or learns that there is nothing."""
        reason = b'{"code":%d,"reason":%b}' % (ending.code, frames.encode(ending.reason))
        self._waiting.append(self.shape.event("end", reason))
        self.over = True
        self._some.set()


class Events:
    """The handler of the stream's address."""

    def __init__(
        self,
        hub: Hub,
        stats: Stats,
        *,
        queue_bytes: int,
        heartbeat: float = HEARTBEAT,
        door: Door | None = None,
    ) -> None:
        self._hub = hub
        self._door = door or Door(Config(), hub.store)
        self._stats = stats
        self._queue_bytes = queue_bytes
        self._heartbeat = heartbeat
        self._open: dict[asyncio.Task[object], None] = {}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request until either side ends it."""
        shape = shape_of(request.headers.get("Accept", ""))
        held, view = held_of(request), request.match_info["view"]
        sink = EventSink(
            self._queue_bytes, lambda: self._too_slow(request), shape, lambda epoch: held.epoch(view, epoch)
        )
        with contextlib.ExitStack() as stay:
            return await self._joined(request, sink, held, stay)

    async def _joined(
        self, request: web.Request, sink: EventSink, held: Held, stay: contextlib.ExitStack
    ) -> web.StreamResponse:
        try:
            wish = permitted(wish_of(request), held)
            sink.fields = wish.asked.fields
            stay.enter_context(self._door.staying(held.grants[0], sink))
            member = await self._hub.join(wish, sink)
        except BadQuery as error:
            return refused(codes.bad_request(str(error)))
        except Refused as error:
            if error.refusal.temporary and "text/event-stream" in request.headers.get("Accept", ""):
                # A browser gives up for good on any status but 200; so it gets a stream that ends.
                sink.ended(Ending(error.refusal.code, error.refusal.message))
                return await self._stream(request, sink)
            return refused(error.refusal)
        self._stats.streams += 1
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = None
        try:
            return await self._stream(request, sink)
        finally:
            self._open.pop(task)
            self._stats.streams -= 1
            self._hub.leave(member, end=False)

    async def _stream(self, request: web.Request, sink: EventSink) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                "Content-Type": sink.shape.content_type,
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        with contextlib.suppress(ConnectionError):  # the reader left
            await response.prepare(request)
            if sink.shape.first:
                await response.write(sink.shape.first)
            while not (sink.over and sink.empty):
                await response.write(await sink.take(self._heartbeat) or sink.shape.heartbeat)
        return response

    def _too_slow(self, request: web.Request) -> None:
        self._stats.slow += 1
        if request.transport is not None:
            request.transport.abort()

    def stop(self) -> None:
        """End all streams; their clients come back."""
        for task in list(self._open):
            task.cancel()


def wish_of(request: web.Request) -> Wish:
    """Read what a request asks for. Raises BadQuery."""
    view, query = request.match_info["view"], request.query
    known = {"where", "key", "keys", "order", "limit", "fields", "from", *OPTIONS, "subscription"}
    known |= {"last_event_id", "token"}
    for name in query:
        if name not in known:
            raise BadQuery(f"unknown parameter {name[:80]!r}", hint=f"there are {', '.join(sorted(known))}")
    subscription = query.get("subscription", "")
    wheres = query.getall("where", [])
    keys = query.getall("key", []) + [one for some in query.getall("keys", []) for one in some.split(",")]
    if subscription:
        if wheres or keys or "order" in query or "limit" in query:
            raise BadQuery("a subscription has its query already", hint="leave where, key and order out")
        asked = names.Asked(view, None, "", names.chosen(_one(query, "fields")))
    else:
        asked = names.of(
            view, wheres, keys, _one(query, "fields"), _one(query, "order"), _one(query, "limit")
        )
    last = request.headers.get("Last-Event-ID") or query.get("last_event_id") or ""
    position: Position | None = None
    if last:
        try:
            position = Position.parse(last)
        except ValueError:
            position = Position("", 0)  # of no epoch: the state comes anew
    since = _one(query, "from")
    start = read_start(since) if since is not None and position is None else None
    return Wish(asked, subscription, position, since=start, pace=read_pace(query))


def _one(query: MultiMapping[str], name: str) -> str | None:
    found = query.getall(name, [])
    if len(found) > 1:
        raise BadQuery(f"{name} is given {len(found)} times", hint="give it once")
    return found[0] if found else None


def permitted(wish: Wish, held: Held) -> Wish:
    """Narrow a wish to what the caller may have. Raises Refused, BadQuery."""
    asked = refusals.narrowed(wish.asked, held)
    position, since = wish.position, wish.since
    if position is not None:
        position = held.position(asked.view, position)
    if isinstance(since, Position):
        since = held.position(asked.view, since)
    return replace(wish, asked=asked, position=position, since=since, held=held)


def refused(refusal: Refusal) -> web.Response:
    """Answer a request that gets no stream. A client that may try again is told when."""
    status, code = _ERRORS.get(refusal.code, (400, "refused"))
    body = {"code": code, "message": refusal.message, "hint": "", "retry": refusal.temporary}
    headers = {"Retry-After": "1"} if refusal.temporary else {}
    return web.json_response({"error": body}, status=status, headers=headers)
