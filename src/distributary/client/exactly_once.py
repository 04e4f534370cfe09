"""Consume, transform, produce: each record of the input counts exactly once in the output."""

from __future__ import annotations

import logging
from collections.abc import Callable

from distributary.client.consumer import Consumer
from distributary.client.producer import Producer
from distributary.client.record import Record
from distributary.client.transaction import Transaction
from distributary.errors import ConfigError, TransactionFailed

log = logging.getLogger(__name__)

PAUSE = 0.2
"""How often it is asked whether to stop while nothing comes, in seconds."""


def exactly_once(
    consumer: Consumer,
    producer: Producer,
    handle: Callable[[Record], object],
    *,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Give each record to ``handle`` until ``stop`` says so; what it sends with ``producer`` counts once.

    Records come in batches. What was sent for a batch and the batch's offsets are one transaction, so after
    a crash, a rebalance or a failed transaction the batch comes again and nothing of the first try counts
    (for readers of committed records; other effects of ``handle`` may come twice). What ``handle`` raises
    gives the transaction up, puts the consumer back before the batch, and is raised here.

    A commit that stays without an answer is raised, too: whether its batch counts is not known. Call this
    again, with the same consumer or another, and the same producer or another one with its
    ``transactional.id``: first that transaction is ended, then reading goes on where the group is.

    The consumer needs ``enable.auto.commit`` false and a subscription, the producer a ``transactional.id``.
    """
    for name, wanted in (("enable.auto.commit", "false"), ("isolation.level", "read_committed")):
        if consumer.config.librdkafka.get(name) != wanted:
            raise ConfigError(
                f"{consumer.config.place}: Properties.{name}: exactly once needs {wanted}",
                hint=f'Write "{name}": "{wanted}"',
            )
    try:
        producer.prepare()
    except TransactionFailed as error:
        log.warning("the last records are read again: %s", error)
    consumer.find_out()
    while not stop():
        records = consumer.receive(PAUSE)
        if not records:
            continue
        transaction: Transaction | None = None
        try:
            with producer.transaction() as transaction:
                for record in records:
                    handle(record)
                transaction.add_offsets(consumer)
        except TransactionFailed as error:
            log.warning("%d records are read again: %s", len(records), error)
            consumer.rewind(records)
        except BaseException:
            if transaction is not None and transaction.unknown:
                consumer.doubt(records)
            else:
                consumer.rewind(records)
            raise
        else:
            consumer.committed_elsewhere()
