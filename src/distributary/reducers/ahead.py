"""Looks ahead in a topic for the schemas that its records name, so that a query is not stopped for each."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, TopicPartition

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka
from distributary.reducers.confluent_framing import schema_id

SECONDS = 3.0
MOST = 1_000
"""How long is looked, and after how many schemas no further."""


def schemas_ahead(kafka: Kafka, topic: str, starts: Mapping[int, int]) -> set[int]:
    """Name the schemas of the records from some offsets on, as far as they can be read in a few seconds."""
    # The group's name is asked for by the library and used for nothing: assign() joins no group.
    reader = librdkafka.consumer(
        kafka, "distributary-schemas", auto_offset_reset="earliest", enable_partition_eof="true"
    )
    found: set[int] = set()
    left, until = set(starts), time.monotonic() + SECONDS
    try:
        reader.assign([TopicPartition(topic, partition, at) for partition, at in starts.items()])
        while left and len(found) < MOST and time.monotonic() < until:
            for message in reader.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    id = schema_id(message.value() or b"")
                    found |= {id} if id is not None else set()
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition() or 0)
    finally:
        reader.close()
    return found
