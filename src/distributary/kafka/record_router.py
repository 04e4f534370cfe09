"""Where a record goes: a dead-letter topic if its topic's schema refuses it, else where a route sends it."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from distributary.config import Config
from distributary.config.problems import Problems
from distributary.deadline import DeadlinePool
from distributary.errors import CheckFailed
from distributary.kafka.outgoing_record import OutgoingRecord, dead_letter_headers
from distributary.kafka.value_schema import (
    FRAME,
    Fields,
    Reader,
    SchemaMismatch,
    SchemaReader,
    any_value,
    avro_reader,
    json_reader,
    read_definition,
    read_value,
)
from distributary.model.filter import RowView, Test, compiled, normalize, parse

_MOST_WAITING = 10_000
"""Records of one sender that may wait for their check; what accepts them has limits of its own."""


class TopicRules(NamedTuple):
    """What applies to the records of one topic: a schema, routes in order, where dead letters go."""

    reader: Reader
    routes: tuple[tuple[Test, str], ...]
    dead_letters: str


class RecordRouter:
    """Decides where a record goes, by the rules of each topic.

    The record is checked by the schema of the topic that it was sent to. The first route whose filter matches
    sends it to another topic; that topic's schema applies too, but not its routes.
    """

    def __init__(self, rules: Mapping[str, TopicRules]) -> None:
        self._rules = rules

    def route(self, record: OutgoingRecord) -> OutgoingRecord:
        """The record to write: as it is, for another topic, or as a dead letter.

        A tombstone has nothing to check and goes where it was sent. A schema's pattern may take any time to
        match: for untrusted records use `route_in_time`.
        """
        steps = self._steps(record)
        try:
            reader, value = next(steps)
            while True:
                try:
                    fields = reader(value)
                except SchemaMismatch as mismatch:
                    reader, value = steps.throw(mismatch)
                else:
                    reader, value = steps.send(fields)
        except StopIteration as end:
            return cast(OutgoingRecord, end.value)

    def is_cheap(self, record: OutgoingRecord) -> bool:
        """Whether `route` is quick for this record, whatever its value is."""
        rules = self._rules.get(record.topic)
        if rules is None or record.value is None:
            return True
        targets = [self._rules[topic].reader for _, topic in rules.routes if topic in self._rules]
        return all(_is_cheap(reader, record.value) for reader in (rules.reader, *targets))

    async def route_in_time(self, record: OutgoingRecord, deadline: DeadlinePool) -> OutgoingRecord:
        """As `route`; a value that is not cheap to check has a deadline and becomes a dead letter after it.

        Records of one sender for one topic keep their order. Raises ChecksBusy.
        """
        steps = self._steps(record)
        try:
            reader, value = next(steps)
            while True:
                try:
                    fields = await _read_in_time(reader, value, deadline, record.sender)
                except SchemaMismatch as mismatch:
                    reader, value = steps.throw(mismatch)
                else:
                    reader, value = steps.send(fields)
        except StopIteration as end:
            return cast(OutgoingRecord, end.value)

    def _steps(self, record: OutgoingRecord) -> Generator[tuple[Reader, bytes], Fields, OutgoingRecord]:
        """The decision: yields values to read, and is sent their fields or thrown `SchemaMismatch`."""
        rules = self._rules.get(record.topic)
        if rules is None or record.value is None:
            return record
        try:
            fields = yield rules.reader, record.value
            if rules.routes:
                key = None if record.key is None else record.key.decode(errors="replace")
                row = RowView(fields, int(time.time() * 1000), key)
                target = next((topic for test, topic in rules.routes if test(row)), record.topic)
                if target != record.topic:
                    # A partition of one topic means nothing in another.
                    record = record._replace(topic=target, partition=-1)
                    rules = self._rules.get(target, rules._replace(reader=any_value))
                    yield rules.reader, record.value or b""
        except SchemaMismatch as mismatch:
            return _dead_letter(record, str(mismatch), rules.dead_letters)
        return record


def _is_cheap(reader: Reader, value: bytes) -> bool:
    return not isinstance(reader, SchemaReader) or reader.is_cheap(value)


async def _read_in_time(reader: Reader, value: bytes, deadline: DeadlinePool, owner: str) -> Fields:
    if _is_cheap(reader, value) or not isinstance(reader, SchemaReader):
        return reader(value)
    try:
        found = await deadline.run(
            read_value,
            *(reader.kind, reader.text, reader.skip, value),
            what="the value",
            owner=owner,
            max_calls=_MOST_WAITING,
        )
    except CheckFailed as error:
        raise SchemaMismatch(error.message) from None
    except ValueError as error:
        raise SchemaMismatch(str(error)) from None
    return {name: msgspec.Raw(value) for name, value in found.items()}


def create_router(config: Config) -> RecordRouter:
    """The router of a configuration's ``[[topics]]``. Raises ConfigError for invalid schemas."""
    problems = Problems(str(config.path or ""))
    rules = {}
    for topic in config.topics:
        reader: Reader = any_value
        try:
            if topic.schema:
                reader = _reader(config.folder / topic.schema, FRAME if topic.framed else 0)
        except ValueError as error:
            problems.add(str(error), key=f"topics.{topic.name}.schema")
        routes = tuple((compile_route(text), target) for target, text in topic.routes.items())
        rules[topic.name] = TopicRules(reader, routes, topic.dead_letter_topic)
    problems.finish()
    return RecordRouter(rules)


def compile_route(text: str) -> Test:
    """Compile a route's filter. Raises BadQuery."""
    return compiled(normalize(parse(text)))


def _reader(path: Path, skip: int) -> Reader:
    definition = read_definition(path)
    return (avro_reader if path.suffix == ".avsc" else json_reader)(definition, skip)


def _dead_letter(record: OutgoingRecord, reason: str, target: str) -> OutgoingRecord:
    headers = dead_letter_headers(
        reason, record.topic, key=record.key, timestamp=record.timestamp or None, original=record.headers
    )
    return record._replace(topic=target, partition=-1, headers=tuple(headers), reason=reason)
