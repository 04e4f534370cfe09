"""HTTP streams: ``GET /v1/views/{view}/events``, the same joins and changes as over WebSocket.

They are server-sent events, or lines of JSON where the request accepts only those. Events are ``snapshot``
(pages; all but the last say ``more``), ``ready``, ``change``, ``stale`` (a notice: stale or fresh),
``waiting`` and ``end``. Only ``ready`` and ``change`` have an id, ``epoch:seq``: a stream that breaks inside
a snapshot starts again with a snapshot.
"""

from __future__ import annotations

import asyncio
import contextlib

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
from distributary.model.query_params import (
    ChannelQuery,
    channel_query,
    optional_fields,
    single,
    url_keys,
)
from distributary.publisher.access_control import AccessControl, count_query, narrowed
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending, Refusal, Refused
from distributary.publisher.codec.subscribe_options import (
    CONFLATION_OPTIONS,
    SubscribeCommand,
    read_conflation,
)
from distributary.publisher.http.stream_sink import StreamSink, stream_format
from distributary.publisher.hub import state_budget
from distributary.publisher.hub.hub import Hub
from distributary.publisher.hub.subscription import CountQuery, SubscribeRequest
from distributary.publisher.metrics import Counters

HEARTBEAT = 15.0
PARAMETERS = (
    *("where", "key", "keys", "order", "limit", "fields", "from", *CONFLATION_OPTIONS, "subscription"),
    *("last_event_id", "token"),
)

_ERRORS = {
    codes.UNKNOWN_CHANNEL.code: (404, "not-found"),
    codes.BAD_REQUEST.code: (400, "bad-query"),
    codes.BUILDING.code: (503, "view-building"),
    codes.LIMIT_EXCEEDED.code: (429, "limit-exceeded"),
    codes.INTERNAL.code: (503, "store-unavailable"),
    codes.PERMISSION_DENIED.code: (403, "forbidden"),
    codes.TOO_MANY_REQUESTS.code: (429, "too-many-requests"),
}
"""The HTTP status and error code of a refusal, by its code in the client protocol."""


