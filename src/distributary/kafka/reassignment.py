"""Moving replicas between brokers: start, see how it goes, call it off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from distributary.kafka import broker_request, errors
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

    body = Writer().number("i", int(errors.LIMIT * 1000)).each(wanted.items(), topic).end()
    reader = broker_request.call(cluster, ALTER, VERSION, body.written(), "the reassignment", TOOL)
    reader.number("i")
    broker_request.check(reader.whole("h"), reader.text(), "the reassignment", cluster)
    for name, answers in reader.each(_answers):
        for place, code, message in answers:
            broker_request.check(code, message, f"topic {name}, partition {place}", cluster)


def moving(cluster: Cluster) -> list[Moving]:
    """All that is under way."""
    body = Writer().number("i", int(errors.LIMIT * 1000)).each(None, lambda writer, one: None).end()
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
