"""What the control API sees when it looks: the store, Kafka, the supervisor's file, at one time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from redis.exceptions import RedisError

from distributary.model.build import Build, Definition, load_definition
from distributary.stack.stack_file import StackState
from distributary.store.contract import ReaderStore
from distributary.store.store_types import BuildInfo, Heartbeat, ServerState, ViewInfo

Ends = Mapping[int, int]
"""Offsets by partition."""


@dataclass(frozen=True, slots=True)
class KafkaSight:
    """The cluster, and the topics that views are made of.

    ``leaderless`` and ``under_replicated`` name partitions (``topic-0``); ``first`` is where the topics begin
    that some partition has no mark in.
    """

    answers: bool = True
    error: str = ""
    leaderless: tuple[str, ...] = ()
    under_replicated: tuple[str, ...] = ()
    ends: Mapping[str, Ends] = field(default_factory=dict)
    first: Mapping[str, Ends] = field(default_factory=dict)


class Oldest(NamedTuple):
    """The record that a build is to fold next: when it was written (ms)."""

    partition: int
    offset: int
    time: int


@dataclass(frozen=True, slots=True)
class Sight:
    """All of it.

    ``at`` is a monotonic time in seconds, ``time`` the wall clock in ms. ``kafka`` is None where none is
    configured, ``overview`` where no store answers. ``watched`` says that the supervisor of ``stack`` gives
    signs of life. ``oldest`` is known of partitions of builds that seemed to stand still: None when nothing
    waits there.
    ``free`` is what the disks of the data folder have left, by folder.
    """

    at: float
    time: int
    stores: tuple[ServerState, ...] = ()
    kafka: KafkaSight | None = None
    overview: Overview | None = None
    stack: StackState | None = None
    watched: bool = True
    oldest: Mapping[tuple[str, str], Mapping[int, Oldest | None]] = field(default_factory=dict)
    free: Mapping[str, int] = field(default_factory=dict)


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
    def stale(self) -> bool:
        """Whether its source has been silent for longer than its definition allows."""
        after = (self.definition.view.stale_after if self.definition else None) or 0.0
        return (
            after > 0 and self.info.last_record > 0 and self.info.now - self.info.last_record > after * 1000
        )

    @property
    def feeds(self) -> list[str]:
        """The names of its feed and its event feed."""
        found = self.definition[1:] if self.definition else ()
        return [feed.name for feed in found if feed is not None]


@dataclass(frozen=True, slots=True)
class Said:
    """A part's last beat, read."""

    beat: Heartbeat
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
        return [one for one in self.said if one.beat.component == part]


async def read_overview(
    store: ReaderStore, names: Iterable[str] | None = None, *, beats: bool = True, partly: bool = False
) -> Overview:
    """Read the views of these names (all, if None) that exist.

    With ``partly`` the views of a server that does not answer are left out; raises when none does.
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
    return Overview(found, [_read(beat) for beat in await store.heartbeats()] if beats else [])


async def _read_view(store: ReaderStore, name: str) -> ViewState | None:
    info = await store.view(name)
    if info is None:
        return None
    live = await store.build(Build(name, info.live)) if info.live else None
    next_ = await store.build(Build(name, info.next)) if info.next else None
    return ViewState(info, live, next_, _definition(info.definition))


def _definition(text: str) -> Definition | None:
    """Read a stored definition; None for one that this version cannot read."""
    try:
        return load_definition(text)
    except (ValueError, KeyError, TypeError):
        return None


def _read(beat: Heartbeat) -> Said:
    try:
        stats = json.loads(beat.stats)
    except ValueError:
        stats = None
    return Said(beat, stats if isinstance(stats, dict) else {})


async def pace_of(store: ReaderStore, subscription: str) -> dict[str, Any] | None:
    """Find how many changes one was not sent one by one; None when it has no pace, or none is known yet.

    Publishers tell it every few seconds, so the counts are that old.
    """
    for said in (await read_overview(store, [])).of_part("publisher"):
        paces = said.stats.get("paces")
        found = paces.get(subscription) if isinstance(paces, dict) else None
        if isinstance(found, dict):
            return found
    return None
