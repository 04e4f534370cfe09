"""The metrics of the control API: of each view, of its own requests and connections, and the alarms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import Metric

from distributary.control.app_context import Context
from distributary.control.monitor import Assessment
from distributary.control.observation import Overview
from distributary.control.view_description import describe_view
from distributary.httpd.prometheus_text import Sample, counter, gauge
from distributary.model.build import BuildStatus

# metric, help, its value in a described view
VIEW_COUNTERS: tuple[tuple[str, str, Callable[[dict[str, Any]], Any]], ...] = (
    ("view_changes", "Changes written (seq).", lambda view: view.get("seq")),
    ("view_records", "Records folded.", lambda view: view.get("records")),
    ("view_dead_letters", "Records written to the dead-letter topic.", lambda view: view.get("dead_letters")),
)
VIEW_GAUGES: tuple[tuple[str, str, Callable[[dict[str, Any]], Any]], ...] = (
    ("view_rows", "Rows in the live build.", lambda view: view.get("rows")),
    ("view_lag_records", "Records not folded yet.", lambda view: view.get("lag")),
    (
        "view_lag_seconds",
        "How long folding those takes at the current rate.",
        lambda view: view.get("lag_seconds"),
    ),
    ("view_rate", "Records folded per second.", lambda view: view.get("rate")),
    ("view_subscribers", "Current subscribers.", lambda view: view.get("subscribers")),
    ("view_live", "1 if the view is live.", lambda view: int(view.get("status") == BuildStatus.LIVE)),
    ("view_stale", "1 if its source sends nothing.", lambda view: int(view["stale"])),
    ("view_building", "1 while a build is under way.", lambda view: int(_is_building(view))),
)


async def families(context: Context) -> list[Metric]:
    """Create the metric families from the last observation of the stack."""
    observed = await context.monitor.now()
    overview = observed.observation.overview or Overview({})
    views = [describe_view(overview, name, observed.lags) for name in overview.views]
    return [
        *_of_views(views),
        *_of_requests(context),
        *_of_connections(context),
        *_of_stack(observed, overview),
    ]


def _of_views(views: list[dict[str, Any]]) -> Iterator[Metric]:
    for create, table in ((counter, VIEW_COUNTERS), (gauge, VIEW_GAUGES)):
        for name, help, value_of in table:
            values = [(view["name"], value_of(view)) for view in views]
            yield create(name, help, [({"view": view}, value) for view, value in values if value is not None])


def _of_requests(context: Context) -> Iterator[Metric]:
    requests = [
        ({"request": request, "status": status}, count)
        for (request, status), count in context.counts.items()
        if request != "commands"
    ]
    yield counter("control_requests", "Requests answered.", requests)
    commands = [({"result": result}, context.counts["commands", result]) for result in ("sent", "failed")]
    yield counter("control_commands", "Commands written to Kafka.", commands)


def _of_connections(context: Context) -> Iterator[Metric]:
    tally = context.connections
    yield gauge("control_connections", "Current connections.", [({}, tally.open)])
    refused: list[Sample] = [({"reason": limit}, tally.refused[limit]) for limit in ("total", "address")]
    yield counter("control_refused_connections", "Connections refused because of a limit, by limit.", refused)
    slow: list[Sample] = [({"waited_for": part}, tally.timed_out[part]) for part in ("head", "body", "write")]
    yield counter("control_slow_connections", "Connections closed because the client was too slow.", slow)


def _of_stack(observed: Assessment, overview: Overview) -> Iterator[Metric]:
    ages = [
        ({"part": one.heartbeat.component, "id": one.heartbeat.id}, one.heartbeat.age_ms / 1000)
        for one in overview.reports
    ]
    yield gauge("part_silence_seconds", "Time since a component last reported.", ages)
    alarms = [
        ({"alarm": one.name, "subject": one.subject, "severity": one.severity}, 1) for one in observed.alarms
    ]
    yield gauge("alarm", "1 for each alarm that is raised now.", alarms)
    levels = [
        ({"severity": level}, sum(one.severity == level for one in observed.alarms))
        for level in ("error", "warning")
    ]
    yield gauge("alarms", "Alarms that are raised now.", levels)


def _is_building(view: dict[str, Any]) -> bool:
    return view.get("status") == BuildStatus.BUILDING or bool(view["next"])
