"""A cluster at hand: its admin client, and the way to wait for its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import AdminClient

from distributary.config.sections import Kafka
from distributary.kafka import kafka_errors, librdkafka
from distributary.kafka.topic_offsets import wait_for_kafka


@dataclass(frozen=True)
class Cluster:
    """Blocking calls; each has an end."""

    kafka: Kafka
    admin: AdminClient

    @property
    def servers(self) -> str:
        """Where it is, as the user said it."""
        return self.kafka.bootstrap_servers

    def ask(self, future: Future[Any], what: str) -> Any:
        """Wait for one answer; a refusal is an error that begins with ``what``."""
        return kafka_errors.result(future, what, self.servers)

    def ask_group(self, make: Callable[[], Future[Any]], what: str) -> Any:
        """As `ask`, for what a group's coordinator answers, which may not be there yet."""
        return kafka_errors.group_result(make, what, self.servers)

    def ask_each(self, futures: Mapping[Any, Future[Any]], what: str) -> dict[Any, Any]:
        """Wait for the answers to all; the error of the first refusal names its key."""
        return {key: self.ask(future, f"{what} {key}") for key, future in futures.items()}


def connect(kafka: Kafka, limit: float) -> Cluster:
    """Find a broker that answers; raises KafkaUnavailable after ``limit`` seconds, KafkaRefused at once."""
    wait_for_kafka(kafka, limit, patient=False)
    return Cluster(kafka, librdkafka.admin(kafka))
