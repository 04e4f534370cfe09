"""``/``, ``/v1``, ``/v1/status``, ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aiohttp import web

from distributary import __version__
from distributary.config import Config
from distributary.control import control_metrics
from distributary.control.app_context import CONTEXT, ERRORS, Context, http_address, websocket_address
from distributary.control.monitor import Assessment
from distributary.control.observation import Overview
from distributary.control.view_description import SILENT_MS, describe_view
from distributary.control.view_routes import describe_feeds, known_feeds
from distributary.errors import NotReady
from distributary.httpd.authorization import AUTHORIZATION
from distributary.httpd.prometheus_text import metrics_response
from distributary.stack.stack_file import StackState


async def index(request: web.Request) -> web.Response:
    """``GET /`` and ``GET /v1``: the version, where the publisher is, and which resources there are."""
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
    """Return the status as of the last seconds."""
    return describe(await context.monitor.now(), context.config)


def describe(found: Assessment, config: Config) -> dict[str, Any]:
    """Describe an assessment as the API and ``distributary status`` do."""
    observation, overview = found.observation, found.observation.overview or Overview({})
    publishers = [
        report.stats for report in overview.of_component("publisher") if report.heartbeat.age_ms < SILENT_MS
    ]
    return {
        "stack": observation.stack.stack if observation.stack is not None else "",
        "version": __version__,
        "time": observation.time,
        "components": describe_components(observation.stack, overview),
        "stores": [asdict(one) for one in observation.stores],
        "feeds": describe_feeds(known_feeds(config, overview), overview),
        "views": [describe_view(overview, name, found.lags) for name in overview.views],
        "publishers": {
            figure: sum(stats.get(figure) or 0 for stats in publishers)
            for figure in ("connections", "channels", "subscribers")
        },
        "alarms": [alarm.to_json() for alarm in found.alarms],
    }


def describe_components(stack: StackState | None, overview: Overview) -> list[dict[str, Any]]:
    """List the processes of the supervisor's file, then those that are known by their heartbeats only."""
    listed: list[dict[str, Any]] = [
        {
            "name": part.name,
            "state": part.state,
            "pid": part.pid,
            "restarts": part.restarts,
            "addresses": part.addresses,
            "external": part.external,
            "error": part.error,
            "heartbeat_age_ms": None,
        }
        for part in (stack.components if stack is not None else ())
    ]
    parts = list(listed)
    for report in overview.reports:
        heartbeat = report.heartbeat
        if heartbeat.component == "reducer":  # a Spark task: its driver reports for it
            continue
        same = [part for part in listed if part["name"].startswith(heartbeat.component)]
        pid = str(report.stats.get("pid") or heartbeat.id)
        mine = [part for part in same if str(part["pid"]) == pid] or (same if len(same) == 1 else [])
        if mine:
            mine[0]["heartbeat_age_ms"] = heartbeat.age_ms
        else:
            parts.append(
                {
                    "name": heartbeat.component,
                    "state": "ready" if heartbeat.age_ms < SILENT_MS else "silent",
                    "pid": report.stats.get("pid"),
                    "restarts": 0,
                    "addresses": {},
                    "external": False,
                    "error": "",
                    "heartbeat_age_ms": heartbeat.age_ms,
                }
            )
    return parts


async def healthz(request: web.Request) -> web.Response:
    """``GET /healthz``: this process responds."""
    return web.json_response({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """``GET /readyz``: no error keeps views from being served; else 503 with the alarms."""
    found = await request.app[CONTEXT].monitor.now()
    # The route is public: if authorization is on, the response has only the names of alarms.
    names_only = request.app[AUTHORIZATION].authenticator.on
    alarms = [{"name": alarm.name} if names_only else alarm.to_json() for alarm in found.alarms]
    bad = [alarm for alarm in found.alarms if alarm.severity == "error"]
    if not bad:
        return web.json_response({"status": "ok", "alarms": alarms})
    summary = "; ".join(alarm.name if names_only else alarm.text for alarm in bad)
    return ERRORS.response(NotReady(f"not ready: {summary}", hint="see: distributary status"), alarms=alarms)


async def metrics(request: web.Request) -> web.Response:
    """``GET /metrics``: Prometheus text."""
    return metrics_response(await control_metrics.families(request.app[CONTEXT]))
