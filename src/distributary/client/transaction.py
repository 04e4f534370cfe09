"""Transactions: records, and the offsets of what they were made from, count together or not at all."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

from distributary.client.connect import SLICE
from distributary.client.delivery import Outlet
from distributary.client.record import Sent
from distributary.errors import DistributaryError, TransactionFailed
from distributary.kafka.kafka_errors import client_error

if TYPE_CHECKING:
    from distributary.client.consumer import Consumer

log = logging.getLogger(__name__)

Call = Callable[[float], None]

_UNKNOWN = (
    "Whether it counts is not known. The next transaction finds out, of this producer or of another one with "
    "the same transactional.id; then read on from what the group has committed, as exactly_once does"
)


class Transaction:
    """What is under way between the begin and the end of a ``with`` block."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self.unknown = False
        """Whether its commit was begun and neither done nor refused: it may count or not."""
        self.failures: list[DistributaryError] = []
        """The records that were not acknowledged: each makes the commit fail."""

    def noted(self, result: Sent | DistributaryError) -> None:
        """Hear what became of a record."""
        if isinstance(result, DistributaryError):
            self.failures.append(result)

    def add_offsets(self, consumer: Consumer) -> None:
        """Commit all that this consumer has given out, together with the records.

        The group's own state goes along, so a consumer that was put out of its group cannot commit.
        """
        places = consumer.given_out()
        if places:
            handle, member = self._outlet.handle, consumer.group_metadata()
            _patiently(
                self._outlet,
                "adding offsets to a transaction",
                lambda limit: handle.send_offsets_to_transaction(places, member, limit),
            )


def prepare(outlet: Outlet) -> None:
    """End what is still open of this transactional.id, so that it counts or does not from here on.

    That is what an earlier producer has left, or an end of this one's that stayed without an answer.
    """
    if not outlet.initialised:
        _patiently(outlet, "beginning the first transaction", outlet.handle.init_transactions)
        outlet.initialised = True
    elif outlet.unfinished == "commit":
        _commit(outlet)
    elif outlet.unfinished == "abort":
        _abort(outlet)


@contextmanager
def begin(outlet: Outlet) -> Iterator[Transaction]:
    """Begin a transaction; commit it when the block is left, give it up when an exception leaves it."""
    handle = outlet.handle
    prepare(outlet)
    try:
        handle.begin_transaction()
    except KafkaException as error:
        raise _told(outlet, error.args[0], "beginning a transaction") from None
    transaction = Transaction(outlet)
    try:
        yield transaction
    except BaseException:
        _give_up(outlet)
        raise
    transaction.unknown = True
    try:
        _commit(outlet)
    except TransactionFailed as error:
        transaction.unknown = False
        if transaction.failures:
            error.message += f": {transaction.failures[0].message}"
        raise
    transaction.unknown = False


def _commit(outlet: Outlet) -> None:
    """Commit, or go on with a commit. Raises TransactionFailed when nothing counts; else it is not known."""
    outlet.unfinished = "commit"
    try:
        _patiently(outlet, "committing a transaction", outlet.handle.commit_transaction)
    except TransactionFailed:
        _give_up(outlet)
        raise
    except DistributaryError as error:
        error.hint = f"{_UNKNOWN}. {error.hint}"
        raise
    outlet.unfinished = ""


def _abort(outlet: Outlet) -> None:
    outlet.unfinished = "abort"
    _patiently(outlet, "giving a transaction up", outlet.handle.abort_transaction)
    outlet.unfinished = ""


def _give_up(outlet: Outlet) -> None:
    if outlet.dead:  # it can do nothing any more, and whoever took over has ended the transaction
        return
    try:
        _abort(outlet)
    except DistributaryError as error:  # whatever made us give up is what the caller must hear
        log.warning("%s", error)


def _patiently(outlet: Outlet, what: str, call: Call) -> None:
    """Call in slices, so that Ctrl-C is heard, until it is done or ``max.block.ms`` is over."""
    deadline = time.monotonic() + outlet.max_block
    while True:
        try:
            call(SLICE * 5)
            return
        except KafkaException as found:
            error: KafkaError = found.args[0]
            if refused := outlet.background.refusal(what, outlet.config.servers):
                raise refused from None
            if not error.retriable() or time.monotonic() > deadline:
                raise _told(outlet, error, what) from None


def _told(outlet: Outlet, error: KafkaError, what: str) -> DistributaryError:
    told = client_error(error, what, outlet.config.servers)
    outlet.dead = outlet.dead or error.fatal()
    if error.txn_requires_abort() and not error.fatal():
        return TransactionFailed(told.message, hint="Nothing of it counts. Do it again")
    return told
