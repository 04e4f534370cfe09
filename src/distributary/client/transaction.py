"""Transactions: records and the offsets of their input are committed together or not at all."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

from distributary.client.connect import ConfiguredProducer, Unconfirmed
from distributary.errors import DistributaryError, TransactionFailed
from distributary.kafka.kafka_errors import client_error
from distributary.kafka.record_producer import SLICE, Delivered

if TYPE_CHECKING:
    from distributary.client.consumer import Consumer

log = logging.getLogger(__name__)

Call = Callable[[float], None]

_OUTCOME_UNKNOWN = (
    "Its outcome is unknown. The next transaction of this producer, or of another one with the same "
    "transactional.id, resolves it; then read on from what the group has committed, as exactly_once does"
)


class Transaction:
    """A transaction between the begin and the end of a ``with`` block."""

    def __init__(self, producer: ConfiguredProducer) -> None:
        self._producer = producer
        self.unknown = False
        """Whether its commit was begun and neither confirmed nor refused: its outcome is unknown."""
        self.failures: list[DistributaryError] = []
        """The records that were not acknowledged: each makes the commit fail."""

    def on_delivery(self, report: Delivered | Exception) -> None:
        """Receive a record's delivery report."""
        if isinstance(report, DistributaryError):
            self.failures.append(report)

    def add_offsets(self, consumer: Consumer) -> None:
        """Commit all that this consumer has delivered, together with the records.

        The group's metadata go along, so a consumer that was removed from its group cannot commit.
        """
        offsets = consumer.delivered_offsets()
        if offsets:
            handle, member = self._producer.handle, consumer.group_metadata()
            _retry(
                self._producer,
                "adding offsets to a transaction",
                lambda limit: handle.send_offsets_to_transaction(offsets, member, limit),
            )


def prepare(producer: ConfiguredProducer) -> None:
    """Complete an open transaction of this transactional.id, so that its outcome is known.

    It was left by an earlier producer, or its end was not confirmed to this one.
    """
    if not producer.initialised:
        _retry(producer, "beginning the first transaction", producer.handle.init_transactions)
        producer.initialised = True
    elif producer.unconfirmed is Unconfirmed.COMMIT:
        _commit(producer)
    elif producer.unconfirmed is Unconfirmed.ABORT:
        _abort(producer)


@contextmanager
def begin(producer: ConfiguredProducer) -> Iterator[Transaction]:
    """Begin a transaction; commit it when the block is left, abort it when an exception leaves it."""
    handle = producer.handle
    prepare(producer)
    try:
        handle.begin_transaction()
    except KafkaException as error:
        raise _error(producer, error.args[0], "beginning a transaction") from None
    transaction = Transaction(producer)
    try:
        yield transaction
    except BaseException:
        _try_abort(producer)
        raise
    transaction.unknown = True
    try:
        _commit(producer)
    except TransactionFailed as error:
        transaction.unknown = False
        if transaction.failures:
            error.message += f": {transaction.failures[0].message}"
        raise
    transaction.unknown = False


def _commit(producer: ConfiguredProducer) -> None:
    """Commit, or go on with a commit. Raises TransactionFailed if it was aborted; else it is unknown."""
    producer.unconfirmed = Unconfirmed.COMMIT
    try:
        _retry(producer, "committing a transaction", producer.handle.commit_transaction)
    except TransactionFailed:
        _try_abort(producer)
        raise
    except DistributaryError as error:
        error.hint = f"{_OUTCOME_UNKNOWN}. {error.hint}"
        raise
    producer.unconfirmed = Unconfirmed.NONE


def _abort(producer: ConfiguredProducer) -> None:
    producer.unconfirmed = Unconfirmed.ABORT
    _retry(producer, "aborting a transaction", producer.handle.abort_transaction)
    producer.unconfirmed = Unconfirmed.NONE


def _try_abort(producer: ConfiguredProducer) -> None:
    if producer.dead:  # it can do nothing any more, and the producer that took over has ended the transaction
        return
    try:
        _abort(producer)
    except DistributaryError as error:  # the error that led here is the one to raise
        log.warning("%s", error)


def _retry(producer: ConfiguredProducer, what: str, call: Call) -> None:
    """Call in slices, so that Ctrl-C works, until it succeeds or ``max.block.ms`` are over."""
    deadline = time.monotonic() + producer.max_block
    while True:
        try:
            call(SLICE * 5)
            return
        except KafkaException as found:
            error: KafkaError = found.args[0]
            if refusal := producer.background.refusal(what, producer.config.servers):
                raise refusal from None
            if not error.retriable() or time.monotonic() > deadline:
                raise _error(producer, error, what) from None


def _error(producer: ConfiguredProducer, error: KafkaError, what: str) -> DistributaryError:
    found = client_error(error, what, producer.config.servers)
    producer.dead = producer.dead or error.fatal()
    if error.txn_requires_abort() and not error.fatal():
        return TransactionFailed(found.message, hint="Nothing of it is visible. Do it again")
    return found
