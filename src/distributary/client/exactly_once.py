"""Consume, transform, produce: each input record takes effect exactly once in the output."""

from __future__ import annotations

import logging
from collections.abc import Callable

from distributary.client.consumer import Consumer
from distributary.client.producer import Producer
from distributary.client.record import Record
from distributary.client.transaction import Transaction
from distributary.errors import ConfigError, TransactionFailed

log = logging.getLogger(__name__)

STOP_INTERVAL = 0.2
"""How often ``stop`` is called while there are no records, in seconds."""


def exactly_once(
    consumer: Consumer,
    producer: Producer,
    handle: Callable[[Record], object],
    *,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Call ``handle`` with each record until ``stop`` is true; what it sends with ``producer`` counts once.

    Records come in batches. What was sent for a batch and the batch's offsets are one transaction, so after
    a crash, a rebalance or a failed transaction the batch is delivered again and nothing of the first try is
    visible (to readers of committed records; other effects of ``handle`` may happen twice). An exception of
    ``handle`` aborts the transaction, moves the consumer back before the batch, and is raised here.

    A commit that is not confirmed is raised, too: the outcome of its batch is unknown. Call this again, with
    the same consumer or another, and the same producer or another one with its ``transactional.id``: first
    that transaction is completed, then reading continues at the group's offsets.

    The consumer needs ``enable.auto.commit`` false and a subscription, the producer a ``transactional.id``.
    """
    for name, required in (("enable.auto.commit", "false"), ("isolation.level", "read_committed")):
        if consumer.config.librdkafka.get(name) != required:
            raise ConfigError(
                f"{consumer.config.origin}: Properties.{name}: exactly_once requires {required}",
                hint=f'Write "{name}": "{required}"',
            )
    try:
        producer.prepare()
    except TransactionFailed as error:
        log.warning("the last records are read again: %s", error)
    consumer.resolve_unknown()
    while not stop():
        records = consumer.receive(STOP_INTERVAL)
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
                consumer.mark_unknown(records)
            else:
                consumer.rewind(records)
            raise
        else:
            consumer.mark_committed()
