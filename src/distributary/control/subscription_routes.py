"""``/v1/subscriptions``: create, begin and end subscriptions, and sweep those that have lapsed.

A subscription is registered in the store first: from then on every write is matched against its query. The
command on the commands topic notifies the reducers early, and records who requested what.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiohttp import web
from redis.exceptions import RedisError

from distributary.auth import Operator, owned_id
from distributary.auth.metering import NEW_QUERY, charge
from distributary.control.app_context import CONTEXT, Context, events_address, websocket_address
from distributary.control.observation import pace_of
from distributary.control.view_routes import require_view
from distributary.errors import (
    AlreadyBegun,
    BadRequest,
    DistributaryError,
    SubscriptionNotFound,
    ViewBuilding,
)
from distributary.httpd.authorization import AUTHORIZATION, grant_of, grants_of, narrow_query
from distributary.httpd.listener import client_of
from distributary.httpd.request_body import read_object
from distributary.model.build import Build, BuildStatus
from distributary.model.channel_name import with_fields
from distributary.model.command import Command
from distributary.model.query import Query
from distributary.model.query_params import body_fields, body_query
from distributary.model.query_plan import is_expensive
from distributary.store.store_types import StoredSubscription, ViewInfo, query_limits
from distributary.store.subscription_sweep import SWEEP_SECONDS, sweep

log = logging.getLogger(__name__)

_ANNOUNCE_TIMEOUT = 0.5
"""Seconds that a request waits for Kafka to acknowledge its command."""
FIELDS = ("view", "where", "keys", "fields", "order", "limit")


async def create(request: web.Request) -> web.Response:
    """``POST /v1/subscriptions``: register a subscription that waits until it is begun."""
    context = request.app[CONTEXT]
    body = await read_object(request, FIELDS)
    query, fields = narrow_query(request, body_query(body)), body_fields(body)
    if query.order is not None and query.order.limit > context.config.publisher.max_limit:
        most = context.config.publisher.max_limit
        raise BadRequest(f'"limit" is {query.order.limit:,}', hint=f"give at most {most:,}")
    grant = grant_of(request)
    await _servable(context, query.view, await require_view(context, query.view, grant))
    id = owned_id(grant.user)
    await _count(request, query, context.ttl_ms / 1000)
    try:
        caps = query_limits(context.config.limits, query)
        found = await context.reader.register(
            query.view,
            query_id=query.id,
            text=query.text,
            subscription=id,
            ttl_ms=context.ttl_ms,
            begun=False,
            limits=caps,
        )
    except KeyError:  # the view was removed in the meantime
        await require_view(context, query.view, grant)
        raise
    if found.created:
        charge(NEW_QUERY)
    await announce(context, Command("subscribe", query.view, id, query.text))
    created = StoredSubscription(id, query.id, False, 0)
    reply = _describe(context, request.host, query.view, created, query_text=query.text, fields=fields)
    return web.json_response(
        reply | {"expires_in": context.ttl_ms / 1000},
        status=201,
        headers={"Location": f"/v1/subscriptions/{id}"},
    )


async def _count(request: web.Request, query: Query, seconds: float) -> None:
    """Count a subscription for its user until a publisher counts it, or it lapses; raises LimitExceeded."""
    limiter, grant = request.app[AUTHORIZATION].limiter, grant_of(request)
    reservations = limiter.query_reservations(grant, client_of(request), expensive=is_expensive(query))
    await limiter.reservations.take(reservations)
    if reservations:
        asyncio.get_running_loop().call_later(seconds, limiter.reservations.release, reservations)


async def show(request: web.Request) -> web.Response:
    """``GET /v1/subscriptions/{id}``."""
    context = request.app[CONTEXT]
    view, found = await _find(request)
    row = await context.reader.query_text(view, found.query_id)
    info = await context.reader.view(view)
    reply = _describe(context, request.host, view, found, query_text=row.text if row else "{}")
    left = max(0.0, (found.expires - info.now) / 1000) if info else 0.0
    pace = await pace_of(context.reader, found.id)
    return web.json_response(reply | {"expires_in": left} | ({"pace": pace} if pace else {}))


async def begin(request: web.Request) -> web.Response:
    """``POST /v1/subscriptions/{id}/begin``: start sending the rows, then the changes; once."""
    context = request.app[CONTEXT]
    view, found = await _find(request)
    try:
        first = await context.reader.begin(view, found.id, context.ttl_ms)
    except KeyError:
        raise _unknown(found.id) from None
    if not first:
        raise AlreadyBegun(
            f"the subscription {found.id} was already begun", hint="create another one to begin again"
        )
    await announce(context, Command("begin", view, found.id))
    return web.json_response({"id": found.id, "state": "begun"})


async def end(request: web.Request) -> web.Response:
    """``DELETE /v1/subscriptions/{id}``."""
    context = request.app[CONTEXT]
    view, found = await _find(request)
    if not await context.reader.end(view, found.id, notify=True):
        raise _unknown(found.id)
    await announce(context, Command("end", view, found.id))
    return web.Response(status=204)


async def announce(context: Context, command: Command) -> None:
    """Put a command on the commands topic, and wait a short time for the acknowledgement.

    Subscribers depend only on the registry in the store, so a Kafka that does not respond is logged
    and counted, not an error of the request.
    """
    task = asyncio.create_task(_send(context, command))
    context.sending.add(task)
    task.add_done_callback(context.sending.discard)
    await asyncio.wait({task}, timeout=_ANNOUNCE_TIMEOUT)


async def _send(context: Context, command: Command) -> None:
    try:
        await context.announcer.send(command)
        context.counts["commands", "sent"] += 1
    except DistributaryError as error:
        context.counts["commands", "failed"] += 1
        log.warning("the command %s of %s was not recorded: %s", command.op, command.subscription, error)


async def _servable(context: Context, name: str, info: ViewInfo) -> None:
    build = await context.reader.build(Build(name, info.live)) if info.live else None
    if build is None or build.status == BuildStatus.BUILDING:
        raise ViewBuilding(f'the view "{name}" is being built', hint="try again when it is live")
    if build.status == BuildStatus.STOPPED and not build.seq:
        raise ViewBuilding(
            f'the view "{name}" is stopped',
            hint="see why: distributary status",
        )


async def _find(request: web.Request) -> tuple[str, StoredSubscription]:
    """Find the subscription in the path; one of another user is reported as unknown."""
    reader, id = request.app[CONTEXT].reader, request.match_info["id"]
    view = await reader.find_subscription(id)
    found = await reader.subscription(view, id) if view is not None else None
    row = await reader.query_text(view, found.query_id) if view is not None and found is not None else None
    if view is None or found is None or row is None:
        raise _unknown(id)
    if not _may_use(request, id, Query.load(view, row.text)):
        raise _unknown(id)
    return view, found


def _may_use(request: web.Request, subscription: str, query: Query) -> bool:
    """True if a subscription is the caller's (an operator may use any), and its query is within its grant."""
    grants = grants_of(request)
    return (grants.owns(subscription) or grant_of(request).operator >= Operator.OPERATE) and grants.covers(
        query
    )


