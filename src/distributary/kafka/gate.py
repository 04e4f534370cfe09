"""On the way in: what does not fit its topic's schema is a dead letter, and routes choose another topic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from distributary.config import Config
from distributary.config.problem import Problems
from distributary.kafka.draft import Draft
from distributary.kafka.letters import letter_headers
from distributary.kafka.schema import (
    FRAME,
    Reader,
    Unfit,
    any_value,
    avro_reader,
    json_reader,
    read_definition,
)
from distributary.model.filter import Row, Test, compiled, normal, parse


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

        A tombstone has nothing to check, and goes where it was sent.
        """
        rules = self._rules.get(one.topic)
        if rules is None or one.value is None:
            return one
        try:
            fields = rules.reader(one.value)
            if rules.routes:
                key = None if one.key is None else one.key.decode(errors="replace")
                row = Row(fields, int(time.time() * 1000), key)
                target = next((topic for test, topic in rules.routes if test(row)), one.topic)
                if target != one.topic:
                    # The partitions of one topic mean nothing in another.
                    one = one._replace(topic=target, partition=-1)
                    rules = self._rules.get(target, rules._replace(reader=any_value))
                    rules.reader(one.value or b"")
        except Unfit as unfit:
            return _letter(one, str(unfit), rules.dead_letters)
        return one


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
    return compiled(normal(parse(text)))


def _reader(path: Path, skip: int) -> Reader:
    definition = read_definition(path)
    return (avro_reader if path.suffix == ".avsc" else json_reader)(definition, skip)


def _letter(one: Draft, reason: str, target: str) -> Draft:
    headers = letter_headers(
        reason, one.topic, key=one.key, timestamp=one.timestamp or None, original=one.headers
    )
    return one._replace(topic=target, partition=-1, headers=tuple(headers), reason=reason)
