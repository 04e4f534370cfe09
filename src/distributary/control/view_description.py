"""How a view is described to whoever asks: the store's own state, and figures worked out by who looks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from distributary.control.lag import Lag
from distributary.control.observation import Overview
from distributary.store.store_types import BuildInfo

FIGURES = ("engine", "engine_reason", "events_lag", "rekeyed", "queries")
"""What only the driver of a view knows; null when it has been silent."""

SILENT_MS = 15_000
"""After this nobody speaks for a driver any more."""

Lags = Mapping[tuple[str, str], Lag]

WHOLE = frozenset(
    ("rows", "records", "dead_letters", "rate", "lag", "queries", "position", "subscribers", "published")
)
"""Figures that tell of all rows, also of those that somebody may not see."""


def describe_view(overview: Overview, name: str, lags: Lags, *, partly: bool = False) -> dict[str, Any]:
    """Say everything of one view, as the API sends it; ``lags`` is how far each build is behind.

    Figures that nobody knows are null. So are those that count all rows, for somebody who sees it only
    ``partly``.
    """
    said = _describe(overview, name, lags)
    return _without_counts(said) if partly else said


def _without_counts(said: Mapping[str, Any]) -> dict[str, Any]:
    hidden = {name: None if name in WHOLE else value for name, value in said.items()}
    following = said.get("next")
    return {**hidden, "next": _without_counts(following)} if following else hidden


def _describe(overview: Overview, name: str, lags: Lags) -> dict[str, Any]:
    state = overview.views[name]
    info, live = state.info, state.live
    driver = _of_build(overview, name, info.live)
    return {
        "name": name,
        "feed": state.feed,
        **_described_build(info.live, live, driver, lags.get((name, info.live))),
        "stale": state.stale,
        "next": _described_build(
            info.next, state.next, _of_build(overview, name, info.next), lags.get((name, info.next))
        )
        if info.next
        else None,
        **_published(overview, name),
        "definition": json.loads(state.definition.text) if state.definition else None,
    }


def _of_build(overview: Overview, name: str, build: str) -> Mapping[str, Any]:
    """What the newest driver said of one build of a view, and how many queries its tasks match."""
    for said in sorted(overview.of_part("reducers"), key=lambda said: said.beat.age_ms):
        if said.beat.age_ms > SILENT_MS:
            break
        view = said.of_view(name)
        for facts in (view, view.get("next")):
            if isinstance(facts, dict) and facts.get("build") == build:
                return {**_of_tasks(overview, f"{name}/{build}/"), **facts}
    return {}


def _of_tasks(overview: Overview, prefix: str) -> Mapping[str, Any]:
    """Join what the tasks of a build said: each matches all the queries."""
    said = [one.stats for one in overview.of_part("reducer") if one.beat.id.startswith(prefix)]
    counts = [stats["queries"] for stats in said if isinstance(stats.get("queries"), int)]
    return {"queries": max(counts)} if counts else {}


def _described_build(
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
        return {"build": id, "status": "building", "reason": "", **figures}
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
    """Join what the publishers said: counts add up, of the delays the worst stands."""
    said = [part for one in overview.of_part("publisher") if (part := one.of_view(name))]
    delays = {
        figure: max((part[figure] for part in said if part.get(figure) is not None), default=None)
        for figure in ("e2e_p50_ms", "e2e_p99_ms")
    }
    counts = {figure: sum(part.get(figure) or 0 for part in said) for figure in ("subscribers", "published")}
    return counts | delays
