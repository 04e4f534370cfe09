"""On the way in: what does not fit its topic's schema is a dead letter, and routes choose another topic."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from distributary.config import Config
from distributary.config.problems import Problems
from distributary.deadline import Deadline
from distributary.errors import CheckFailed
from distributary.kafka.dead_letters import letter_headers
from distributary.kafka.draft import Draft
from distributary.kafka.value_schema import (
    FRAME,
    Fields,
    Reader,
    SchemaReader,
    Unfit,
    any_value,
    avro_reader,
    json_reader,
    read_definition,
    read_value,
)
from distributary.model.filter import Row, Test, compiled, normalize, parse

_MOST_WAITING = 10_000
"""Records of one sender that may wait for their check: whoever sends them has bounds of its own."""


class Rules(NamedTuple):
    """What is asked of the records of one topic."""

    reader: Reader
    routes: tuple[tuple[Test, str], ...]
    dead_letters: str


class Gate:
    """Decides where a record goes, by the rules of each topic.

    It is checked by the schema of the topic it was sent to; the first route whose filter is true of it takes
    it to another topic, whose schema is asked too, but not its routes.
    """

    def __init__(self, rules: Mapping[str, Rules]) -> None:
        self._rules = rules

    def pass_on(self, one: Draft) -> Draft:
        """The record as it is to be written: as it came, for another topic, or as a dead letter.

        A tombstone has nothing to check, and goes where it was sent. It may take as long as a pattern of the
        schema pleases: for records of strangers there is `pass_on_in_time`.
        """
        steps = self._steps(one)
        try:
            reader, value = next(steps)
            while True:
                try:
                    fields = reader(value)
                except Unfit as unfit:
                    reader, value = steps.throw(unfit)
                else:
                    reader, value = steps.send(fields)
        except StopIteration as end:
            return cast(Draft, end.value)

    def is_cheap(self, one: Draft) -> bool:
        """Say whether `pass_on` takes no longer than it should, whatever the record is."""
        rules = self._rules.get(one.topic)
        if rules is None or one.value is None:
            return True
        targets = [self._rules[topic].reader for _, topic in rules.routes if topic in self._rules]
        return all(_is_cheap(reader, one.value) for reader in (rules.reader, *targets))

    async def pass_on_in_time(self, one: Draft, deadline: Deadline) -> Draft:
        """As `pass_on`; a value that is not cheap to check has a deadline, and else is a dead letter.

        Records of one sender for one topic come out in the order they went in. Raises ChecksBusy.
        """
        steps = self._steps(one)
        try:
            reader, value = next(steps)
            while True:
                try:
                    fields = await _read_in_time(reader, value, deadline, one.sender)
                except Unfit as unfit:
                    reader, value = steps.throw(unfit)
                else:
                    reader, value = steps.send(fields)
        except StopIteration as end:
            return cast(Draft, end.value)

    def _steps(self, one: Draft) -> Generator[tuple[Reader, bytes], Fields, Draft]:
        """Decide; asks for values to be read, and is given their fields or thrown `Unfit`."""
        rules = self._rules.get(one.topic)
        if rules is None or one.value is None:
            return one
        try:
            fields = yield rules.reader, one.value
            if rules.routes:
                key = None if one.key is None else one.key.decode(errors="replace")
                row = Row(fields, int(time.time() * 1000), key)
                target = next((topic for test, topic in rules.routes if test(row)), one.topic)
                if target != one.topic:
                    # The partitions of one topic mean nothing in another.
                    one = one._replace(topic=target, partition=-1)
                    rules = self._rules.get(target, rules._replace(reader=any_value))
                    yield rules.reader, one.value or b""
        except Unfit as unfit:
            return _letter(one, str(unfit), rules.dead_letters)
        return one


def _is_cheap(reader: Reader, value: bytes) -> bool:
    return not isinstance(reader, SchemaReader) or reader.is_cheap(value)


async def _read_in_time(reader: Reader, value: bytes, deadline: Deadline, owner: str) -> Fields:
    if _is_cheap(reader, value) or not isinstance(reader, SchemaReader):
        return reader(value)
    try:
        found = await deadline.run(
            read_value,
            *(reader.kind, reader.text, reader.skip, value),
            what="the value",
            owner=owner,
            most=_MOST_WAITING,
        )
    except CheckFailed as error:
        raise Unfit(error.message) from None
    except ValueError as error:
        raise Unfit(str(error)) from None
    return {name: msgspec.Raw(held) for name, held in found.items()}


def make_gate(config: Config) -> Gate:
    """The gate of a configuration's ``[[topics]]``. Raises ConfigError for schemas that cannot be used."""
    problems = Problems(str(config.path or ""))
    rules = {}
    for topic in config.topics:
        reader: Reader = any_value
        try:
            if topic.schema:
                reader = _reader(config.folder / topic.schema, FRAME if topic.framed else 0)
        except ValueError as error:
            problems.add(str(error), key=f"topics.{topic.name}.schema")
        routes = tuple((route(text), target) for target, text in topic.routes.items())
        rules[topic.name] = Rules(reader, routes, topic.dead_letter_topic)
    problems.finish()
    return Gate(rules)


def route(text: str) -> Test:
    """The test of a route's filter. Raises BadQuery."""
    return compiled(normalize(parse(text)))


def _reader(path: Path, skip: int) -> Reader:
    definition = read_definition(path)
    return (avro_reader if path.suffix == ".avsc" else json_reader)(definition, skip)


def _letter(one: Draft, reason: str, target: str) -> Draft:
    headers = letter_headers(
        reason, one.topic, key=one.key, timestamp=one.timestamp or None, original=one.headers
    )
    return one._replace(topic=target, partition=-1, headers=tuple(headers), reason=reason)
