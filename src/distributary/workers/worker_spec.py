"""What a worker is to do, as its supervisor tells it: through a pipe, since it has the cluster's secrets."""

from __future__ import annotations

from typing import Any

import msgspec

BAD = 2
"""The exit status of a worker that would fail in the same way again."""


class Spec(msgspec.Struct, frozen=True):
    """``properties`` are Kafka's, under the Java client's names."""

    function: str
    topic: str
    group: str
    properties: dict[str, Any]
    to: str = ""
    dead_letters: str = ""
    start: str = "earliest"
    retries: int = 3
    backoff: float = 0.5
    exactly_once: bool = False
    batch: int = 100
    slot: int = 0
    owner: str = ""

    @property
    def client_id(self) -> str:
        """Its first word is the application, by which groups are kept apart."""
        return f"{self.group.replace('.', '-')}-{self.slot}"

    def consumer(self) -> dict[str, Any]:
        """The consumer's configuration."""
        return {
            "Type": "KafkaConsumerConfig",
            "Properties": {
                # Between two records at most one is in hand, and the group may move.
                "max.poll.records": self.batch if self.exactly_once else 1,
                # A worker that was killed is missed so soon, and not sooner: brokers allow no less.
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 2_000,
                **self.properties,
                "group.id": self.group,
                "client.id": self.client_id,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": self.start,
                "partition.assignment.strategy": (
                    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
                ),
            },
        }

    def producer(self) -> dict[str, Any]:
        """The producer's configuration."""
        own: dict[str, Any] = {"linger.ms": 5, **self.properties, "client.id": self.client_id}
        if self.exactly_once:
            # The same after a restart: whoever has it ends what the one before left open.
            own["transactional.id"] = f"{self.group}.{self.owner}.{self.slot}"
        else:
            own["producer.type"] = "async"
        return {"Type": "KafkaProducerConfig", "Properties": own}
