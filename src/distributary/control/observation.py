"""An observation of the stack: the store, Kafka and the supervisor's file, at one time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from redis.exceptions import RedisError

from distributary.model.build import Build, Definition, load_definition
from distributary.stack.stack_file import StackState
from distributary.store.contract import ReaderStore
from distributary.store.store_types import BuildInfo, ProcessHeartbeat, ServerState, ViewInfo

Ends = Mapping[int, int]
"""Offsets by partition."""


@dataclass(frozen=True, slots=True)
class KafkaObservation:
    """The cluster, and the topics of views.

    ``leaderless`` and ``under_replicated`` name partitions (``topic-0``). ``ends`` are the end offsets by
    topic, ``first`` the first offsets.
    """

    answers: bool = True
    error: str = ""
    leaderless: tuple[str, ...] = ()
    under_replicated: tuple[str, ...] = ()
    ends: Mapping[str, Ends] = field(default_factory=dict)
    first: Mapping[str, Ends] = field(default_factory=dict)


class NextRecord(NamedTuple):
    """The record that a build folds next, and when it was written (ms)."""

    partition: int
    offset: int
    time: int


@dataclass(frozen=True, slots=True)
class Observation:
    """The stack at one time.

    ``at`` is a monotonic time in seconds, ``time`` the wall clock in ms. ``kafka`` is None if none is
    configured, ``overview`` if no store responds. ``supervised`` is whether the supervisor of ``stack`` sends
    heartbeats. ``next_records`` are known for partitions of builds that seem to have stalled: None if no
    record waits there. ``free_bytes`` are those of the disks of the data folder, by folder.
    """

    at: float
    time: int
    stores: tuple[ServerState, ...] = ()
    kafka: KafkaObservation | None = None
    overview: Overview | None = None
    stack: StackState | None = None
    supervised: bool = True
    next_records: Mapping[tuple[str, str], Mapping[int, NextRecord | None]] = field(default_factory=dict)
    free_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ViewState:
    """A view with its builds."""

    info: ViewInfo
    live: BuildInfo | None
    next: BuildInfo | None
    definition: Definition | None

    @property
    def feed(self) -> str:
        """The name of the view's feed."""
        return self.definition.feed.name if self.definition else ""

    @property
    def stale(self) -> bool:
        """True if its source has sent nothing for longer than its definition allows."""
        after = (self.definition.view.stale_after if self.definition else None) or 0.0
        return (
            after > 0 and self.info.last_record > 0 and self.info.now - self.info.last_record > after * 1000
        )

    @property
    def feeds(self) -> list[str]:
        """The names of the view's feed and its event feed."""
        found = self.definition[1:] if self.definition else ()
        return [feed.name for feed in found if feed is not None]


@dataclass(frozen=True, slots=True)
class ComponentReport:
    """A component's last heartbeat, parsed."""

    heartbeat: ProcessHeartbeat
    stats: Mapping[str, Any]

    def of_view(self, name: str) -> Mapping[str, Any]:
        """What it reported about one view."""
        views = self.stats.get("views")
        found = views.get(name) if isinstance(views, dict) else None
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Overview:
    """All views and all reports, read at one time."""

    views: Mapping[str, ViewState]
    reports: list[ComponentReport] = field(default_factory=list)

    def of_component(self, component: str) -> list[ComponentReport]:
        """The reports of one kind of component."""
        return [one for one in self.reports if one.heartbeat.component == component]


async def read_overview(
    store: ReaderStore, names: Iterable[str] | None = None, *, heartbeats: bool = True, partly: bool = False
) -> Overview:
    """Read those of the named views (all, if None) that exist.

    With ``partly``, the views of a server that does not respond are left out; raises if none responds.
    """
    found: dict[str, ViewState] = {}
    for name in await store.views() if names is None else names:
        try:
            state = await _read_view(store, name)
        except (RedisError, OSError):
            if not partly:
                raise
            continue
        if state is not None:
            found[name] = state
    return Overview(found, [_parse_report(one) for one in await store.heartbeats()] if heartbeats else [])


async def _read_view(store: ReaderStore, name: str) -> ViewState | None:
    info = await store.view(name)
    if info is None:
        return None
    live = await store.build(Build(name, info.live)) if info.live else None
    next_ = await store.build(Build(name, info.next)) if info.next else None
    return ViewState(info, live, next_, _definition(info.definition))


def _definition(text: str) -> Definition | None:
    """Parse a stored definition; None for one that this version cannot parse."""
    try:
        return load_definition(text)
    except (ValueError, KeyError, TypeError):
        return None


def _parse_report(heartbeat: ProcessHeartbeat) -> ComponentReport:
    try:
        stats = json.loads(heartbeat.stats)
    except ValueError:
        stats = None
    return ComponentReport(heartbeat, stats if isinstance(stats, dict) else {})


async def pace_of(store: ReaderStore, subscription: str) -> dict[str, Any] | None:
    """Find how many changes one was not sent one by one; None when it has no pace, or none is known yet.

    Publishers report it every few seconds, so the counts are that old.
    """
    for report in (await read_overview(store, [])).of_component("publisher"):
        paces = report.stats.get("paces")
        found = paces.get(subscription) if isinstance(paces, dict) else None
        if isinstance(found, dict):
            return found
    return None
