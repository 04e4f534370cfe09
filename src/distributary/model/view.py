"""A view: a feed, an optional select and where, a row key, and a reduce rule."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from distributary.model import value_checks
from distributary.model.feed import Feed
from distributary.model.setting_info import described


@dataclass(frozen=True, slots=True)
class View:
    """The rows that are built from a feed.

    ``key``, ``select``, ``where`` and ``time`` are Spark SQL over the fields of the value and over
    ``record_key``, ``record_timestamp``, ``record_headers``, ``record_partition`` and ``record_offset``.
    Durations are seconds; None means never.
    """

    name: str = field(
        metadata=described(
            "The name by which subscribers refer to the view.", example='"odds"', check=value_checks.name
        )
    )
    feed: str = field(
        metadata=described("The feed it is built from.", example='"odds"', check=value_checks.not_blank)
    )
    key: str | None = field(
        default=None,
        metadata=described(
            "Spark SQL for the row key. Not set: the record key.", example='"market_id"', optional=True
        ),
    )
    select: str | None = field(
        default=None,
        metadata=described(
            "Spark SQL list of the fields to keep. Not set: all fields.",
            example='"market_id, price, price * 100 as cents"',
            optional=True,
        ),
    )
    where: str | None = field(
        default=None,
        metadata=described(
            "Spark SQL condition on the records. Not set: all records.",
            example='"price > 1.0"',
            optional=True,
        ),
    )
    reduce: str = field(
        default="merge",
        metadata=described(
            "How records are reduced to a row: `merge`, `latest`, `aggregate`, or a function as "
            "`package.module:function`.",
            example='"latest"',
            words=value_checks.RULES,
            check=value_checks.rule,
        ),
    )
    events: str | None = field(
        default=None,
        metadata=described(
            "If `reduce` is a function: a second feed, whose every record is folded into every row. Its "
            "topic must have one partition, and gets one when it is created.",
            example='"ticks"',
            optional=True,
        ),
    )
    reduce_events: str | None = field(
        default=None,
        metadata=described(
            "For `events`: the function that folds an event into a row, as `package.module:function`.",
            example='"rules:tick"',
            optional=True,
            check=value_checks.function,
        ),
    )
    aggregates: Mapping[str, str] = field(
        default_factory=dict,
        metadata=described(
            'For `reduce = "aggregate"`: field = fn(expression), where fn is count, sum, min, max, avg or '
            "last.",
            "table",
            example='{ total = "sum(stake)", bets = "count()" }',
        ),
    )
    window: float | None = field(
        default=None,
        metadata=described(
            'For `reduce = "aggregate"`: the length of the event-time windows. Not set: one row per key.',
            "duration",
            unit="s",
            low=0.001,
            example='"1 minute"',
            optional=True,
        ),
    )
    time: str | None = field(
        default=None,
        metadata=described(
            "Spark SQL for the event time. Not set: the timestamp of the record.",
            example='"placed_at"',
            optional=True,
        ),
    )
    late: float = field(
        default=0.0,
        metadata=described(
            "How far a record may be behind the latest event time (allowed lateness).",
            "duration",
            unit="s",
            low=0,
            example='"10 s"',
        ),
    )
    start: str = field(
        default="earliest",
        metadata=described(
            "Where in the feed the view begins: `earliest`, `now`, or an ISO 8601 time (UTC unless it has an "
            "offset).",
            "start",
            example='"2026-01-31T08:00:00Z"',
        ),
    )
    ttl: float | None = field(
        default=None,
        metadata=described(
            "How long a row is kept without a change. Not set: forever.",
            "duration",
            unit="s",
            low=0.001,
            example='"1h"',
            optional=True,
        ),
    )
    index: tuple[str, ...] = field(
        default=(),
        metadata=described(
            "Fields of the row that queries often compare by equality: such a query reads only the matching "
            "rows.",
            "list",
            example='["match_id"]',
        ),
    )
    stale_after: float | None = field(
        default=None,
        metadata=described(
            "The time without records after which the view is reported as stale. Not set: never.",
            "duration",
            unit="s",
            low=0.001,
            example='"30 s"',
            optional=True,
        ),
    )
    engine: str = field(
        default="auto",
        metadata=described(
            "How the view runs; `auto` uses `spark.engine`.",
            choices=value_checks.ENGINES,
            example='"realtime"',
        ),
    )
    replay: bool = field(
        default=False,
        metadata=described(
            "Let subscribers of the whole view catch up from Kafka's records where the log does not reach "
            "back far enough.",
            "boolean",
            example="true",
        ),
    )

    @property
    def functions(self) -> tuple[str, ...]:
        """The Python functions that the view names, as ``module:function``."""
        return tuple(name for name in (self.reduce, self.reduce_events) if name and ":" in name)

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
