"""A build of a view, and the definition it is made from as it is stored."""

from __future__ import annotations

import enum
import json
from dataclasses import asdict
from typing import NamedTuple

from distributary.model.feed import Feed
from distributary.model.view import View


class BuildStatus(enum.StrEnum):
    """What the store records of a build."""

    BUILDING = "building"
    LIVE = "live"
    STOPPED = "stopped"


class JobState(enum.StrEnum):
    """What the driver reports of the job that runs a build."""

    STARTING = "starting"
    BUILDING = "building"
    LIVE = "live"
    WAITING = "waiting"
    """For Kafka, the store or Spark; it tries again."""
    STOPPED = "stopped"
    """For good: the reason must be removed first."""


class Engine(enum.StrEnum):
    """How Spark runs a view's queries."""

    REAL_TIME = "realtime"
    """Real-Time Mode: a task for each partition stays for a batch of minutes and gets each record at once."""
    MICRO_BATCH = "microbatch"
    """Short batches, as records come."""
    CATCH_UP = "catch-up"
    """Micro-batches until the backlog of now is read; then the query ends."""


class Build(NamedTuple):
    """Names one build of one view."""

    view: str
    id: str


class Definition(NamedTuple):
    """A view with the feed it is made from and, if it has one, its event feed."""

    view: View
    feed: Feed
    events: Feed | None = None

    @property
    def build(self) -> str:
        """The id of the build that this definition asks for."""
        return self.view.build_id(self.feed, self.events)

    @property
    def text(self) -> str:
        """The stored form; equal definitions have equal text."""
        body = {"view": asdict(self.view), "feed": asdict(self.feed), "stale_after": self.view.stale_after}
        if self.events is not None:
            body["events"] = asdict(self.events)
        return json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def load_definition(text: str) -> Definition:
    """Read a stored definition."""
    body = json.loads(text)
    view = {**body["view"], "index": tuple(body["view"].get("index", ()))}
    events = body.get("events")
    return Definition(View(**view), Feed(**body["feed"]), Feed(**events) if events is not None else None)


def stored_stale_after(text: str) -> float | None:
    """Return ``stale_after`` (seconds) of a stored definition of any version; None: it never turns stale."""
    try:
        value = json.loads(text).get("stale_after")
    except (ValueError, AttributeError):
        return None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def stored_index(text: str) -> list[str]:
    """Return the fields by which rows can be found, of a stored definition of any version."""
    try:
        fields = json.loads(text)["view"].get("index", [])
    except (ValueError, KeyError, AttributeError, TypeError):
        return []
    return [field for field in fields if isinstance(field, str)] if isinstance(fields, list) else []
