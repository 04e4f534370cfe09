"""What every producer here is made of: records go in, and each comes to an acknowledgement or an error."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from distributary.client.configuration import Configuration, Source, read_configuration
from distributary.client.connect import BackgroundErrors, connect, count_partitions
from distributary.client.record import Sent
from distributary.errors import DistributaryError
from distributary.kafka.kafka_errors import client_error
from distributary.kafka.librdkafka import quiet, serve
from distributary.kafka.outgoing_record import OutgoingRecord, ensure_dead_letter_topic

Done = Callable[[Sent | DistributaryError], None]
"""Hears what became of a record; called in whatever thread polls."""

LOOK_AGAIN = 60.0
"""How old a topic's count of partitions may be, in seconds."""


class Outlet:
    """A librdkafka producer with topics that are known to be there. All of its methods are thread-safe."""

    def __init__(self, source: Source) -> None:
        self.config: Configuration = read_configuration(source, "producer")
        self.background = BackgroundErrors()
        self.handle = connect(Producer, self.config, self.background)
        self.max_block = float(self.config.ours.get("max.block.ms", 60_000)) / 1000
        self.initialised = False
        """Whether transactions can begin."""
        self.unfinished: Literal["", "commit", "abort"] = ""
        """How a transaction was to be ended that Kafka has not confirmed the end of."""
        self.dead = False
        """Whether librdkafka has met an error after which it does nothing more."""
        self._end: KafkaError | None = None  # that error, where it was met between calls
        self._round_robin = bool(self.config.ours.get("round robin"))
        self._turns: dict[str, itertools.count[int]] = {}
        self._known: dict[str, tuple[int, float]] = {}

    def knows(self, topic: str) -> bool:
        """Whether a record for this topic can be queued at once."""
        count, until = self._known.get(topic, (0, 0.0))
        return count > 0 and (not self._round_robin or time.monotonic() < until)

    def look_up(self, record: OutgoingRecord) -> None:
        """Find a record's topic, waiting up to ``max.block.ms``; a dead-letter topic is created.

        Raises `TopicMissing`, `KafkaUnavailable` or `KafkaRefused`.
        """
        topic = record.topic
        if record.reason:
            chosen: dict[str, Any] = {**quiet(), **self.config.librdkafka, "error_cb": self.background}
            ensure_dead_letter_topic(AdminClient(chosen), topic)
        count = count_partitions(
            self.handle,
            topic,
            f"writing {record}",
            self.config,
            self.background,
            self.max_block,
            lambda: self.serve(0, f"writing {record}"),
        )
        self._known[topic] = count, time.monotonic() + LOOK_AGAIN

    def queue(self, record: OutgoingRecord, done: Done) -> bool:
        """Queue a record for a topic that is known; False when there is no room for it now.

        Records are queued in the order of the calls. Raises for a record that is refused at once.
        """
        servers = self.config.servers

        def heard(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                done(client_error(self._end or error, f"writing {record}", servers))
                return
            offset = message.offset()
            place = int(message.partition() or 0), -1 if offset is None else int(offset)
            done(Sent(record.topic, *place, record.reason))

        try:
            self.handle.produce(
                record.topic,
                record.value,
                record.key,
                self._partition(record),
                on_delivery=heard,
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
        except BufferError:
            return False
        except KafkaException as error:
            raise client_error(self._end or error.args[0], f"writing {record}", servers) from None
        return True

    def serve(self, seconds: float, what: str = "writing") -> None:
        """Hear of acknowledgements for that long; raises what ends the producer for good."""
        self._serve(self.handle.poll, seconds, what)

    def flush(self, seconds: float) -> int:
        """Send what is queued for that long; give how many records are left. Raises as `serve`."""
        self.serve(seconds / 2)
        return self._serve(self.handle.flush, seconds, "writing")

    def _serve(self, call: Callable[[float], int], seconds: float, what: str) -> int:
        try:
            return serve(call, seconds)
        except KafkaException as error:
            told, self.dead = self.dead, True
            self._end = self._end or error.args[0]
            if told:
                return 0
            raise client_error(self._end, what, self.config.servers) from None

    def _partition(self, record: OutgoingRecord) -> int:
        if record.partition >= 0 or not self._round_robin:
            return record.partition
        turn = next(self._turns.setdefault(record.topic, itertools.count()))
        return turn % self._known[record.topic][0]
