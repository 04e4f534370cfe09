"""Reads the cluster's metadata: brokers, topics, partitions and their offsets. Blocking calls."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from distributary.config.sections import Kafka
from distributary.errors import KafkaUnavailable
from distributary.gateway.error_codes import RestCode, api_error
from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.topics import Topic, find_topic, list_topics, topic_config

_TIMEOUT = 5.0
"""Seconds in which the brokers must respond."""
_CACHED = 5.0
"""Seconds for which a topic's id and number of partitions are cached."""


class MetadataClient:
    """Asks Kafka; raises GatewayError if a topic or partition does not exist."""

    def __init__(self, kafka: Kafka, clock: Callable[[], float] = time.monotonic) -> None:
        self._kafka = kafka
        self._clock = clock
        self._cache: dict[str, tuple[Topic, float]] = {}
        """Topics with the time until which each is valid."""

    def cluster_id(self) -> str:
        """Return the cluster's id."""
        return str(self._metadata().cluster_id)

    def brokers(self) -> list[int]:
        """List the brokers' ids."""
        return sorted(self._metadata().brokers)

    def topics(self) -> list[str]:
        """List the topics, without Kafka's own."""
        return list_topics(self.admin())

    def topic(self, name: str) -> dict[str, Any]:
        """Describe a topic with its settings."""
        partitions = self.partitions(name)
        return {
            "name": name,
            "configs": topic_config(self.admin(), name),
            "partitions": partitions,
        }

    def partitions(self, name: str) -> list[dict[str, Any]]:
        """Describe a topic's partitions: leader and replicas."""
        found = self._metadata().topics.get(name)
        if found is None or found.error is not None:
            if _is_valid(name):
                find_topic(self.admin(), name)  # raises if it exists and is not visible to us
            raise topic_not_found(name)
        return [
            {
                "partition": number,
                "leader": partition.leader,
                "replicas": [
                    {
                        "broker": broker,
                        "leader": broker == partition.leader,
                        "in_sync": broker in partition.isrs,
                    }
                    for broker in partition.replicas
                ],
            }
            for number, partition in sorted(found.partitions.items())
        ]

    def partition(self, name: str, number: int) -> dict[str, Any]:
        """Describe one partition."""
        for partition in self.partitions(name):
            if partition["partition"] == number:
                return partition
        raise partition_not_found(name, number)

    def offsets(self, name: str, number: int) -> tuple[int, int]:
        """Return a partition's first offset and its end."""
        self.check(name, number)
        admin = self.admin()
        return (
            topic_offsets.earliest_offsets(admin, name).get(number, 0),
            topic_offsets.end_offsets(admin, name).get(number, 0),
        )

    def check(self, name: str, number: int | None = None) -> int:
        """Return how many partitions a topic has; raises unless topic and partition exist."""
        count = self.cached_topic(name).partitions
        if number is not None and number >= count:
            count = self.cached_topic(name, refresh=True).partitions
        if number is not None and not 0 <= number < count:
            raise partition_not_found(name, number)
        return count

    def cached_topic(self, name: str, *, refresh: bool = False) -> Topic:
        """Describe a topic as it was at most a few seconds ago; raises unless it exists."""
        topic, valid_until = self._cache.get(name, (None, 0.0))
        if topic is None or refresh or valid_until < self._clock():
            topic = find_topic(self.admin(), name) if _is_valid(name) else None
            if topic is None:
                self._cache.pop(name, None)
                raise topic_not_found(name)
            self._cache[name] = (topic, self._clock() + _CACHED)
        return topic

    @functools.cache  # noqa: B019 - there is one for each process
    def admin(self) -> AdminClient:
        """Return the client of the admin API."""
        return librdkafka.admin(self._kafka)

    def _metadata(self) -> Any:
        try:
            return self.admin().list_topics(timeout=_TIMEOUT)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"Kafka at {self._kafka.bootstrap_servers} does not respond ({error.args[0].str()})",
                hint="Check that it runs",
            ) from None


def topic_not_found(name: str) -> Exception:
    """Create the error for a topic that does not exist."""
    hint = "create it, or correct the name"
    return api_error(RestCode.TOPIC_NOT_FOUND, f"topic {name[:249]!r} not found", hint)


def partition_not_found(name: str, number: int) -> Exception:
    """Create the error for a partition that does not exist."""
    message = f"topic {name!r} has no partition {number}"
    return api_error(RestCode.PARTITION_NOT_FOUND, message, f"see GET /topics/{name}")


def _is_valid(name: str) -> bool:
    return 0 < len(name) < 250 and all(
        letter.isascii() and (letter.isalnum() or letter in "._-") for letter in name
    )
