"""One JSON configuration for every Kafka client: read, checked, and translated for each.

::

    {"Type": "KafkaProducerConfig",
     "Properties": {"bootstrap.servers": "localhost:9092", "acks": "all", "linger.ms": 1},
     "Topics": {"orders": {"Schema": …, "Routes": […], "DeadLetters": "…"}}}

``Properties`` have the Java client's names. ``Topics`` is our own part, for producers; Java does not get it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from distributary.config import validators
from distributary.config.coerce import Faults
from distributary.config.problems import Problems, nearest
from distributary.config.secrets import mask_property
from distributary.errors import BadQuery, ConfigError, ConfigMissing, Problem
from distributary.kafka.client_properties import PROPERTIES
from distributary.kafka.property_translation import LogLine, translate
from distributary.kafka.record_router import RecordRouter, TopicRules, compile_route
from distributary.kafka.value_schema import Reader, any_value, create_reader
from distributary.model import value_checks
from distributary.model.filter import Test

log = logging.getLogger(__name__)

Kind = Literal["producer", "consumer"]
Source = str | Path | Mapping[str, Any]

TYPES: Mapping[str, Kind] = {"KafkaProducerConfig": "producer", "KafkaConsumerConfig": "consumer"}

_HERE = "the configuration"

_DEFAULTS: Mapping[Kind, Mapping[str, str]] = {
    # Java's defaults where librdkafka's differ.
    "producer": {"delivery.timeout.ms": "120000", "linger.ms": "0", "partitioner": "murmur2_random"},
    # Records of aborted transactions should not be read: here librdkafka's default stays.
    "consumer": {"isolation.level": "read_committed", "enable.auto.offset.store": "false"},
}
_IDEMPOTENT: tuple[tuple[str, Callable[[str], bool], str], ...] = (
    ("acks", lambda value: value in ("all", "-1"), "acks is all"),
    ("retries", lambda value: int(value) > 0, "retries is over 0"),
    ("max.in.flight.requests.per.connection", lambda value: int(value) <= 5, "at most 5 are in flight"),
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A valid configuration. Printing it shows no secret.

    ``given`` are the properties as written, the last of a repeated one; ``librdkafka`` and ``own`` what they
    are translated to; ``messages`` what was logged about them; ``topics`` the part of that name, whose files
    are relative to ``folder``. ``origin`` is where the configuration came from, for messages.
    """

    kind: Kind
    given: Mapping[str, Any] = field(repr=False)
    librdkafka: Mapping[str, str] = field(repr=False)
    own: Mapping[str, Any]
    messages: tuple[LogLine, ...]
    topics: Mapping[str, Any]
    origin: str
    folder: Path = Path()

    def __str__(self) -> str:
        shown = {name: mask_property(name, str(value)) for name, value in self.given.items()}
        return f"{self.origin} ({self.kind}): {json.dumps(shown)}"

    def java(self) -> dict[str, str]:
        """The properties for a Java client (Spark's), all as strings; a null is left out."""
        return {name: _java(value) for name, value in self.given.items() if value is not None}

    @property
    def servers(self) -> str:
        """The bootstrap servers, for messages."""
        return self.librdkafka["bootstrap.servers"]


def read_configuration(source: Source, kind: Kind) -> Configuration:
    """Read a configuration: a JSON string (it begins with a brace), the path of such a file, or a dict.

    Logs what is ignored and why. Raises `ConfigError` with every error in it, `ConfigMissing` if there is no
    such file.
    """
    document, repeated, origin, folder = _document(source)
    problems = Problems(origin)
    messages = [
        LogLine(logging.WARNING, f"{name} is given twice in {origin}: the last one is used")
        for name in repeated
    ]
    found = _check(document, kind, origin, folder, problems, messages)
    for level, line in found.messages:
        log.log(level, line)
    return found


