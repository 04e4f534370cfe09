"""``/v1/views`` and ``/v1/feeds``: list, show, define and remove views."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from distributary.auth import OPEN, Grant, Operator
from distributary.config import Config, parse_views
from distributary.config.problems import nearest
from distributary.control.app_context import CONTEXT, Context
from distributary.control.observation import Overview, read_overview
from distributary.control.view_description import Lags, describe_view
from distributary.errors import BadDefinition, ConfigError, Forbidden, ViewNotFound
from distributary.httpd.authorization import grant_of
from distributary.httpd.request_body import read_object
from distributary.model.build import BuildStatus, Definition
from distributary.model.feed import Feed
from distributary.store.store_types import ViewInfo


async def index(request: web.Request) -> web.Response:
    """``GET /v1/views``."""
    context, grant = request.app[CONTEXT], grant_of(request)
    overview, assessment = await read_overview(context.reader), await context.monitor.now()
    views = [
        _describe(overview, name, assessment.lags, grant) for name in overview.views if grant.may_read(name)
    ]
    return web.json_response({"views": views})


async def show(request: web.Request) -> web.Response:
    """``GET /v1/views/{name}/status``."""
    context, name, grant = request.app[CONTEXT], request.match_info["name"], grant_of(request)
    await require_view(context, name, grant)
    overview, assessment = await read_overview(context.reader, [name]), await context.monitor.now()
    return web.json_response(_describe(overview, name, assessment.lags, grant))


def _describe(overview: Overview, name: str, lags: Lags, grant: Grant) -> dict[str, Any]:
    """Describe a view to a caller; its definition, and the reason why it stopped, are for operators."""
    described = describe_view(overview, name, lags, partly=bool(grant.row_filters(name)))
    if grant.operator >= Operator.READ:
        return described
    described |= {"definition": None, "reason": ""}
    return described | ({"next": described["next"] | {"reason": ""}} if described["next"] else {})


async def define(request: web.Request) -> web.Response:
    """``PUT /v1/views/{name}``: build it; 202, or 200 if nothing changed.

    A changed definition is built beside the old one, which is served until the new one is ready.
    """
    context, name = request.app[CONTEXT], request.match_info["name"]
    body = await read_object(request)
    overview = await read_overview(context.reader, heartbeats=False)
    definition = read_definition(name, body, known_feeds(context.config, overview))
    _check_rights(grant_of(request), context.config, definition)
    _require_consistent_feeds(definition, overview)
    before = overview.views.get(name)
    same = before is not None and before.info.live == definition.build
    state = (
        before.live.status
        if before is not None and before.live is not None and same
        else BuildStatus.BUILDING
    )
    if before is not None and before.info.definition == definition.text and not before.info.next:
        return web.json_response({"name": name, "build": definition.build, "state": state, "changed": False})
    await context.write(context.writer.define, name, definition.build, definition.text)
    reply = {"name": name, "build": definition.build, "state": state, "changed": True}
    return web.json_response(reply, status=202, headers={"Location": f"/v1/views/{name}/status"})


async def remove(request: web.Request) -> web.Response:
    """``DELETE /v1/views/{name}``: remove it with its rows, queries and subscriptions."""
    context, name = request.app[CONTEXT], request.match_info["name"]
    await require_view(context, name, grant_of(request))
    await context.write(context.writer.drop_view, name)
    return web.Response(status=204)


async def feeds(request: web.Request) -> web.Response:
    """``GET /v1/feeds``."""
    context = request.app[CONTEXT]
    overview = await read_overview(context.reader, heartbeats=False)
    return web.json_response({"feeds": describe_feeds(known_feeds(context.config, overview), overview)})


def describe_feeds(feeds: Iterable[Feed], overview: Overview) -> list[dict[str, object]]:
    """Describe each feed, with the views that read it."""
    return [
        {
            "name": feed.name,
            "topic": feed.topic,
            "format": feed.format,
            "partitioned_by": feed.partitioned_by,
            "dead_letters": feed.dead_letter_topic,
            "views": [name for name, view in overview.views.items() if feed.name in view.feeds],
        }
        for feed in feeds
    ]


async def require_view(context: Context, name: str, grant: Grant = OPEN) -> ViewInfo:
    """Read a view's state; raises ViewNotFound with the nearest name that the caller may see."""
    info = await context.reader.view(name)
    if info is not None:
        return info
    names = [one for one in await context.reader.views() if grant.may_read(one)]
    near = nearest(name, names)
    hint = f'did you mean "{near}"?' if near else f"known views: {', '.join(names) or 'none yet'}"
    raise ViewNotFound(f'unknown view "{name[:80]}"', hint=hint)