class EventStreams:
    """The handler of the stream's route, and all streams that are open."""

    def __init__(
        self,
        hub: Hub,
        stats: Counters,
        *,
        queue_bytes: int,
        heartbeat: float = HEARTBEAT,
        access: AccessControl | None = None,
    ) -> None:
        self._hub = hub
        self._access = access or AccessControl(Config(), hub.store)
        self._stats = stats
        # How much may wait for one reader, and after how many idle seconds a heartbeat is sent.
        self._queue_bytes = queue_bytes
        self._heartbeat = heartbeat
        # The tasks of the streams that have joined.
        self._open: dict[asyncio.Task[object], None] = {}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request until either side ends it."""
        format = stream_format(request.headers.get("Accept", ""))
        grants, view = grants_of(request), request.match_info["view"]
        sink = StreamSink(
            self._queue_bytes,
            lambda: self._too_slow(request),
            format,
            lambda epoch: grants.visible_epoch(view, epoch),
        )
        with contextlib.ExitStack() as cleanup:
            return await self._serve(request, sink, grants, cleanup)

    async def _serve(
        self, request: web.Request, sink: StreamSink, grants: GrantSet, cleanup: contextlib.ExitStack
    ) -> web.StreamResponse:
        try:
            # First, so that a client over its limits, which retries again and again, costs as little as
            # possible.
            count = await self._count(request, grants.grants[0], sink, cleanup)
            query, command = read_request(request)
            join = SubscribeRequest.of(command, narrowed(query, grants), grants, count)
            sink.fields = join.query.fields
            with self._access.limiter.metered(grants.grants[0]):
                subscription = await measured(self._hub.join(join, sink))
        except BadQuery as error:
            return refused(codes.bad_request(str(error)))
        except Refused as error:
            if error.refusal.temporary and "text/event-stream" in request.headers.get("Accept", ""):
                # A browser gives up for good on any status but 200, so it gets a stream that ends.
                sink.end(Ending(error.refusal.code, error.refusal.message))
                return await self._send(request, sink)
            return refused(error.refusal)
        self._stats.streams += 1
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = None
        try:
            return await self._send(request, sink)
        finally:
            self._open.pop(task)
            self._stats.streams -= 1
            self._hub.leave(subscription, end=False)
            sink.release()

    async def _count(
        self, request: web.Request, grant: Grant, sink: StreamSink, cleanup: contextlib.ExitStack
    ) -> CountQuery:
        """Count a stream as its user's until it ends; returns what counts its query. Raises Refused."""
        limiter, sessions = self._access.limiter, self._access.sessions
        address = client_of(request)
        reservations = limiter.connection_reservations(grant, address)
        try:
            limiter.charge(grant, CONNECT)
            await limiter.count_request(grant)
            await limiter.reservations.take(reservations)
        except DistributaryError as error:
            raise codes.to_refused(error) from None
        cleanup.callback(limiter.reservations.release, reservations)
        sessions.add(grant, sink)
        cleanup.callback(sessions.remove, grant, sink)
        of_query: list[Reservation] = []

        async def count(query: Query) -> Reservation | None:
            if not of_query:
                of_query.extend(await count_query(limiter, grant, query, address))
                cleanup.callback(limiter.reservations.release, of_query)
            return of_query[0] if of_query else None

        return count

    async def _send(self, request: web.Request, sink: StreamSink) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                "Content-Type": sink.format.content_type,
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        with contextlib.suppress(ConnectionError):  # the reader left
            await response.prepare(request)
            if sink.format.first:
                await response.write(sink.format.first)
            while not (sink.over and sink.empty):
                data, state = await sink.take(self._heartbeat)
                try:
                    async with asyncio.timeout(state_budget.STALL_SECONDS if state else None):
                        await response.write(data or sink.format.heartbeat)
                except TimeoutError:
                    self._too_slow(request)
                    break
        return response

    def _too_slow(self, request: web.Request) -> None:
        self._stats.slow += 1
        if request.transport is not None:
            request.transport.abort()

    def stop(self) -> None:
        """End all streams; their clients reconnect."""
        for task in list(self._open):
            task.cancel()


def read_request(request: web.Request) -> tuple[ChannelQuery, SubscribeCommand]:
    """Read the parameters of a request. Raises BadQuery."""
    view, parameters = request.match_info["view"], request.query
    for name in parameters:
        if name not in PARAMETERS:
            known = ", ".join(sorted(PARAMETERS))
            raise BadQuery(f"unknown parameter {name[:80]!r}", hint=f"known are {known}")
    subscription = parameters.get("subscription", "")
    wheres, keys = parameters.getall("where", []), url_keys(parameters)
    fields = single(parameters, "fields")
    if subscription:
        if wheres or keys or "order" in parameters or "limit" in parameters:
            raise BadQuery("a subscription has its query already", hint="leave where, key and order out")
        query = ChannelQuery(view, None, "", optional_fields(fields))
    else:
        order, limit = single(parameters, "order"), single(parameters, "limit")
        query = channel_query(view, wheres, keys, fields=fields, order=order, limit=limit)
    last = request.headers.get("Last-Event-ID") or parameters.get("last_event_id") or ""
    position: Position | None = None
    if last:
        try:
            position = Position.parse(last)
        except ValueError:
            position = Position("", 0)  # of no epoch: it leads to a new snapshot
    since = single(parameters, "from")
    command = SubscribeCommand(
        subscription=subscription,
        position=position,
        since=read_start(since) if since is not None and position is None else None,
        conflation=read_conflation(parameters),
    )
    return query, command


def refused(refusal: Refusal) -> web.Response:
    """Respond to a request that gets no stream. It says when a client may try again."""
    status, code = _ERRORS.get(refusal.code, (400, "refused"))
    body = {"code": code, "message": refusal.message, "hint": "", "retry": refusal.temporary}
    headers = {"Retry-After": "1"} if refusal.temporary else {}
    return web.json_response({"error": body}, status=status, headers=headers)