def _check(
    document: Mapping[str, Any],
    kind: Kind,
    origin: str,
    folder: Path,
    problems: Problems,
    messages: list[LogLine],
) -> Configuration:
    parts = ("Type", "Properties", "Topics") if kind == "producer" else ("Type", "Properties")
    for name in document:
        if name not in parts:
            near = nearest(name, parts)
            problems.add(f"unknown part (there are {', '.join(parts)})", key=name, nearest=near)
    expected = next(name for name, one in TYPES.items() if one == kind)
    given = document.get("Type")
    if given != expected:
        problems.add(f'expected "{expected}", got {json.dumps(given)}', key="Type")
    properties = document.get("Properties")
    if not isinstance(properties, Mapping):
        problems.add("missing; it must be an object with the client's properties", key="Properties")
        properties = {}
    topics = document.get("Topics", {})
    if not isinstance(topics, Mapping):
        problems.add("expected an object with the topics", key="Topics")
        topics = {}
    for name in properties:
        if name not in PROPERTIES:
            problems.add(
                "unknown Kafka client property", key=f"Properties.{name}", nearest=nearest(name, PROPERTIES)
            )
    librdkafka, own = _translate(properties, kind, problems, messages)
    problems.finish()
    return Configuration(
        kind=kind,
        given=dict(properties),
        librdkafka=librdkafka,
        own=own,
        messages=tuple(messages),
        topics=dict(topics),
        origin=origin,
        folder=folder,
    )


def _translate(
    properties: Mapping[str, Any], kind: Kind, problems: Problems, messages: list[LogLine]
) -> tuple[dict[str, str], dict[str, Any]]:
    try:
        found = translate({name: value for name, value in properties.items() if name in PROPERTIES}, kind)
    except Faults as faults:
        for name, message in faults.entries:
            problems.add(message, key=f"Properties.{name}")
        return {}, {}
    messages += found.messages
    librdkafka = {**_DEFAULTS[kind], **found.librdkafka}
    _servers(librdkafka, problems)
    if found.own.get("producer.type", "sync") not in ("sync", "async"):
        problems.add("expected sync or async", key="Properties.producer.type")
    if kind == "producer":
        _idempotence(librdkafka, problems, messages)
        _delivery(librdkafka, messages)
        return librdkafka, found.own
    if "fetch.max.bytes" in librdkafka and "message.max.bytes" not in librdkafka:
        # librdkafka requires it not to be below the other, which a consumer has no use for.
        fetch = max(1000, int(librdkafka["fetch.max.bytes"]))
        librdkafka.update({"fetch.max.bytes": str(fetch), "message.max.bytes": str(min(fetch, 1_000_000))})
    if not librdkafka.get("group.id"):
        problems.add(
            'missing; a consumer is a member of a group, such as "billing"', key="Properties.group.id"
        )
    return librdkafka, found.own


def _servers(librdkafka: dict[str, str], problems: Problems) -> None:
    text = librdkafka.pop("metadata.broker.list", "")
    text = librdkafka.setdefault("bootstrap.servers", text)
    key = "Properties.bootstrap.servers"
    if not text.strip():
        problems.add('missing; for example "localhost:9092"', key=key)
        return
    try:
        librdkafka["bootstrap.servers"] = validators.servers(text)
    except ValueError as error:
        problems.add(str(error), key=key)


def _idempotence(librdkafka: dict[str, str], problems: Problems, messages: list[LogLine]) -> None:
    """As in Java: on, unless a setting excludes it; an error if it was requested explicitly."""
    requested = librdkafka.get("enable.idempotence")
    if requested is None and "transactional.id" in librdkafka:
        requested = "true"
    conflicts = [
        (name, why) for name, fits, why in _IDEMPOTENT if name in librdkafka and not fits(librdkafka[name])
    ]
    if requested == "true":
        for name, why in conflicts:
            problems.add(f"enable.idempotence and transactions require that {why}", key=f"Properties.{name}")
    elif requested is None:
        librdkafka["enable.idempotence"] = "false" if conflicts else "true"
        for name, why in conflicts:
            line = f"enable.idempotence is off because of {name}: it requires that {why}"
            messages.append(LogLine(logging.INFO, line))


