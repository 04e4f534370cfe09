"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from distributary.control.app_context import CONTEXT, ERRORS, Context
from distributary.control.stack_overview import Overview
from distributary.control.view_description import describe_view
from distributary.errors import NotReady
from distributary.httpd.authorization import AUTHORIZATION


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
    text = "".join([f"{line}\n" async for line in _lines(request.app[CONTEXT])])
    return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


# metric, type, help, what it is in a described view
VIEW_METRICS: tuple[tuple[str, str, str, Callable[[dict[str, Any]], Any]], ...] = (
    ("view_rows", "gauge", "Rows in the live build.", lambda view: view.get("rows")),
    ("view_changes_total", "counter", "Changes written (seq).", lambda view: view.get("seq")),
    ("view_records_total", "counter", "Records folded.", lambda view: view.get("records")),
    ("view_dead_letters_total", "counter", "Records set aside.", lambda view: view.get("dead_letters")),
    ("view_lag_records", "gauge", "Records not folded yet.", lambda view: view.get("lag")),
    (
        "view_lag_seconds",
        "gauge",
        "What those take at this rate.",
        lambda view: view.get("lag_seconds"),
    ),
    ("view_rate", "gauge", "Records folded a second.", lambda view: view.get("rate")),
    ("view_subscribers", "gauge", "Subscribers now.", lambda view: view.get("subscribers")),
    ("view_live", "gauge", "1 when it is live.", lambda view: int(view.get("status") == "live")),
    ("view_stale", "gauge", "1 when its source gives nothing.", lambda view: int(view["stale"])),
    ("view_building", "gauge", "1 while a build is under way.", lambda view: int(_building(view))),
)


async def _lines(context: Context) -> Any:
    seen = await context.monitor.now()
    overview = seen.sight.overview or Overview({})
    views = [describe_view(overview, name, seen.lags) for name in overview.views]
    for metric, kind, text, value in VIEW_METRICS:
        values = [(view["name"], value(view)) for view in views]
        for line in _metric(metric, kind, text, [({"view": n}, v) for n, v in values if v is not None]):
            yield line
    requests = [
        ({"request": what, "status": how}, count)
        for (what, how), count in context.counts.items()
        if what != "commands"
    ]
    for line in _metric("control_requests_total", "counter", "Requests answered.", requests):
        yield line
    commands = [({"result": how}, context.counts["commands", how]) for how in ("sent", "failed")]
    for line in _metric("control_commands_total", "counter", "Commands written to Kafka.", commands):
        yield line
    for line in _connections(context):
        yield line
    ages = [({"part": s.beat.component, "id": s.beat.id}, s.beat.age_ms / 1000) for s in overview.said]
    for line in _metric("part_silence_seconds", "gauge", "Since a part last reported.", ages):
        yield line
    alarms = [
        ({"alarm": one.name, "subject": one.subject, "severity": one.severity}, 1) for one in seen.alarms
    ]
    for line in _metric("alarm", "gauge", "1 for each alarm that is raised now.", alarms):
        yield line
    counts = [
        ({"severity": level}, sum(one.severity == level for one in seen.alarms))
        for level in ("error", "warning")
    ]
    for line in _metric("alarms", "gauge", "Alarms that are raised now.", counts):
        yield line


def _connections(context: Context) -> Iterator[str]:
    tally = context.connections
    yield from _metric("control_connections", "gauge", "Connections now.", [({}, tally.open)])
    refused = [({"reason": why}, tally.refused[why]) for why in ("total", "address")]
    yield from _metric(
        "control_refused_connections_total", "counter", "Connections over a bound, by which.", refused
    )
    slow = [({"waited_for": what}, tally.timed_out[what]) for what in ("head", "body", "write")]
    yield from _metric(
        "control_slow_connections_total", "counter", "Connections closed for a slow client.", slow
    )


def _metric(name: str, kind: str, text: str, values: list[tuple[dict[str, str], Any]]) -> Iterator[str]:
    yield f"# HELP distributary_{name} {text}"
    yield f"# TYPE distributary_{name} {kind}"
    for labels, value in values:
        inner = ",".join(f'{label}="{_escaped(said)}"' for label, said in labels.items())
        yield f"distributary_{name}{{{inner}}} {value}" if inner else f"distributary_{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _building(view: dict[str, Any]) -> bool:
    return view.get("status") == "building" or bool(view["next"])
