"""A view: a feed, an optional select and where, a row key, and a reduce rule."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from distributary.model.feed import Feed


@dataclass(frozen=True, slots=True)
class View:
    """What is kept of a feed, row by row.

    ``key``, ``select`` and ``where`` are Spark SQL over the fields of the
    value and over ``record_key``, ``record_timestamp``, ``record_headers``,
    ``record_partition``, ``record_offset``. ``reduce`` is ``merge``,
    ``latest``, ``aggregate`` or ``package.module:function``. ``start`` is
    ``earliest``, ``now`` or an ISO 8601 time. ``index`` names fields of the
    row by whose values rows can be found without reading all. With ``replay``
    subscribers of the whole view that were away for longer than the log reaches
    back are served by what Kafka has. ``events`` names a second feed whose every
    record goes to every reducer and is folded into all of its rows by
    ``reduce_events``, a function like ``reduce``'s. Durations are seconds; None means never.
    """

    name: str
    feed: str
    key: str | None = None
    select: str | None = None
    where: str | None = None
    reduce: str = "merge"
    events: str | None = None
    reduce_events: str | None = None
    aggregates: Mapping[str, str] = field(default_factory=dict)
    window: float | None = None
    time: str | None = None
    late: float = 0.0
    start: str = "earliest"
    ttl: float | None = None
    index: tuple[str, ...] = ()
    stale_after: float | None = None
    engine: str = "auto"
    replay: bool = False

    def build_id(self, feed: Feed, events: Feed | None = None) -> str:
        """Name the build of this definition: it changes when the rows would.

        Two definitions with the same id may share rows; settings that only
        matter to readers (``stale_after``, ``engine``, ``replay``) are left out.
        """
        words: dict[str, Any] = asdict(self)
        for name in ("stale_after", "engine", "replay"):
            del words[name]
        if not self.index:
            del words["index"]
        if events is None:
            del words["events"], words["reduce_events"]
        else:
            words["events"] = (events.topic, events.format)
        if feed.framed:
            words["framed"] = True
        words["topic"] = feed.topic
        words["format"] = feed.format
        words["partitioned_by"] = feed.partitioned_by
        text = repr(sorted((k, sorted(v.items()) if isinstance(v, dict) else v) for k, v in words.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def is_keyed_like(self, feed: Feed) -> bool:
        """Whether the row key is what the feed's producers partition its topic by."""
        key = (self.key or "record_key").strip()
        return key in ("record_key", (feed.partitioned_by or "").strip())

    def needs_rekey(self, feed: Feed, partitions: int, *, forced: bool = False) -> bool:
        """Whether records must go through an internal topic to reach the partition that owns their row (R7).

        ``forced`` is for a topic that got more partitions: records of one key are in two of them.
        """
        return partitions > 1 and (forced or not self.is_keyed_like(feed))
