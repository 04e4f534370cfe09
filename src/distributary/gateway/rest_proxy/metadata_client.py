"""What the proxy tells of the cluster: brokers, topics, partitions, their offsets. Blocking calls."""

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

SECONDS = 5.0
"""How long the brokers may take to say what there is."""
_KEPT = 5.0
"""Seconds for which a topic's id and number of partitions are taken as known."""


class Cluster:
    """Asks Kafka; raises GatewayError for topics and partitions that are not there."""

    def __init__(self, kafka: Kafka, clock: Callable[[], float] = time.monotonic) -> None:
        self._kafka = kafka
        self._clock = clock
        self._seen: dict[str, tuple[Topic, float]] = {}

    def id(self) -> str:
        """Give the cluster's id."""
        return str(self._metadata().cluster_id)

    def brokers(self) -> list[int]:
        """List the brokers' ids."""
        return sorted(self._metadata().brokers)

    def topics(self) -> list[str]:
        """Name the topics, Kafka's own left out."""
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
            if _possible(name):
                find_topic(self.admin(), name)  # raises where it is only kept from us
            raise missing(name)
        return [
            {
                "partition": number,
                "leader": one.leader,
                "replicas": [
                    {"broker": broker, "leader": broker == one.leader, "in_sync": broker in one.isrs}
                    for broker in one.replicas
                ],
            }
            for number, one in sorted(found.partitions.items())
        ]

    def partition(self, name: str, number: int) -> dict[str, Any]:
        """Describe one partition."""
        for one in self.partitions(name):
            if one["partition"] == number:
                return one
        raise no_partition(name, number)

    def offsets(self, name: str, number: int) -> tuple[int, int]:
        """Give a partition's first offset and its end."""
        self.check(name, number)
        admin = self.admin()
        return (
            topic_offsets.earliest_offsets(admin, name).get(number, 0),
            topic_offsets.end_offsets(admin, name).get(number, 0),
        )

    def check(self, name: str, number: int | None = None) -> int:
        """Give how many partitions a topic has; raises unless there are topic and partition."""
        count = self.seen(name).partitions
        if number is not None and number >= count:
            count = self.seen(name, fresh=True).partitions
        if number is not None and not 0 <= number < count:
            raise no_partition(name, number)
        return count

    def seen(self, name: str, *, fresh: bool = False) -> Topic:
        """Describe a topic as it was seen a few seconds ago at most; raises unless there is one."""
        known, until = self._seen.get(name, (None, 0.0))
        if known is None or fresh or until < self._clock():
            known = find_topic(self.admin(), name) if _possible(name) else None
            if known is None:
                self._seen.pop(name, None)
                raise missing(name)
            self._seen[name] = (known, self._clock() + _KEPT)
        return known

    @functools.cache  # noqa: B019 - there is one for a process
    def admin(self) -> AdminClient:
        """Give the client that asks."""
        return librdkafka.admin(self._kafka)

    def _metadata(self) -> Any:
        try:
            return self.admin().list_topics(timeout=SECONDS)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"Kafka at {self._kafka.bootstrap_servers} does not answer ({error.args[0].str()})",
                hint="Check that it runs",
            ) from None


def missing(name: str) -> Exception:
    """Make the error of a topic that is not there."""
    return api_error(
        RestCode.TOPIC_NOT_FOUND, f"there is no topic {name[:249]!r}", "create it, or correct the name"
    )


def no_partition(name: str, number: int) -> Exception:
    """Make the error of a partition that is not there."""
    return api_error(
        RestCode.PARTITION_NOT_FOUND,
        f"the topic {name!r} has no partition {number}",
        f"see GET /topics/{name}",
    )


def _possible(name: str) -> bool:
    return 0 < len(name) < 250 and all(one.isascii() and (one.isalnum() or one in "._-") for one in name)
