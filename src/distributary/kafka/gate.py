"""On the way in: what does not fit its topic's schema is a dead letter, and routes choose another topic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from distributary.client.configuration import Configuration
from distributary.client.record import Draft
from distributary.client.schema import Reader, Unfit, any_value, make_reader
from distributary.config import checks
from distributary.config.problem import Problems, nearest
from distributary.errors import BadQuery
from distributary.kafka.letters import letter_headers
from distributary.model.filter import Row, Test, compiled, normal, parse

_PARTS = ("Schema", "Routes", "DeadLetters")


class Rules(NamedTuple):
    """What is asked of the records of one topic."""

    reader: Reader
    routes: tuple[tuple[Test, str], ...]
    dead_letters: str


class Gate:
    """Decides where a record goes.

    It is checked by the schema of the topic it was sent to; the first route whose filter is true of it takes
    it to another topic, whose schema is asked too, but not its routes.
    """

    def __init__(self, config: Configuration) -> None:
        problems = Problems(config.place)
        self._rules = {
            topic: _rules(topic, spec, config.folder, problems) for topic, spec in config.topics.items()
        }
        problems.finish()

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


def _letter(one: Draft, reason: str, target: str) -> Draft:
    headers = letter_headers(
        reason, one.topic, key=one.key, timestamp=one.timestamp or None, original=one.headers
    )
    return one._replace(topic=target, partition=-1, headers=tuple(headers), reason=reason)


def _rules(topic: str, spec: Any, folder: Path, problems: Problems) -> Rules:
    key = f"Topics.{topic}"
    if not isinstance(spec, Mapping):
        problems.add(f"expected an object with {', '.join(_PARTS)}", key=key)
        spec = {}
    for name in spec:
        if name not in _PARTS:
            problems.add(
                f"unknown part (there are {', '.join(_PARTS)})",
                key=f"{key}.{name}",
                nearest=nearest(name, _PARTS),
            )
    reader: Reader = any_value
    if "Schema" in spec:
        try:
            if not isinstance(spec["Schema"], Mapping):
                raise ValueError("expected an object with Type and Definition or File")
            reader = make_reader(spec["Schema"], folder)
        except ValueError as error:
            problems.add(str(error), key=f"{key}.Schema")
    letters = spec.get("DeadLetters", f"{topic}.dead-letters")
    _topic(letters, f"{key}.DeadLetters", problems)
    return Rules(reader, _routes(spec.get("Routes", []), key, problems), letters)


def _routes(spec: Any, key: str, problems: Problems) -> tuple[tuple[Test, str], ...]:
    if not isinstance(spec, list) or not all(isinstance(one, Mapping) for one in spec):
        problems.add("expected a list of objects with Where and Topic", key=f"{key}.Routes")
        return ()
    routes = []
    for number, one in enumerate(spec):
        place = f"{key}.Routes.{number}"
        if set(one) != {"Where", "Topic"}:
            problems.add("expected Where and Topic", key=place)
            continue
        _topic(one["Topic"], f"{place}.Topic", problems)
        try:
            routes.append((compiled(normal(parse(str(one["Where"])))), one["Topic"]))
        except BadQuery as error:
            problems.add(str(error), key=f"{place}.Where")
    return tuple(routes)


def _topic(name: Any, key: str, problems: Problems) -> None:
    try:
        checks.topic(name if isinstance(name, str) else "")
    except ValueError as error:
        problems.add(str(error), key=key)
