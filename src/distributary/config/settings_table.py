"""The table of all settings, in the order of the reference page."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from distributary.config import validators
from distributary.config.auth_section import Auth
from distributary.config.gateway_section import Gateway
from distributary.config.limits_section import Limits
from distributary.config.names import Naming
from distributary.config.schemas import Schemas
from distributary.config.sections import ENGINES, Control, Kafka, Publisher, Spark, Store
from distributary.config.setting_field import Note, Section, Setting, describe
from distributary.config.socketio_section import Socketio
from distributary.model.feed import Feed
from distributary.model.topic import Topic
from distributary.model.view import View

SECTIONS: Mapping[str, type[Section]] = MappingProxyType(
    {
        "kafka": Kafka,
        "store": Store,
        "spark": Spark,
        "publisher": Publisher,
        "control": Control,
        "gateway": Gateway,
        "schemas": Schemas,
        "auth": Auth,
        "limits": Limits,
        "socketio": Socketio,
        "naming": Naming,
    }
)

_DATA_DIR = Note(
    "Folder for what the embedded parts keep, relative to the file's folder.",
    "text",
    example='"/var/lib/distributary"',
    check=validators.not_blank,
)

FEED_NOTES: Mapping[str, Note] = {
    "name": Note("What views call the feed.", "text", example='"odds"', check=validators.name),
    "topic": Note("The Kafka topic it reads.", "text", example='"sportsbook.odds"', check=validators.topic),
    "format": Note(
        "How the values of its records are read. Schemas of avro are found by [schemas].",
        "text",
        choices=("json", "avro", "text", "bytes"),
        example='"avro"',
    ),
    "partitioned_by": Note(
        "Field of the value by which producers partition the topic. Not set: by the record key.",
        "text",
        example='"market_id"',
        optional=True,
    ),
    "create": Note("Create the topic at the start if there is none.", "boolean", example="true"),
    "partitions": Note("Partitions of a topic that is created.", "integer", low=1, high=10_000, example="6"),
    "dead_letters": Note(
        "Topic for records that cannot be read or folded. Empty: the topic's name and .dead-letters.",
        "text",
        example='"sportsbook.failed"',
        check=validators.topic_or_empty,
    ),
    "publish": Note(
        "Whether subscribers may write records to it, by publishing to the channel feed:<name>.",
        "boolean",
        example="true",
    ),
    "publish_key": Note(
        "Field of a published message that becomes the record key (format json). "
        "Not set: the field of partitioned_by, else no key.",
        "text",
        example='"player"',
        optional=True,
    ),
    "framed": Note(
        "For format json: five bytes before each value name its schema, as Confluent's serializers write it "
        "(those of format avro always do).",
        "boolean",
        example="true",
    ),
}

TOPIC_NOTES: Mapping[str, Note] = {
    "name": Note("The Kafka topic.", "text", example='"sportsbook.bets"', check=validators.topic),
    "schema": Note(
        "File of the schema that its values must fit, relative to the file's folder: Avro if its name ends "
        "with .avsc, else JSON Schema. Empty: all values fit.",
        "text",
        example='"schemas/bet.json"',
    ),
    "framed": Note(
        "Five bytes before each value name its schema in a registry, and are passed over.",
        "boolean",
        example="true",
    ),
    "routes": Note(
        "Other topics, each with a filter as in live queries: the first that is true of a record takes it.",
        "table",
        example='{ "sportsbook.large-bets" = "stake >= 1000" }',
        check=validators.topic,
        entry=validators.row_filter,
    ),
    "dead_letters": Note(
        "Topic for records that do not fit. Empty: the topic's name and .dead-letters.",
        "text",
        example='"sportsbook.failed"',
        check=validators.topic_or_empty,
    ),
}

VIEW_NOTES: Mapping[str, Note] = {
    "name": Note("What subscribers call the view.", "text", example='"odds"', check=validators.name),
    "feed": Note("The feed it is made from.", "text", example='"odds"', check=validators.not_blank),
    "key": Note(
        "Spark SQL for the row key. Not set: the record key.", "text", example='"market_id"', optional=True
    ),
    "select": Note(
        "Spark SQL list of the fields to keep. Not set: all.",
        "text",
        example='"market_id, price, price * 100 as cents"',
        optional=True,
    ),
    "where": Note(
        "Spark SQL condition on the records. Not set: all.", "text", example='"price > 1.0"', optional=True
    ),
    "reduce": Note(
        "How records become a row: merge, latest, aggregate, or a function as package.module:function.",
        "text",
        example='"latest"',
        words=validators.RULES,
        check=validators.rule,
    ),
    "events": Note(
        "For reduce = a function: a second feed, whose every record is folded into every row. "
        "Its topic has one partition, also when it is created.",
        "text",
        example='"ticks"',
        optional=True,
    ),
    "reduce_events": Note(
        "For events: the function that folds an event into a row, as package.module:function.",
        "text",
        example='"rules:tick"',
        optional=True,
        check=validators.function,
    ),
    "aggregates": Note(
        "For reduce = aggregate: field = fn(expression), fn being count, sum, min, max, avg or last.",
        "table",
        example='{ total = "sum(stake)", bets = "count()" }',
    ),
    "window": Note(
        "For reduce = aggregate: length of the event-time windows. Not set: one row a key.",
        "duration",
        unit="s",
        low=0.001,
        example='"1 minute"',
        optional=True,
    ),
    "time": Note(
        "Spark SQL for the event time. Not set: the record's timestamp.",
        "text",
        example='"placed_at"',
        optional=True,
    ),
    "late": Note(
        "How far behind the newest event time a record may come.",
        "duration",
        unit="s",
        low=0,
        example='"10 s"',
    ),
    "start": Note(
        "Where the view begins in the feed: earliest, now, or an ISO 8601 time (UTC unless it says).",
        "start",
        example='"2026-01-31T08:00:00Z"',
    ),
    "ttl": Note(
        "How long a row lives without a change. Not set: for ever.",
        "duration",
        unit="s",
        low=0.001,
        example='"1h"',
        optional=True,
    ),
    "index": Note(
        "Fields of the row that are often asked for by value: such queries read only their rows.",
        "list",
        example='["match_id"]',
    ),
    "stale_after": Note(
        "After how long without records the view is called stale. Not set: never.",
        "duration",
        unit="s",
        low=0.001,
        example='"30 s"',
        optional=True,
    ),
    "engine": Note(
        "How the view runs; auto follows spark.engine.", "text", choices=ENGINES, example='"realtime"'
    ),
    "replay": Note(
        "Let subscribers of the whole view catch up by Kafka's records where the log does not reach back.",
        "boolean",
        example="true",
    ),
}

TOP: tuple[Setting, ...] = (Setting("", "data_dir", ".distributary", False, _DATA_DIR),)
FEED: tuple[Setting, ...] = describe("feeds", Feed, FEED_NOTES)
TOPIC: tuple[Setting, ...] = describe("topics", Topic, TOPIC_NOTES)
VIEW: tuple[Setting, ...] = describe("views", View, VIEW_NOTES)

GROUPS: Mapping[str, tuple[Setting, ...]] = MappingProxyType(
    {
        "": TOP,
        **{name: describe(name, cls) for name, cls in SECTIONS.items()},
        "topics": TOPIC,
        "feeds": FEED,
        "views": VIEW,
    }
)
"""Every setting, by section."""

SETTINGS: tuple[Setting, ...] = tuple(row for rows in GROUPS.values() for row in rows)
"""Every setting, in one list."""
