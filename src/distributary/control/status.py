"""``/v1/status``: everything that ``distributary status`` shows."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from distributary import __version__
from distributary.control.context import CONTEXT, Context, http_address, websocket_address
from distributary.control.overview import Overview, describe_view, read_overview
from distributary.control.views import describe_feeds, known_feeds
from distributary.operate.state import StackState
from distributary.operate.state import read as read_state
from distributary.store.base import ServerState

SILENT_MS = 15_000


async def index(request: web.Request) -> web.Response:
    """``GET /v1``: what this is, where the publisher is, and what can be asked."""
    config = request.app[CONTEXT].config
    return web.json_response(
        {
            "name": "distributary",
            "version": __version__,
            "publisher": websocket_address(config, request.host),
            "http": http_address(config, request.host),
            "resources": sorted(
                {
                    resource.canonical
                    for resource in request.app.router.resources()
                    if resource.canonical != "/"
                }
            ),
        }
    )


async def show(request: web.Request) -> web.Response:
    """``GET /v1/status``."""
    return web.json_response(await status(request.app[CONTEXT]))


async def status(context: Context) -> dict[str, Any]:
    """Join the supervisor's file, the store and the beats."""
    overview = await read_overview(context.reader)
    stack = read_state(context.config.data_dir)
    views = [describe_view(overview, name) for name in overview.views]
    parts = describe_parts(stack, overview)
    stores = await context.reader.servers()
    publishers = [said.stats for said in overview.of_part("publisher")]
    return {
        "stack": stack.stack if stack is not None else "",
        "version": __version__,
        "time": int(time.time() * 1000),
        "parts": parts,
        "stores": [one._asdict() for one in stores],
        "feeds": describe_feeds(known_feeds(context, overview), overview),
        "views": views,
        "publishers": {
            figure: sum(stats.get(figure) or 0 for stats in publishers)
            for figure in ("connections", "channels", "subscribers")
        },
        "problems": [*silent(stores), *problems(parts, views)],
    }


def describe_parts(stack: StackState | None, overview: Overview) -> list[dict[str, Any]]:
    """List the processes of the supervisor's file, then those that only their beat tells of."""
    listed: list[dict[str, Any]] = [
        {
            "name": part.name,
            "state": part.state,
            "pid": part.pid,
            "restarts": part.restarts,
            "addresses": part.addresses,
            "external": part.external,
            "error": part.error,
            "beat_age_ms": None,
        }
        for part in (stack.parts if stack is not None else ())
    ]
    parts = list(listed)
    for said in overview.said:
        beat = said.beat
        if beat.part == "reducer":  # one Spark task: its driver speaks for it
            continue
        same = [part for part in listed if part["name"].startswith(beat.part)]
        mine = [part for part in same if str(part["pid"]) in beat.id] or (same if len(same) == 1 else [])
        if mine:
            mine[0]["beat_age_ms"] = beat.age_ms
        else:
            parts.append(
                {
                    "name": beat.part,
                    "state": "ready" if beat.age_ms < SILENT_MS else "silent",
                    "pid": said.stats.get("pid"),
                    "restarts": 0,
                    "addresses": {},
                    "external": False,
                    "error": "",
                    "beat_age_ms": beat.age_ms,
                }
            )
    return parts


def silent(stores: Iterable[ServerState]) -> list[str]:
    """Say which servers of the store do not answer, and what is not served without them."""
    return [
        f"the store at {store.address} does not answer: "
        + (f"not served: {', '.join(store.views)}" if store.views else "its views are not served")
        for store in stores
        if not store.answers
    ]


def problems(parts: list[dict[str, Any]], views: list[dict[str, Any]]) -> list[str]:
    """Say in one line each what needs somebody's attention."""
    found: list[str] = []
    for part in parts:
        if part["state"] in ("failed", "restarting", "silent"):
            found.append(
                f"{part['name']} is {part['state']}" + (f": {part['error']}" if part["error"] else "")
            )
        elif (part["beat_age_ms"] or 0) >= SILENT_MS:
            found.append(f"{part['name']} has said nothing for {part['beat_age_ms'] // 1000} s")
    for view in views:
        for build in (view, view["next"] or {}):
            if build.get("status") == "stopped":
                found.append(f"view {view['name']} is stopped: {build['reason'] or 'no reason given'}")
            if build.get("engine_reason"):
                found.append(f"view {view['name']} runs in micro-batches: {build['engine_reason']}")
            if build.get("incomplete"):
                found.append(f"view {view['name']} is incomplete: Kafka no longer has all its records")
        if view["stale"]:
            found.append(f"view {view['name']} is stale: its source gives no records")
    return found
