"""The producer by one JSON configuration, synchronous by default."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType

from distributary.client.configuration import Source, router_of
from distributary.client.connect import ConfiguredProducer
from distributary.client.record import Headers, Sent, outgoing_record, sent
from distributary.client.transaction import Transaction, begin, prepare
from distributary.errors import ConfigError, DistributaryError, KafkaClientError, KafkaUnavailable
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_producer import SLICE, Delivered, OnDelivery

log = logging.getLogger(__name__)


class Producer:
    """Writes records to Kafka. Use it with ``with``: leaving the block sends what is queued.

    ``source`` is JSON text, the path of a JSON file, or a dict. With ``producer.type`` *sync* (the default)
    `send` returns when the record is acknowledged and raises if it is not. With *async* it returns None as
    soon as the record is queued; a later error is raised by the next call, and by `close`. Errors name the
    record. Threads may share a producer.
    """

    def __init__(self, source: Source) -> None:
        self._core = ConfiguredProducer(source)
        self._router = router_of(self._core.config)
        self._async = self._core.config.own.get("producer.type") == "async"
        self._failures: list[DistributaryError] = []
        """Errors of queued records that no call has raised yet."""
        self._transaction: Transaction | None = None
        """The transaction whose block is being run."""
        self._closed = False

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: int | datetime | None = None,
    ) -> Sent | None:
        """Write one record; return where it is, or None if it is only queued.

        Without a partition, its key chooses one as in the Java client (murmur2); without a key any is chosen.
        A value of None is a tombstone. ``timestamp`` is in milliseconds since 1970, or a datetime. A record
        that its topic's schema refuses goes to the dead-letter topic: `Sent.reason` says why.
        """
        self._check_open()
        record = self._router.route(
            outgoing_record(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp)
        )
        self._raise_failures()
        if self._transaction is not None or self._async:
            on_delivery = self._on_delivery if self._transaction is None else self._transaction.on_delivery
            self._queue(record, on_delivery)
            self._core.poll(0)
            return None
        reports: list[Delivered | Exception] = []
        self._queue(record, reports.append)
        while not reports:
            self._core.poll(SLICE, record)
        if isinstance(reports[0], Exception):
            raise reports[0]
        return sent(reports[0])

    def send_string(
        self,
        topic: str,
        text: str,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: int | datetime | None = None,
    ) -> Sent | None:
        """As `send`, with a string that is written as UTF-8."""
        value = text.encode()
        return self.send(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp)

    sendString = send_string

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every queued record is acknowledged; raises if one was not, or not in time (seconds)."""
        self._check_open()
        self._flush_all(timeout)
        self._raise_failures()

    def prepare(self) -> None:
        """Complete an open transaction of this ``transactional.id``, of this producer or of an earlier one.

        After that it is committed or aborted. A transaction does this by itself before it begins.
        """
        self._check_transactional()
        prepare(self._core)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Write all records of a ``with`` block or none of them; needs ``transactional.id``.

        In the block `send` only queues. Leaving the block commits the records; an exception aborts them.
        Raises `TransactionFailed` if Kafka aborted the transaction: nothing of it is visible, try it again.
        After any other error of the commit its outcome is unknown: see `prepare`.
        """
        self._check_transactional()
        self._raise_failures()
        with begin(self._core) as transaction:
            self._transaction = transaction
            try:
                yield transaction
            finally:
                self._transaction = None

    def close(self, timeout: float | None = None) -> None:
        """Send what is queued and end; raises if a record was not acknowledged. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._flush_all(timeout)
        self._raise_failures()

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except DistributaryError as other:  # the first error is the one to raise
            log.error("%s", other)

    def _check_open(self) -> None:
        if self._closed:
            raise KafkaClientError("the producer is closed", hint="Create a new one")

    def _check_transactional(self) -> None:
        self._check_open()
        config = self._core.config
        if "transactional.id" not in config.librdkafka:
            raise ConfigError(
                f"{config.origin}: Properties.transactional.id: missing; transactions need it",
                hint="Give each producer one of its own, the same after a restart",
            )
        if self._transaction is not None:
            raise KafkaClientError("a transaction is under way already", hint="Leave its block first")

    def _queue(self, record: OutgoingRecord, on_delivery: OnDelivery) -> None:
        if not self._core.knows(record.topic):
            self._core.look_up(record)
        if not self._core.queue_within(record, on_delivery, self._core.max_block):
            raise self._core.no_room(record)

    def _on_delivery(self, report: Delivered | Exception) -> None:
        if isinstance(report, DistributaryError):
            log.error("%s", report)
            self._failures.append(report)

    def _flush_all(self, timeout: float | None) -> None:
        if left := self._core.flush_all(timeout):
            raise KafkaUnavailable(
                f"{left} records are not acknowledged by Kafka {self._core.config.servers} "
                f"after {timeout or 0:g} s",
                hint="Check that it runs; they may still arrive",
            )

    def _raise_failures(self) -> None:
        failures, self._failures = self._failures, []
        if failures:
            first = failures[0]
            if len(failures) > 1:
                first.message += f" (and {len(failures) - 1} more records failed)"
            raise first
