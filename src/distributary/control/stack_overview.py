"""What the store knows of the views and of the processes around them, read at one time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import RedisError

from distributary.model.build import Build, Definition, load_definition
from distributary.store.contract import ReaderStore
from distributary.store.store_types import BuildInfo, Heartbeat, ViewInfo


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
