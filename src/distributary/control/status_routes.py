"""``/v1/status``: everything that ``distributary status`` shows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aiohttp import web

from distributary import __version__
from distributary.config import Config
from distributary.control import control_metrics
from distributary.control.app_context import CONTEXT, ERRORS, Context, http_address, websocket_address
from distributary.control.monitor import Seen
from distributary.control.observation import Overview
from distributary.control.view_description import SILENT_MS, describe_view
from distributary.control.view_routes import describe_feeds, known_feeds
from distributary.errors import NotReady
from distributary.httpd.authorization import AUTHORIZATION
from distributary.httpd.prometheus_text import metrics_response
from distributary.stack.stack_file import StackState


async def index(request: web.Request) -> web.Response:
    """``GET /`` and ``GET /v1``: what this is, where the publisher is, and what can be asked."""
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
    """Say what was seen within the last seconds."""
    return describe(await context.monitor.now(), context.config)


def describe(seen: Seen, config: Config) -> dict[str, Any]:
    """Lay out what was seen, as the API and ``distributary status`` say it."""
    sight, overview = seen.sight, seen.sight.overview or Overview({})
    publishers = [said.stats for said in overview.of_part("publisher") if said.beat.age_ms < SILENT_MS]
    return {
        "stack": sight.stack.stack if sight.stack is not None else "",
        "version": __version__,
        "time": sight.time,
        "parts": describe_parts(sight.stack, overview),
        "stores": [asdict(one) for one in sight.stores],
        "feeds": describe_feeds(known_feeds(config, overview), overview),
        "views": [describe_view(overview, name, seen.lags) for name in overview.views],
        "publishers": {
            figure: sum(stats.get(figure) or 0 for stats in publishers)
            for figure in ("connections", "channels", "subscribers")
        },
        "alarms": [alarm.as_json() for alarm in seen.alarms],
    }


def describe_parts(stack: StackState | None, overview: Overview) -> list[dict[str, Any]]:
    """List the processes of the supervisor's file, then those that only their heartbeat tells of."""
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
        for part in (stack.components if stack is not None else ())
    ]
    parts = list(listed)
    for said in overview.said:
        beat = said.beat
        if beat.component == "reducer":  # one Spark task: its driver speaks for it
            continue
        same = [part for part in listed if part["name"].startswith(beat.component)]
        pid = str(said.stats.get("pid") or beat.id)
        mine = [part for part in same if str(part["pid"]) == pid] or (same if len(same) == 1 else [])
        if mine:
            mine[0]["beat_age_ms"] = beat.age_ms
        else:
            parts.append(
                {
                    "name": beat.component,
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


async def healthz(request: web.Request) -> web.Response:
    """``GET /healthz``: this process answers."""
    return web.json_response({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """``GET /readyz``: nothing is wrong that keeps views from being served; else 503 with the alarms."""
    seen = await request.app[CONTEXT].monitor.now()
    # Anybody may ask: where that is not everybody's business, only the names of alarms are told.
    named = request.app[AUTHORIZATION].authenticator.on
    alarms = [{"name": alarm.name} if named else alarm.as_json() for alarm in seen.alarms]
    bad = [alarm for alarm in seen.alarms if alarm.severity == "error"]
    if not bad:
        return web.json_response({"status": "ok", "alarms": alarms})
    said = "; ".join(alarm.name if named else alarm.text for alarm in bad)
    return ERRORS.response(NotReady(f"not ready: {said}", hint="see: distributary status"), alarms=alarms)


async def metrics(request: web.Request) -> web.Response:
    """``GET /metrics``: Prometheus text."""
    return metrics_response(await control_metrics.families(request.app[CONTEXT]))
