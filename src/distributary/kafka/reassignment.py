"""Moving replicas between brokers: plan, start, list and cancel it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from distributary.errors import UsageError
from distributary.kafka import broker_request, librdkafka
from distributary.kafka.admin import Cluster
from distributary.kafka.wire_protocol import Reader, Writer

ALTER, LIST, VERSION = 45, 46, 0
TOOL = "kafka-reassign-partitions.sh"

Assignments = Mapping[str, Mapping[int, Sequence[int] | None]]
"""The replicas that each partition of each topic should have; None cancels a move."""


class ActiveMove(NamedTuple):
    """A partition whose replicas are being moved."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


def alter(cluster: Cluster, assignments: Assignments) -> None:
    """Start moves, which continue by themselves. Raises the error of a partition that is refused."""

    def number(writer: Writer, one: int) -> None:
        writer.number("i", one)

    def partition(writer: Writer, one: tuple[int, Sequence[int] | None]) -> None:
        writer.number("i", one[0]).each(one[1], number).end()

    def topic(writer: Writer, one: tuple[str, Mapping[int, Sequence[int] | None]]) -> None:
        writer.text(one[0]).each(one[1].items(), partition).end()

    body = Writer().number("i", int(librdkafka.REQUEST_LIMIT * 1000)).each(assignments.items(), topic).end()
    reader = broker_request.call(
        cluster, api=ALTER, version=VERSION, body=body.written(), what="the reassignment", tool=TOOL
    )
    reader.number("i")
    broker_request.check(reader.whole("h"), reader.text(), "the reassignment", cluster)
    for name, results in reader.each(_results):
        for partition_number, code, message in results:
            what = f"topic {name}, partition {partition_number}"
            broker_request.check(code, message, what, cluster)


def active_moves(cluster: Cluster) -> list[ActiveMove]:
    """All moves that are under way."""
    body = (
        Writer().number("i", int(librdkafka.REQUEST_LIMIT * 1000)).each(None, lambda writer, one: None).end()
    )
    reader = broker_request.call(
        cluster, api=LIST, version=VERSION, body=body.written(), what="the reassignments", tool=TOOL
    )
    reader.number("i")
    broker_request.check(reader.whole("h"), reader.text(), "the reassignments", cluster)
    found = []
    for name, rows in reader.each(_moves):
        found += [ActiveMove(name, *row) for row in rows]
    return sorted(found)


def _results(reader: Reader) -> tuple[str, list[tuple[int, int, str | None]]]:
    def one(reader: Reader) -> tuple[int, int, str | None]:
        found = reader.whole("i"), reader.whole("h"), reader.text()
        reader.end()
        return found

    name, rows = reader.text() or "", reader.each(one)
    reader.end()
    return name, rows


def _moves(reader: Reader) -> tuple[str, list[tuple[int, list[int], list[int], list[int]]]]:
    def numbers(reader: Reader) -> list[int]:
        return reader.each(lambda one: one.whole("i"))

    def one(reader: Reader) -> tuple[int, list[int], list[int], list[int]]:
        found = reader.whole("i"), numbers(reader), numbers(reader), numbers(reader)
        reader.end()
        return found

    name, rows = reader.text() or "", reader.each(one)
    reader.end()
    return name, rows


# --- which brokers should have which replicas. Pure -----------------------------------------------------


Layout = Mapping[int, Sequence[int]]
"""The replicas of each partition of a topic; the first is the preferred leader."""


def spread(now: Layout, brokers: Sequence[int], replication: int) -> dict[int, list[int]]:
    """Distribute partitions over brokers evenly, with as few moved replicas as possible.

    No broker gets more than its share, rounded up, and no partition two replicas on one broker. Leaders are
    distributed in the same way. Raises UsageError if there are fewer brokers than replicas.
    """
    targets = list(dict.fromkeys(brokers))
    if not 1 <= replication <= len(targets):
        raise UsageError(f"{replication} replicas need as many brokers, and {len(targets)} are named")
    share = -(-len(now) * replication // len(targets))
    counts: Counter[int] = Counter({broker: 0 for broker in targets})
    layout: dict[int, list[int]] = {}
    for number in sorted(now):
        layout[number] = []
        for broker in now[number]:
            if broker in counts and counts[broker] < share and len(layout[number]) < replication:
                layout[number].append(broker)
                counts[broker] += 1
    for replicas in layout.values():
        while len(replicas) < replication:
            broker = min((one for one in targets if one not in replicas), key=lambda one: counts[one])
            replicas.append(broker)
            counts[broker] += 1
    _balance(layout, counts, share, now)
    return _order_leaders(layout, now)


def _balance(layout: dict[int, list[int]], counts: Counter[int], share: int, now: Layout) -> None:
    """Move replicas off brokers that have more than their share; first those that move anyway.

    There is always one to move: the fullest broker has a partition that the emptiest does not have.
    """
    while counts[full := max(counts, key=lambda one: counts[one])] > share:
        empty = min(counts, key=lambda one: counts[one])
        movable = (number for number, all in layout.items() if full in all and empty not in all)
        replicas = layout[min(movable, key=lambda number: full in now[number])]
        replicas[replicas.index(full)] = empty
        counts[full] -= 1
        counts[empty] += 1


def _order_leaders(layout: dict[int, list[int]], now: Layout) -> dict[int, list[int]]:
    """Put the broker first that leads the fewest partitions; among equals the current leader."""
    leads: Counter[int] = Counter()
    found = {}
    for number, replicas in layout.items():
        leader = min(replicas, key=lambda one: (leads[one], one not in now[number][:1]))
        leads[leader] += 1
        found[number] = [leader, *(one for one in replicas if one != leader)]
    return found