def _delivery(librdkafka: dict[str, str], messages: list[LogLine]) -> None:
    """Unlike Java, librdkafka requires a record's timeout to end before its transaction's."""
    most = int(librdkafka.get("transaction.timeout.ms", 60_000))
    given = int(librdkafka["delivery.timeout.ms"])
    if "transactional.id" in librdkafka and given > most:
        librdkafka["delivery.timeout.ms"] = str(most)
        line = f"kafka property delivery.timeout.ms is {most} instead of {given}: the transaction timeout"
        messages.append(LogLine(logging.INFO, line))


def _document(source: Source) -> tuple[Mapping[str, Any], list[str], str, Path]:
    if isinstance(source, Mapping):
        return source, [], _HERE, Path()
    if isinstance(source, Path) or not source.lstrip().startswith("{"):
        path = Path(source)
        try:
            text, origin, folder = path.read_text(encoding="utf-8-sig"), str(path), path.parent
        except FileNotFoundError:
            raise ConfigMissing(
                f"client configuration {path} not found",
                hint="Give the path of a JSON file, a JSON string that begins with a brace, or a dict",
            ) from None
        except (OSError, UnicodeDecodeError, ValueError) as error:
            why = getattr(error, "strerror", None) or "not UTF-8"
            raise ConfigError(f"{path}: cannot be read: {why}") from None
    else:
        text, origin, folder = source, _HERE, Path()
    repeated: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for name, value in found:
            if name in names:
                repeated.append(name)
            names[name] = value
        return names

    try:
        document = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        _raise_json_error(origin, text, error)
    except (ValueError, RecursionError):
        raise ConfigError(f"{origin}: not valid JSON: nested too deeply, or a number is too long") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{origin}: expected an object with Type and Properties")
    return document, repeated, origin, folder


def _raise_json_error(origin: str, text: str, error: json.JSONDecodeError) -> NoReturn:
    line = text.splitlines()[error.lineno - 1] if text.splitlines() else ""
    rest = line[error.colno - 1 :].lstrip()
    message = f"not valid JSON: {error.msg}"
    if rest.startswith(("//", "/*", "#")):
        message = "not valid JSON: comments are not allowed; remove them"
    problem = Problem(message, "", origin, error.lineno)
    refused = ConfigError(str(problem))
    refused.problems = (problem,)
    raise refused from None


def _java(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- the part Topics: schemas, routes and dead letters --------------------------------------------------


_TOPIC_PARTS = ("Schema", "Routes", "DeadLetters")


def router_of(config: Configuration) -> RecordRouter:
    """The router of a producer. Raises ConfigError with every error in the rules."""
    problems = Problems(config.origin)
    rules = {topic: _rules(topic, spec, config.folder, problems) for topic, spec in config.topics.items()}
    problems.finish()
    return RecordRouter(rules)


def _rules(topic: str, spec: Any, folder: Path, problems: Problems) -> TopicRules:
    key = f"Topics.{topic}"
    if not isinstance(spec, Mapping):
        problems.add(f"expected an object with {', '.join(_TOPIC_PARTS)}", key=key)
        spec = {}
    for name in spec:
        if name not in _TOPIC_PARTS:
            problems.add(
                f"unknown part (there are {', '.join(_TOPIC_PARTS)})",
                key=f"{key}.{name}",
                nearest=nearest(name, _TOPIC_PARTS),
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
    _check_topic_name(dead_letters, f"{key}.DeadLetters", problems)
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
        _check_topic_name(one["Topic"], f"{route_key}.Topic", problems)
        try:
            routes.append((compile_route(str(one["Where"])), one["Topic"]))
        except BadQuery as error:
            problems.add(str(error), key=f"{route_key}.Where")
    return tuple(routes)


def _check_topic_name(name: Any, key: str, problems: Problems) -> None:
    try:
        value_checks.topic(name if isinstance(name, str) else "")
    except ValueError as error:
        problems.add(str(error), key=key)
