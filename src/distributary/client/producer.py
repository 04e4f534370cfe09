"""The producer: from one JSON configuration, synchronous unless it says otherwise."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType

from distributary.client.configuration import Source
from distributary.client.connect import SLICE
from distributary.client.delivery import Done, Outlet
from distributary.client.record import Headers, Sent, outgoing_record
from distributary.client.topic_rules import router_of
from distributary.client.transaction import Transaction, begin, prepare
from distributary.errors import ConfigError, DistributaryError, KafkaClientError, KafkaUnavailable
from distributary.kafka.outgoing_record import OutgoingRecord

log = logging.getLogger(__name__)


class Producer:
    """Writes records to Kafka. Use it with ``with``: leaving the block sends what is queued.

    ``source`` is JSON text, the path of a JSON file, or a dict. With ``producer.type`` *sync* (the default)
    `send` returns when the record is acknowledged and raises when it is not. With *async* it returns None
    as soon as the record is queued; an error that comes later is raised by the next call, and by `close`.
    Errors name the record. Threads may share a producer.
    """

    def __init__(self, source: Source) -> None:
        self._outlet = Outlet(source)
        self._router = router_of(self._outlet.config)
        self._async = self._outlet.config.ours.get("producer.type") == "async"
        self._failures: list[DistributaryError] = []
        self._transaction: Transaction | None = None
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
        """Write one record; return where it is, or None when it is only queued.

        Without a partition it goes by its key as the Java client's would (murmur2), without a key to any.
        A value of None is a tombstone. ``timestamp`` is in milliseconds since 1970, or a datetime. A record
        that its topic's schema refuses goes to the dead-letter topic: `Sent.reason` says why.
        """
        self._open()
        one = self._router.route(outgoing_record(topic, value, key, partition, headers, timestamp))
        self._raise_failures()
        if self._transaction is not None or self._async:
            self._put(one, self._noted if self._transaction is None else self._transaction.noted)
            self._outlet.serve(0)
            return None
        result: list[Sent | DistributaryError] = []
        self._put(one, result.append)
        while not result:
            self._outlet.serve(SLICE, f"writing {one}")
        if isinstance(result[0], DistributaryError):
            raise result[0]
        return result[0]

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
        """As `send`, with a text that is written as UTF-8."""
        value = text.encode()
        return self.send(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp)

    sendString = send_string

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every queued record is acknowledged; raise if one was not, or not in time (seconds)."""
        self._open()
        self._drain(timeout)
        self._raise_failures()

    def prepare(self) -> None:
        """End what is still open of this ``transactional.id``, of this producer or of an earlier one.

        From here on it counts or it does not. A transaction does this by itself before it begins.
        """
        self._transactional()
        prepare(self._outlet)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Write all records of a ``with`` block or none of them; needs ``transactional.id``.

        In the block `send` queues. The records count when the block is left; an exception gives them up.
        Raises `TransactionFailed` when Kafka gave the transaction up: nothing of it counts, try it again.
        After any other error of the commit it is not known whether it counts: see `prepare`.
        """
        self._transactional()
        self._raise_failures()
        with begin(self._outlet) as transaction:
            self._transaction = transaction
            try:
                yield transaction
            finally:
                self._transaction = None

    def close(self, timeout: float | None = None) -> None:
        """Send what is queued and end; raise if a record was not acknowledged. Again: nothing."""
        if self._closed:
            return
        self._closed = True
        self._drain(timeout)
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
        except DistributaryError as other:  # the first error is the one to tell
            log.error("%s", other)

    def _open(self) -> None:
        if self._closed:
            raise KafkaClientError("the producer is closed", hint="Make another one")

    def _transactional(self) -> None:
        self._open()
        if "transactional.id" not in self._outlet.config.librdkafka:
            raise ConfigError(
                f"{self._outlet.config.place}: Properties.transactional.id: missing; transactions need it",
                hint="Give each producer one of its own, the same after a restart",
            )
        if self._transaction is not None:
            raise KafkaClientError("a transaction is under way already", hint="Leave its block first")

    def _put(self, one: OutgoingRecord, done: Done) -> None:
        if not self._outlet.knows(one.topic):
            self._outlet.look_up(one)
        deadline = time.monotonic() + self._outlet.max_block
        while not self._outlet.queue(one, done):
            if time.monotonic() > deadline:
                raise KafkaUnavailable(
                    f"writing {one} failed: there was no room for it within {self._outlet.max_block:g} s",
                    hint="Check that Kafka answers, or raise buffer.memory or max.block.ms",
                )
            self._outlet.serve(SLICE)

    def _noted(self, result: Sent | DistributaryError) -> None:
        if isinstance(result, DistributaryError):
            log.error("%s", result)
            self._failures.append(result)

    def _drain(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while left := len(self._outlet.handle):
            self._outlet.flush(SLICE)
            if deadline is not None and time.monotonic() > deadline:
                raise KafkaUnavailable(
                    f"{left} records are not acknowledged by Kafka {self._outlet.config.servers} "
                    f"after {timeout:g} s",
                    hint="Check that it runs; they may still arrive",
                )

    def _raise_failures(self) -> None:
        failures, self._failures = self._failures, []
        if failures:
            first = failures[0]
            if len(failures) > 1:
                first.message += f" (and {len(failures) - 1} more records failed)"
            raise first
