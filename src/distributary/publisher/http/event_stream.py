"""HTTP streams: ``GET /v1/views/{view}/events``, the same joins and changes as over WebSocket.

They are server-sent events, or lines of JSON where the request accepts only those. Events are ``snapshot``
(pages; all but the last say ``more``), ``ready``, ``change``, ``stale`` (a notice: stale or fresh),
``waiting`` and ``end``. Only ``ready`` and ``change`` carry an id, ``epoch:seq``: a stream that breaks inside
a snapshot begins again with a snapshot.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from aiohttp import web

from distributary.auth import Grant, GrantSet
from distributary.auth.metering import CONNECT, measured
from distributary.auth.reservations import Reservation
from distributary.config import Config
from distributary.errors import BadQuery, DistributaryError
from distributary.httpd.authorization import grants_of
from distributary.httpd.listener import client_of
from distributary.model.position import Position, read_start
from distributary.model.query import Query
from distributary.model.query_params import ChannelQuery, channel_query, optional_fields, single, url_keys
from distributary.publisher.access_control import Door, counted, narrowed
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending, Refusal, Refused
from distributary.publisher.http.stream_sink import EventSink, shape_of
from distributary.publisher.hub import state_budget
from distributary.publisher.hub.conflation import OPTIONS, read_pace
from distributary.publisher.hub.hub import Count, Hub, Wish
from distributary.publisher.metrics import Stats

HEARTBEAT = 15.0
PARAMETERS = (
    *("where", "key", "keys", "order", "limit", "fields", "from", *OPTIONS, "subscription"),
    *("last_event_id", "token"),
)

_ERRORS = {
    codes.UNKNOWN_CHANNEL.code: (404, "not-found"),
    codes.BAD_REQUEST.code: (400, "bad-query"),
    codes.BUILDING.code: (503, "view-building"),
    codes.LIMIT_EXCEEDED.code: (429, "limit-exceeded"),
    codes.INTERNAL.code: (503, "store-unavailable"),
    codes.BUSY.code: (503, "busy"),
    codes.PERMISSION_DENIED.code: (403, "forbidden"),
    codes.TOO_MANY_REQUESTS.code: (429, "too-many-requests"),
}


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
        held, view = grants_of(request), request.match_info["view"]
        sink = EventSink(
            self._queue_bytes,
            lambda: self._too_slow(request),
            shape,
            lambda epoch: held.visible_epoch(view, epoch),
        )
        with contextlib.ExitStack() as stay:
            return await self._joined(request, sink, held, stay)

    async def _joined(
        self, request: web.Request, sink: EventSink, held: GrantSet, stay: contextlib.ExitStack
    ) -> web.StreamResponse:
        try:
            # First: who is over its limits comes again and again, and should cost as little as can be.
            count = await self._counting(request, held.grants[0], sink, stay)
            wish = replace(permitted(wish_of(request), held), count=count)
            sink.fields = wish.asked.fields
            with self._door.limiter.metered(held.grants[0]):
                member = await measured(self._hub.join(wish, sink))
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
            sink.release()

    async def _counting(
        self, request: web.Request, grant: Grant, sink: EventSink, stay: contextlib.ExitStack
    ) -> Count:
        """Count a stream as its user's until it ends, and so its query once that is known. Raises Refused."""
        limiter, roll = self._door.limiter, self._door.roll
        address = client_of(request)
        shares = limiter.connection_reservations(grant, address)
        try:
            limiter.charge(grant, CONNECT)
            await limiter.count_request(grant)
            await limiter.reservations.take(shares)
        except DistributaryError as error:
            raise codes.to_refused(error) from None
        stay.callback(limiter.reservations.release, shares)
        roll.enter(grant, sink)
        stay.callback(roll.leave, grant, sink)
        taken: list[Reservation] = []

        async def count(query: Query) -> Reservation | None:
            if not taken:
                taken.extend(await counted(limiter, grant, query, address))
                stay.callback(limiter.reservations.release, taken)
            return taken[0] if taken else None

        return count

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
                data, state = await sink.take(self._heartbeat)
                try:
                    async with asyncio.timeout(state_budget.STALL if state else None):
                        await response.write(data or sink.shape.heartbeat)
                except TimeoutError:
                    self._too_slow(request)
                    break
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
    for name in query:
        if name not in PARAMETERS:
            known = ", ".join(sorted(PARAMETERS))
            raise BadQuery(f"unknown parameter {name[:80]!r}", hint=f"there are {known}")
    subscription = query.get("subscription", "")
    wheres = query.getall("where", [])
    keys = url_keys(query)
    if subscription:
        if wheres or keys or "order" in query or "limit" in query:
            raise BadQuery("a subscription has its query already", hint="leave where, key and order out")
        asked = ChannelQuery(view, None, "", optional_fields(single(query, "fields")))
    else:
        asked = channel_query(
            view, wheres, keys, single(query, "fields"), single(query, "order"), single(query, "limit")
        )
    last = request.headers.get("Last-Event-ID") or query.get("last_event_id") or ""
    position: Position | None = None
    if last:
        try:
            position = Position.parse(last)
        except ValueError:
            position = Position("", 0)  # of no epoch: the state comes anew
    since = single(query, "from")
    start = read_start(since) if since is not None and position is None else None
    return Wish(asked, subscription, position, since=start, pace=read_pace(query))


def permitted(wish: Wish, held: GrantSet) -> Wish:
    """Narrow a wish to what the caller may have. Raises Refused, BadQuery."""
    asked = narrowed(wish.asked, held)
    position, since = wish.position, wish.since
    if position is not None:
        position = held.store_position(asked.view, position)
    if isinstance(since, Position):
        since = held.store_position(asked.view, since)
    return replace(wish, asked=asked, position=position, since=since, held=held)


def refused(refusal: Refusal) -> web.Response:
    """Answer a request that gets no stream. A client that may try again is told when."""
    status, code = _ERRORS.get(refusal.code, (400, "refused"))
    body = {"code": code, "message": refusal.message, "hint": "", "retry": refusal.temporary}
    headers = {"Retry-After": "1"} if refusal.temporary else {}
    return web.json_response({"error": body}, status=status, headers=headers)
