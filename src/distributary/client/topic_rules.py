"""The part ``Topics`` of a producer's configuration: schemas, routes and dead letters by topic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distributary.client.configuration import Configuration
from distributary.config.problems import Problems, nearest
from distributary.errors import BadQuery
from distributary.kafka.record_router import RecordRouter, TopicRules, compile_route
from distributary.kafka.value_schema import Reader, any_value, create_reader
from distributary.model import value_checks
from distributary.model.filter import Test

_PARTS = ("Schema", "Routes", "DeadLetters")


def router_of(config: Configuration) -> RecordRouter:
    """The router of a producer. Raises ConfigError with every error in the rules."""
    problems = Problems(config.origin)
    rules = {topic: _rules(topic, spec, config.folder, problems) for topic, spec in config.topics.items()}
    problems.finish()
    return RecordRouter(rules)


def _rules(topic: str, spec: Any, folder: Path, problems: Problems) -> TopicRules:
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
            reader = create_reader(spec["Schema"], folder)
        except ValueError as error:
            problems.add(str(error), key=f"{key}.Schema")
    dead_letters = spec.get("DeadLetters", f"{topic}.dead-letters")
    _check_topic(dead_letters, f"{key}.DeadLetters", problems)
    return TopicRules(reader, _routes(spec.get("Routes", []), key, problems), dead_letters)


def _routes(spec: Any, key: str, problems: Problems) -> tuple[tuple[Test, str], ...]:
    if not isinstance(spec, list) or not all(isinstance(one, Mapping) for one in spec):
        problems.add("expected a list of objects with Where and Topic", key=f"{key}.Routes")
        return ()
    routes = []
    for number, one in enumerate(spec):
        route_key = f"{key}.Routes.{number}"
        if set(one) != {"Where", "Topic"}:
            problems.add("expected Where and Topic", key=route_key)
            continue
        _check_topic(one["Topic"], f"{route_key}.Topic", problems)
        try:
            routes.append((compile_route(str(one["Where"])), one["Topic"]))
        except BadQuery as error:
            problems.add(str(error), key=f"{route_key}.Where")
    return tuple(routes)


def _check_topic(name: Any, key: str, problems: Problems) -> None:
    try:
        value_checks.topic(name if isinstance(name, str) else "")
    except ValueError as error:
        problems.add(str(error), key=key)
