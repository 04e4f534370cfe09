"""One worker: reads as a member of the group, calls the function, and commits the records that it handled."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from distributary.client import Consumer, Producer, Record, exactly_once
from distributary.errors import DistributaryError, GroupRefused
from distributary.kafka.outgoing_record import dead_letter_headers
from distributary.kafka.topics import PartitionId
from distributary.workers.record_handler import Abandoned, Outcome, RecordHandler, load_function

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
"""How long to wait for a record before checking whether to stop."""
COMMIT_SECONDS = 0.5
"""How long handled records may stay uncommitted while more arrive."""


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is to do. It reaches it through a pipe, since it contains the cluster's secrets.

    ``properties`` are Kafka's, under the Java client's names. ``slot`` numbers the workers of a pool,
    ``owner`` identifies the pool.
    """

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
        """Its first word is the application, by which the owners of groups are recognized."""
        return f"{self.group.replace('.', '-')}-{self.slot}"

    def consumer(self) -> dict[str, Any]:
        """The consumer's configuration."""
        return {
            "Type": "KafkaConsumerConfig",
            "Properties": {
                # So at most one record is uncommitted when the group rebalances.
                "max.poll.records": self.batch if self.exactly_once else 1,
                # The shortest that brokers allow: how soon they notice that a worker was killed.
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
            # The same after a restart: the new worker ends the transaction that the last one left open.
            own["transactional.id"] = f"{self.group}.{self.owner}.{self.slot}"
        else:
            own["producer.type"] = "async"
        return {"Type": "KafkaProducerConfig", "Properties": own}


class Worker:
    """For one thread. When ``stop`` is set it completes the records that it has, and ends."""

    def __init__(self, spec: WorkerSpec, stop: threading.Event, report: Callable[[int, int], None]) -> None:
        """``report`` is called with the numbers of records done, and of dead letters among them."""
        self._spec = spec
        self._stop = stop
        self._report = report
        self._done = self._dead = 0
        self._warned_of_no_topic = False

    def run(self) -> None:
        """Work until stopped. Raises DistributaryError, also of kinds that a restart does not help."""
        spec = self._spec
        function = load_function(spec.function)
        handler = RecordHandler(function, spec.retries, spec.backoff, self._stop.wait)
        with Producer(spec.producer()) as producer, Consumer(spec.consumer()) as consumer:
            try:
                (self._exactly_once if spec.exactly_once else self._at_least_once)(
                    consumer, producer, handler
                )
            finally:
                handler.close()

    def _at_least_once(self, consumer: Consumer, producer: Producer, handler: RecordHandler) -> None:
        committed, failed = time.monotonic(), False

        def commit(_: list[PartitionId] | None = None) -> None:
            nonlocal committed
            if failed:  # some output was not written: its record must be read again
                return
            producer.flush()
            try:
                consumer.commit()
            except GroupRefused as error:  # the partitions went to other workers, which read them again
                log.warning("%s", error)
            committed = time.monotonic()
            self._report(self._done, self._dead)

        consumer.subscribe(self._spec.topic, on_assigned=self._log_assigned, on_revoked=commit)
        try:
            while not self._stop.is_set():
                records = consumer.fetch(POLL_SECONDS)
                for record in records:
                    self._finish(record, handler(record), producer)
                    consumer.mark_delivered(record)
                if not records or time.monotonic() - committed >= COMMIT_SECONDS:
                    commit()
        except Abandoned:
            log.info("a record that waited for its retry is left to other workers")
        except BaseException:
            failed = True
            raise
        commit()

    def _exactly_once(self, consumer: Consumer, producer: Producer, handler: RecordHandler) -> None:
        consumer.subscribe(self._spec.topic, on_assigned=self._log_assigned)

        def handle(record: Record) -> None:
            self._finish(record, handler(record), producer)

        def stop() -> bool:
            self._report(self._done, self._dead)
            return self._stop.is_set()

        # A batch that is abandoned is aborted as a whole, and read again by another worker.
        with contextlib.suppress(Abandoned):
            exactly_once(consumer, producer, handle, stop=stop)

    def _log_assigned(self, partitions: list[PartitionId]) -> None:
        log.info("reads %s", ", ".join(f"{topic}/{number}" for topic, number in partitions))

    def _finish(self, record: Record, outcome: Outcome, producer: Producer) -> None:
        """Write the output of a record."""
        spec = self._spec
        if outcome.reason:
            headers = dead_letter_headers(
                outcome.reason,
                record.topic,
                position=(record.partition, record.offset),
                key=record.key,
                timestamp=record.timestamp,
                original=record.headers,
            )
            key = f"{record.topic}/{record.partition}/{record.offset}"
            producer.send(spec.dead_letters, record.value, key=key, headers=headers)
            self._dead += 1
        for out in outcome.outs:
            topic = out.topic or spec.to
            if not topic:
                if not self._warned_of_no_topic:
                    log.warning("the function returns values, and there is no --to TOPIC to write them to")
                    self._warned_of_no_topic = True
                continue
            value = out.value.encode() if isinstance(out.value, str) else out.value
            producer.send(topic, value, key=out.key, headers=out.headers)
        self._done += 1


def one_line(error: DistributaryError) -> str:
    """An error in one line."""
    return f"{error.message} ({error.hint})" if error.hint else error.message
