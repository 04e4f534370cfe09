"""Moving replicas between brokers: start, see how it goes, call it off."""

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

Wanted = Mapping[str, Mapping[int, Sequence[int] | None]]
"""By topic and partition the replicas that it should have; None calls a move off."""


class Moving(NamedTuple):
    """A partition under way."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


def alter(cluster: Cluster, wanted: Wanted) -> None:
    """Ask for moves; they go on by themselves. Raises what a partition is refused for."""

    def number(writer: Writer, one: int) -> None:
        writer.number("i", one)

    def partition(writer: Writer, one: tuple[int, Sequence[int] | None]) -> None:
        writer.number("i", one[0]).each(one[1], number).end()

    def topic(writer: Writer, one: tuple[str, Mapping[int, Sequence[int] | None]]) -> None:
        writer.text(one[0]).each(one[1].items(), partition).end()

    body = Writer().number("i", int(librdkafka.REQUEST_LIMIT * 1000)).each(wanted.items(), topic).end()
    reader = broker_request.call(cluster, ALTER, VERSION, body.written(), "the reassignment", TOOL)
    reader.number("i")
    broker_request.check(reader.whole("h"), reader.text(), "the reassignment", cluster)
    for name, answers in reader.each(_answers):
        for place, code, message in answers:
            broker_request.check(code, message, f"topic {name}, partition {place}", cluster)


def moving(cluster: Cluster) -> list[Moving]:
    """All that is under way."""
    body = (
        Writer().number("i", int(librdkafka.REQUEST_LIMIT * 1000)).each(None, lambda writer, one: None).end()
    )
    reader = broker_request.call(cluster, LIST, VERSION, body.written(), "the reassignments", TOOL)
    reader.number("i")
    broker_request.check(reader.whole("h"), reader.text(), "the reassignments", cluster)
    found = []
    for name, rows in reader.each(_moves):
        found += [Moving(name, *row) for row in rows]
    return sorted(found)


def _answers(reader: Reader) -> tuple[str, list[tuple[int, int, str | None]]]:
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


# --- which brokers should hold which replicas. Pure -----------------------------------------------------


Layout = Mapping[int, Sequence[int]]
"""The replicas of each partition of a topic; the first is the one that should lead."""


def spread(now: Layout, brokers: Sequence[int], replication: int) -> dict[int, list[int]]:
    """Lay partitions out over brokers: evenly, with as few replicas moved as that takes.

    No broker gets more than its share, rounded up, and no partition two replicas on one broker. Leaders are
    spread likewise. Raises UsageError when there are fewer brokers than replicas.
    """
    wanted = list(dict.fromkeys(brokers))
    if not 1 <= replication <= len(wanted):
        raise UsageError(f"{replication} replicas need as many brokers, and {len(wanted)} are named")
    share = -(-len(now) * replication // len(wanted))
    held: Counter[int] = Counter({broker: 0 for broker in wanted})
    kept: dict[int, list[int]] = {}
    for number in sorted(now):
        kept[number] = []
        for broker in now[number]:
            if broker in held and held[broker] < share and len(kept[number]) < replication:
                kept[number].append(broker)
                held[broker] += 1
    for replicas in kept.values():
        while len(replicas) < replication:
            broker = min((one for one in wanted if one not in replicas), key=lambda one: held[one])
            replicas.append(broker)
            held[broker] += 1
    _level(kept, held, share, now)
    return _led(kept, now)


def _level(layout: dict[int, list[int]], held: Counter[int], share: int, now: Layout) -> None:
    """Move replicas off brokers that have more than their share; those that are to move anyway first.

    There is always one to move: the fullest broker has a partition that the emptiest has not.
    """
    while held[full := max(held, key=lambda one: held[one])] > share:
        empty = min(held, key=lambda one: held[one])
        movable = (number for number, all in layout.items() if full in all and empty not in all)
        replicas = layout[min(movable, key=lambda number: full in now[number])]
        replicas[replicas.index(full)] = empty
        held[full] -= 1
        held[empty] += 1


def _led(layout: dict[int, list[int]], now: Layout) -> dict[int, list[int]]:
    """Put the broker first that leads the fewest; among equals the one that leads now."""
    leads: Counter[int] = Counter()
    found = {}
    for number, replicas in layout.items():
        leader = min(replicas, key=lambda one: (leads[one], one not in now[number][:1]))
        leads[leader] += 1
        found[number] = [leader, *(one for one in replicas if one != leader)]
    return found