def _unknown(id: str) -> SubscriptionNotFound:
    return SubscriptionNotFound(
        f"unknown subscription {id[:80]}", hint="it ended or lapsed; create one with POST /v1/subscriptions"
    )


def _describe(
    context: Context,
    host: str,
    view: str,
    found: StoredSubscription,
    *,
    query_text: str,
    fields: str | None = None,
) -> dict[str, Any]:
    """Describe a subscription; its URLs have the fields that were requested with it."""
    query = Query.load(view, query_text)
    return {
        "id": found.id,
        "view": view,
        "channel": with_fields(f"q:{view}:{found.query_id}", fields),
        "publisher": websocket_address(context.config, host),
        "events": with_fields(events_address(context.config, host, view, found.id), fields),
        "query": query.text,
        "state": "begun" if found.begun else "waiting",
    }


# --- the sweep of lapsed subscriptions --------------------------------------------------------------------


async def sweep_once(context: Context) -> int:
    """Remove all lapsed subscriptions; return how many."""

    async def ended(view: str, ids: list[str]) -> None:
        await asyncio.gather(*(announce(context, Command("end", view, id)) for id in ids))

    return await sweep(context.reader, await context.reader.views(), SWEEP_SECONDS, ended)


async def sweep_forever(context: Context) -> None:
    """Sweep until cancelled; a store that does not respond is tried again the next time."""
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        try:
            await sweep_once(context)
            # With several servers this writes to each the revocations that it missed while it was down.
            await context.reader.revoked([""])
        except (RedisError, OSError) as error:
            log.warning("cannot sweep subscriptions: %s", error)
