"""A feed: a Kafka topic plus how to read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Format = Literal["json", "avro", "text", "bytes"]


@dataclass(frozen=True, slots=True)
class Feed:
    """Where records come from and how their values are read.

    ``partitioned_by`` names what the producers partition the topic by: None
    means "by the record key, which is not a field of the value". A view whose
    key is something else is re-keyed before it is reduced. With ``publish``
    clients may write records to it through a publisher; ``publish_key`` is the
    field that becomes their record key (None: what it is partitioned by).
    ``framed`` values name their schema in five bytes before them, as Avro's always do.
    """

    name: str
    topic: str
    format: Format = "json"
    partitioned_by: str | None = None
    create: bool = False
    partitions: int = 2
    dead_letters: str = ""
    publish: bool = False
    publish_key: str | None = None
    framed: bool = False

    @property
    def named_schemas(self) -> bool:
        """Whether each value says by which schema it was written."""
        return self.framed or self.format == "avro"

    @property
    def dead_letter_topic(self) -> str:
        """Where records go that cannot be read or folded."""
        return self.dead_letters or f"{self.topic}.dead-letters"
