"""The description of a view in the API: its state in the store, with figures from heartbeats and lags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from distributary.control.lag import Lag
from distributary.control.observation import Overview
from distributary.model.build import BuildStatus
from distributary.store.store_types import BuildInfo

FIGURES = ("engine", "engine_reason", "events_lag", "rekeyed", "queries")
"""What only the driver of a view knows; null if it sends no heartbeat."""

SILENT_MS = 15_000
"""Milliseconds after which the last heartbeat of a process is ignored."""

Lags = Mapping[tuple[str, str], Lag]

COUNTS = frozenset(
    ("rows", "records", "dead_letters", "rate", "lag", "queries", "position", "subscribers", "published")
)
"""Figures about all rows, including those that a caller may not see."""


def describe_view(overview: Overview, name: str, lags: Lags, *, partly: bool = False) -> dict[str, Any]:
    """Describe a view as the API does; ``lags`` is how far each build is behind.

    Unknown figures are null. So are those that count all rows, for a caller that may see the view only
    ``partly``.
    """
    described = _describe(overview, name, lags)
    return _without_counts(described) if partly else described


def _without_counts(described: Mapping[str, Any]) -> dict[str, Any]:
    hidden = {name: None if name in COUNTS else value for name, value in described.items()}
    next_build = described.get("next")
    return {**hidden, "next": _without_counts(next_build)} if next_build else hidden


def _describe(overview: Overview, name: str, lags: Lags) -> dict[str, Any]:
    state = overview.views[name]
    info, live = state.info, state.live
    driver = _of_build(overview, name, info.live)
    return {
        "name": name,
        "feed": state.feed,
        **_describe_build(info.live, live, driver, lags.get((name, info.live))),
        "stale": state.stale,
        "next": _describe_build(
            info.next, state.next, _of_build(overview, name, info.next), lags.get((name, info.next))
        )
        if info.next
        else None,
        **_published(overview, name),
        "definition": json.loads(state.definition.text) if state.definition else None,
    }


def _of_build(overview: Overview, name: str, build: str) -> Mapping[str, Any]:
    """Return what the newest driver reported about a build, and how many queries its tasks match."""
    for report in sorted(overview.of_component("reducers"), key=lambda report: report.heartbeat.age_ms):
        if report.heartbeat.age_ms > SILENT_MS:
            break
        view = report.of_view(name)
        for facts in (view, view.get("next")):
            if isinstance(facts, dict) and facts.get("build") == build:
                return {**_of_tasks(overview, f"{name}/{build}/"), **facts}
    return {}


def _of_tasks(overview: Overview, prefix: str) -> Mapping[str, Any]:
    """Combine the reports of a build's tasks: each of them matches all queries."""
    reports = [one.stats for one in overview.of_component("reducer") if one.heartbeat.id.startswith(prefix)]
    counts = [stats["queries"] for stats in reports if isinstance(stats.get("queries"), int)]
    return {"queries": max(counts)} if counts else {}


def _describe_build(
    id: str, build: BuildInfo | None, driver: Mapping[str, Any], lag: Lag | None
) -> dict[str, Any]:
    figures: dict[str, Any] = {figure: driver.get(figure) for figure in FIGURES}
    figures |= {
        "rate": None if lag is None or lag.rate is None else round(lag.rate, 1),
        "lag": None if lag is None else lag.records,
        "lag_seconds": None if lag is None else round(lag.seconds, 2),
    }
    ends = lag.ends if lag is not None else {}
    if build is None:
        return {"build": id, "status": BuildStatus.BUILDING, "reason": "", **figures}
    return {
        "build": id,
        "status": build.status,
        "reason": build.reason or driver.get("reason") or "",
        "incomplete": build.incomplete,
        "epoch": build.epoch,
        "seq": build.seq,
        "rows": build.rows,
        "records": build.records,
        "dead_letters": build.dead,
        **figures,
        "position": {
            str(partition): {"offset": mark.offset, "end": ends.get(partition)}
            for partition, mark in sorted(build.marks.items())
        },
    }


def _published(overview: Overview, name: str) -> dict[str, Any]:
    """Combine the reports of the publishers: counts are added, of delays the largest is taken."""
    reports = [report for one in overview.of_component("publisher") if (report := one.of_view(name))]
    delays = {
        figure: max((one[figure] for one in reports if one.get(figure) is not None), default=None)
        for figure in ("e2e_p50_ms", "e2e_p99_ms")
    }
    counts = {figure: sum(one.get(figure) or 0 for one in reports) for figure in ("subscribers", "published")}
    return counts | delays