def known_feeds(config: Config, overview: Overview) -> list[Feed]:
    """List the feeds of the configuration, and those that were defined with views."""
    found = {feed.name: feed for feed in config.feeds}
    for view in overview.views.values():
        if view.definition is not None:
            found.setdefault(view.feed, view.definition.feed)
            if view.definition.events is not None:
                found.setdefault(view.definition.events.name, view.definition.events)
    return sorted(found.values(), key=lambda feed: feed.name)


def _check_rights(grant: Grant, config: Config, definition: Definition) -> None:
    """Refuse a definition that does more than its author may.

    A user who is not an admin may define views of topics that it may consume, without functions: those run
    in the reducers, which can read everything.
    """
    if grant.operator < Operator.ADMIN:
        for feed in definition[1:]:
            if feed is not None:
                grant.require_consume(feed.topic)
        for function in definition.view.functions:
            raise Forbidden(
                f"only admins may define views with functions: {function}", hint="use a reduce rule"
            )
    for function in config.unlisted_functions(definition.view):
        raise BadDefinition(
            f"the function {function} is not allowed",
            hint="add it to auth.functions of the configuration, and restart the reducers and the API",
        )


def _require_consistent_feeds(definition: Definition, overview: Overview) -> None:
    """Refuse a feed that differs from another view's feed of the same name."""
    for name, view in overview.views.items():
        if name == definition.view.name or view.definition is None:
            continue
        known = {feed.name: feed for feed in view.definition[1:] if feed is not None}
        for feed in definition[1:]:
            if feed is not None and known.get(feed.name, feed) != feed:
                raise BadDefinition(
                    f'the feed "{feed.name}" is another one in the view "{name}"',
                    hint="give the feed another name, or leave its definition out",
                )


def read_definition(name: str, body: Mapping[str, Any], feeds: Iterable[Feed]) -> Definition:
    """Parse a definition of the view ``name``; raises BadDefinition with all errors.

    The body is the view's settings, where ``feed`` is the name of a known feed or a feed in full; or the
    stored form, ``{"view": {…}, "feed": {…}, "events": {…}}``.
    """
    if isinstance(body.get("view"), dict):
        view, feed = dict(body["view"]), body.get("feed")
        extra = set(body) - {"view", "feed", "events", "stale_after"}
        if extra:
            raise BadDefinition(f'unknown field "{min(extra)}" beside "view"', hint='move it into "view"')
    else:
        view, feed = dict(body), body.get("feed")
    if view.setdefault("name", name) != name:
        raise BadDefinition(f'the definition\'s name is {view["name"]!r}, but the path has "{name}"')
    known = {one.name: one for one in feeds}
    document: dict[str, Any] = {"views": [_without_nulls(view)]}
    if isinstance(feed, dict):
        document["feeds"] = [_without_nulls(feed)]
        view_feed = view.get("feed")
        document["views"][0]["feed"] = view_feed if isinstance(view_feed, str) else feed.get("name", name)
        document["feeds"][0].setdefault("name", document["views"][0]["feed"])
    events = body.get("events")
    if isinstance(events, dict):
        document.setdefault("feeds", []).append(_without_nulls(events))
        if not isinstance(view.get("events"), str):
            document["views"][0]["events"] = events.get("name")
    try:
        found = parse_views(json.dumps(document), known)
    except ConfigError as error:
        raise BadDefinition(error.message, hint=error.hint or "see: distributary help views") from None
    one = found.views[0]
    all_feeds = known | {given.name: given for given in found.feeds}
    return Definition(one, all_feeds[one.feed], all_feeds[one.events] if one.events else None)


def _without_nulls(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}
