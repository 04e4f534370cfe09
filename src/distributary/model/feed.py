"""Feeds, and the checks of the topics behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from distributary.model import value_checks
from distributary.model.setting_info import described

Format = Literal["json", "avro", "text", "bytes"]


@dataclass(frozen=True, slots=True)
class Feed:
    """A Kafka topic and how to read it."""

    name: str = field(
        metadata=described(
            "The name by which views refer to the feed.", example='"odds"', check=value_checks.name
        )
    )
    topic: str = field(
        metadata=described(
            "The Kafka topic that it reads.", example='"sportsbook.odds"', check=value_checks.topic
        )
    )
    format: Format = field(
        default="json",
        metadata=described(
            "The format of the record values. Avro schemas are looked up as [schemas] configures.",
            choices=("json", "avro", "text", "bytes"),
            example='"avro"',
        ),
    )
    partitioned_by: str | None = field(
        default=None,
        metadata=described(
            "The field of the value by which producers partition the topic, as the record key. Not set: the "
            "record key is not a field. A view with another key is re-keyed before it is reduced.",
            example='"market_id"',
            optional=True,
        ),
    )
    create: bool = field(
        default=False,
        metadata=described("Create the topic at start if it does not exist.", "boolean", example="true"),
    )
    partitions: int = field(
        default=2,
        metadata=described(
            "The number of partitions of a topic that is created.", "integer", low=1, high=10_000, example="6"
        ),
    )
    dead_letters: str = field(
        default="",
        metadata=described(
            "The topic for records that cannot be read or folded. Empty: the name of the topic plus "
            "`.dead-letters`.",
            example='"sportsbook.failed"',
            check=value_checks.topic_or_empty,
        ),
    )
    publish: bool = field(
        default=False,
        metadata=described(
            "Whether subscribers may write records to it, by publishing to the channel `feed:<name>`.",
            "boolean",
            example="true",
        ),
    )
    publish_key: str | None = field(
        default=None,
        metadata=described(
            "The field of a published message that becomes the record key (format json). "
            "Not set: the field of `partitioned_by`, else the record has no key.",
            example='"player"',
            optional=True,
        ),
    )
    framed: bool = field(
        default=False,
        metadata=described(
            "For format json: five bytes before each value identify its schema, as Confluent's serializers "
            "write it (values of format avro always have them).",
            "boolean",
            example="true",
        ),
    )

    @property
    def named_schemas(self) -> bool:
        """Whether each value identifies the schema by which it was written."""
        return self.framed or self.format == "avro"

    @property
    def dead_letter_topic(self) -> str:
        """The topic for records that cannot be read or folded."""
        return self.dead_letters or f"{self.topic}.dead-letters"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic whose records are checked and routed by every component that writes them."""

    name: str = field(
        metadata=described("The Kafka topic.", example='"sportsbook.bets"', check=value_checks.topic)
    )
    schema: str = field(
        default="",
        metadata=described(
            "The file of the schema that its values must match, relative to the configuration file: Avro if "
            "its name ends with .avsc, else JSON Schema. Empty: all values are accepted.",
            example='"schemas/bet.json"',
        ),
    )
    framed: bool = field(
        default=False,
        metadata=described(
            "Five bytes before each value identify its schema in a registry, and are skipped.",
            "boolean",
            example="true",
        ),
    )
    routes: Mapping[str, str] = field(
        default_factory=dict,
        metadata=described(
            "Other topics, each with a filter as in live queries: a record goes to the first topic whose "
            "filter matches it.",
            "table",
            example='{ "sportsbook.large-bets" = "stake >= 1000" }',
            check=value_checks.topic,
            entry=value_checks.row_filter,
        ),
    )
    dead_letters: str = field(
        default="",
        metadata=described(
            "The topic for records that are rejected. Empty: the name of the topic plus `.dead-letters`.",
            example='"sportsbook.failed"',
            check=value_checks.topic_or_empty,
        ),
    )

    @property
    def dead_letter_topic(self) -> str:
        """The topic for records that are rejected."""
        return self.dead_letters or f"{self.name}.dead-letters"
