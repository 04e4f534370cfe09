"""What is known of the views: the store's own state, joined with what the running parts last said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from distributary.model.definition import Definition, load_definition
from distributary.store.base import Beat, BuildInfo, ReaderStore, ViewInfo
from distributary.store.tail import Build

FIGURES = ("engine", "engine_reason", "rate", "lag", "lag_seconds", "events_lag", "rekeyed", "queries")

WHOLE = frozenset(
    ("rows", "records", "dead_letters", "rate", "lag", "queries", "position", "subscribers", "published")
)
"""Figures that tell of all rows, also of those that somebody may not see."""


@dataclass(frozen=True, slots=True)
class ViewState:
    """A view with its builds."""

    info: ViewInfo
    live: BuildInfo | None
    next: BuildInfo | None
    definition: Definition | None

    @property
    def feed(self) -> str:
        """The name of its feed."""
        return self.definition.feed.name if self.definition else ""

    @property
    def feeds(self) -> list[str]:
        """The names of its feed and its event feed."""
        found = self.definition[1:] if self.definition else ()
        return [feed.name for feed in found if feed is not None]


@dataclass(frozen=True, slots=True)
class Said:
    """A part's last beat, read."""

    beat: Beat
    stats: Mapping[str, Any]

    def of_view(self, name: str) -> Mapping[str, Any]:
        """What it said of one view."""
        views = self.stats.get("views")
        found = views.get(name) if isinstance(views, dict) else None
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Overview:
    """All views and all beats, read at one time."""

    views: Mapping[str, ViewState]
    said: list[Said] = field(default_factory=list)

    def of_part(self, part: str) -> list[Said]:
        """The beats of one kind of part."""
        return [one for one in self.said if one.beat.part == part]


async def read_overview(
    store: ReaderStore, names: Iterable[str] | None = None, *, beats: bool = True
) -> Overview:
    """Read the views of these names (all, if None) that exist."""
    found: dict[str, ViewState] = {}
    for name in await store.views() if names is None else names:
        info = await store.view(name)
        if info is None:
            continue
        live = await store.build(Build(name, info.live)) if info.live else None
        next_ = await store.build(Build(name, info.next)) if info.next else None
        found[name] = ViewState(info, live, next_, _definition(info.definition))
    return Overview(found, [_read(beat) for beat in await store.beats()] if beats else [])


def _definition(text: str) -> Definition | None:
    """Read a stored definition; None for one that this version cannot read."""
    try:
        return load_definition(text)
    except (ValueError, KeyError, TypeError):
        return None


def _read(beat: Beat) -> Said:
    try:
        stats = json.loads(beat.stats)
    except ValueError:
        stats = None
    return Said(beat, stats if isinstance(stats, dict) else {})


def describe_view(overview: Overview, name: str, *, partly: bool = False) -> dict[str, Any]:
    """Say everything of one view, as the API sends it. Figures nobody reports are null.

    So are those that count all rows, for somebody who sees it only ``partly``.
    """
    said = _describe(overview, name)
    return _without_counts(said) if partly else said


def _without_counts(said: Mapping[str, Any]) -> dict[str, Any]:
    hidden = {name: None if name in WHOLE else value for name, value in said.items()}
    following = said.get("next")
    return {**hidden, "next": _without_counts(following)} if following else hidden


def _describe(overview: Overview, name: str) -> dict[str, Any]:
    state = overview.views[name]
    info, live = state.info, state.live
    driver = _of_build(overview, name, info.live)
    return {
        "name": name,
        "feed": state.feed,
        **_described_build(info.live, live, driver),
        "stale": _stale(info, state.definition),
        "next": _described_build(info.next, state.next, _of_build(overview, name, info.next))
        if info.next
        else None,
        **_published(overview, name),
        "definition": json.loads(state.definition.text) if state.definition else None,
    }


def _of_build(overview: Overview, name: str, build: str) -> Mapping[str, Any]:
    """What the newest driver said of one build of a view, and how many queries its tasks match."""
    for said in sorted(overview.of_part("reducers"), key=lambda said: said.beat.age_ms):
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


def _described_build(id: str, build: BuildInfo | None, driver: Mapping[str, Any]) -> dict[str, Any]:
    figures = {figure: driver.get(figure) for figure in FIGURES}
    ends = driver.get("partitions") or {}
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
            str(partition): {"offset": mark.offset, "end": (ends.get(str(partition)) or {}).get("end")}
            for partition, mark in sorted(build.marks.items())
        },
    }


def _stale(info: ViewInfo, definition: Definition | None) -> bool:
    after = (definition.view.stale_after if definition else None) or 0.0
    return after > 0 and info.fresh > 0 and info.now - info.fresh > after * 1000


def _published(overview: Overview, name: str) -> dict[str, Any]:
    """Join what the publishers said: counts add up, of the delays the worst stands."""
    said = [part for one in overview.of_part("publisher") if (part := one.of_view(name))]
    delays = {
        figure: max((part[figure] for part in said if part.get(figure) is not None), default=None)
        for figure in ("e2e_p50_ms", "e2e_p99_ms")
    }
    counts = {figure: sum(part.get(figure) or 0 for part in said) for figure in ("subscribers", "published")}
    return counts | delays
