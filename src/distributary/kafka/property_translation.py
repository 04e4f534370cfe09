"""Translates the Java client's properties for librdkafka, as `client_properties` says of each."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from distributary.config.coerce import Faults
from distributary.config.secrets import is_secret, mask_text
from distributary.kafka.client_properties import PROPERTIES, Handling, Property, Side

Value = str | int | float | bool | list[str]

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_JAAS = re.compile(r"\b(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;]+))")
_JAAS_NAMES = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
_PARTITIONERS = "org.apache.kafka.clients.producer."
_LEVELS = {"gzip": (0, 9), "lz4": (0, 12), "zstd": (0, 12)}


class LogLine(NamedTuple):
    """Something that a user may need to know: the level at which it is logged, and the line."""

    level: int
    line: str


class Translated(NamedTuple):
    """The properties for librdkafka (as strings), those of our own client, and what to log."""

    librdkafka: dict[str, str]
    own: dict[str, Any]
    messages: list[LogLine]


def translate(java: Mapping[str, Any], side: Side = "both") -> Translated:
    """Translate the Java client's properties. Names that are not in the table are passed on unchanged.

    A null counts as not given, as in Java. With ``side`` "both" no property is ignored for belonging to the
    other side. Raises `Faults` (a ValueError) with every value of the wrong type; secrets are not shown.
    """
    values: dict[str, Any] = {}
    faults: list[tuple[str, str]] = []
    work = Translated({}, {}, [])
    # First all values are converted, since a translation may look at other properties.
    for name, raw in java.items():
        row = PROPERTIES.get(name)
        if raw is None:
            continue
        try:
            if row is None:
                work.librdkafka[name] = _text(convert(Property(name, "both", "any", Handling.SAME), raw))
            elif side != "both" and row.side not in (side, "both"):
                _ignore(work, logging.INFO, name, f"only a {row.side} has it")
            else:
                values[name] = convert(row, raw)
        except ValueError as error:
            faults.append((name, str(error)))
    for name, value in values.items():
        row = PROPERTIES[name]
        try:
            if row.handling is Handling.TRANSLATED:
                _TRANSLATIONS[name](work, values, name, value, side)
            elif row.handling is Handling.OWN:
                work.own[name] = value
            elif row.handling is Handling.IGNORED:
                _ignore(work, logging.INFO, name, row.about)
            else:
                work.librdkafka[row.to] = _text(_within(work, row, value))
        except ValueError as error:
            faults.append((name, str(error)))
    if faults:
        raise Faults(faults)
    return work


def convert(row: Property, raw: Any) -> Value:
    """Convert a value to its property's type; strings of numbers and booleans will do. Raises ValueError."""
    text = raw.strip() if isinstance(raw, str) else None
    booleans: dict[str | None, bool] = {"true": True, "false": False}
    if isinstance(raw, list) and row.kind == "list":
        if all(isinstance(item, str) for item in raw):
            return list(raw)
    elif not isinstance(raw, str | int | float):
        pass
    elif row.kind == "boolean":
        found = raw if isinstance(raw, bool) else booleans.get(text and text.lower())
        if found is not None:
            return found
    elif row.kind == "list":
        if text is not None:
            return [item.strip() for item in text.split(",") if item.strip()]
    elif row.kind == "any":
        return raw
    elif isinstance(raw, bool):
        pass
    elif row.kind == "string":
        return str(raw)
    elif row.kind == "integer":
        if text is not None and _INTEGER.fullmatch(text):
            raw = int(text)
        if isinstance(raw, int):
            if raw < row.least:
                raise ValueError(f"expected {row.least} or more, got {raw}")
            return raw
    else:
        try:
            return float(raw)
        except ValueError:
            pass
    raise ValueError(f"expected {_EXPECTED[row.kind]}{_got(row.name, raw)}")


_EXPECTED = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list of strings, or one string with commas",
    "any": "a string, a number, or true or false",
}


def _got(name: str, raw: Any) -> str:
    kinds: dict[type, str] = {dict: "an object", list: "a list", bool: str(raw).lower()}
    if type(raw) in kinds:
        return f", got {kinds[type(raw)]}"
    if is_secret(name):
        return ""
    return f', got the string "{mask_text(raw)}"' if isinstance(raw, str) else f", got {raw}"


def _text(value: Value) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ignore(work: Translated, level: int, name: str, why: str) -> None:
    work.messages.append(LogLine(level, f"kafka property {name} is ignored: {why}"))


def _within(work: Translated, row: Property, value: Value) -> Value:
    if not isinstance(value, int) or row.low is None or row.high is None:
        return value
    limited = min(max(value, row.low), row.high)
    if limited != value and value != -1:
        limits = f"librdkafka accepts {row.low} to {row.high}"
        line = f"kafka property {row.name} is {limited} instead of {value}: {limits}"
        work.messages.append(LogLine(logging.INFO, line))
    return limited


# --- properties that need more than another name ----------------------------------------------------------

Translation = Callable[[Translated, Mapping[str, Any], str, Any, Side], None]


def _acks(work: Translated, values: Mapping[str, Any], name: str, value: str, side: Side) -> None:
    if value.lower() not in ("all", "-1", "0", "1"):
        raise ValueError(f'expected all, 1 or 0, got "{value}"')
    work.librdkafka[name] = value.lower()


def _reset(work: Translated, values: Mapping[str, Any], name: str, value: str, side: Side) -> None:
    known = {"none": "error", "smallest": "earliest", "largest": "latest"}
    if value not in (*known, "earliest", "latest"):
        raise ValueError(f'expected earliest, latest or none, got "{value}"')
    work.librdkafka[name] = known.get(value, value)


def _buffer(work: Translated, values: Mapping[str, Any], name: str, value: int, side: Side) -> None:
    work.librdkafka["queue.buffering.max.kbytes"] = str(min(max(1, value // 1024), 2_147_483_647))


def _level(work: Translated, values: Mapping[str, Any], name: str, value: int, side: Side) -> None:
    kind = name.split(".")[1]
    if values.get("compression.type") == kind:
        low, high = _LEVELS[kind]
        work.librdkafka["compression.level"] = str(min(max(value, low), high))
    else:
        _ignore(work, logging.INFO, name, f"compression.type is not {kind}")


def _assignors(work: Translated, values: Mapping[str, Any], name: str, value: list[str], side: Side) -> None:
    found = [_ASSIGNORS.get(one, one) for one in value]
    known = [one for one in found if one in _ASSIGNORS.values()]
    usable = [one for one in known if (one == "cooperative-sticky") == (known[0] == "cooperative-sticky")]
    for one in value:
        if _ASSIGNORS.get(one, one) not in usable:
            why = (
                "cannot be mixed with the first"
                if _ASSIGNORS.get(one, one) in known
                else "is unknown to librdkafka"
            )
            _ignore(work, logging.WARNING, name, f"{one} {why}")
    if usable:
        work.librdkafka[name] = ",".join(usable)


def _partitioner(work: Translated, values: Mapping[str, Any], name: str, value: str, side: Side) -> None:
    if value.removeprefix(_PARTITIONERS) == "RoundRobinPartitioner":
        work.own["round.robin"] = True
    elif value.removeprefix(_PARTITIONERS) == "UniformStickyPartitioner":
        work.librdkafka["partitioner"] = "random"
    elif value and not value.endswith(".DefaultPartitioner"):
        _ignore(work, logging.WARNING, name, "it names a Java class; keys choose partitions by murmur2")


def _keyless(work: Translated, values: Mapping[str, Any], name: str, value: bool, side: Side) -> None:
    if value:
        work.librdkafka["partitioner"] = "random"


def _request(work: Translated, values: Mapping[str, Any], name: str, value: int, side: Side) -> None:
    if side == "consumer":
        work.librdkafka["socket.timeout.ms"] = str(min(max(value, 10), 300_000))
    else:
        work.librdkafka[name] = str(min(max(value, 1), 900_000))


def _jaas(work: Translated, values: Mapping[str, Any], name: str, value: str, side: Side) -> None:
    found = {key: a or b or c for key, a, b, c in _JAAS.findall(value)}
    for key, text in found.items():
        if key in _JAAS_NAMES:
            work.librdkafka[_JAAS_NAMES[key]] = re.sub(r"\\(.)", r"\1", text)
    if "clientId" in found:
        work.librdkafka["sasl.oauthbearer.method"] = "oidc"


def _endpoint(work: Translated, values: Mapping[str, Any], name: str, value: str, side: Side) -> None:
    work.librdkafka[name] = value.lower() or "none"


def _keystore(work: Translated, values: Mapping[str, Any], name: str, value: str, side: Side) -> None:
    kind = str(values.get("ssl.keystore.type", "PKCS12")).upper()
    if kind == "PEM":
        work.librdkafka["ssl.certificate.location"] = work.librdkafka["ssl.key.location"] = value
    elif kind == "PKCS12":
        work.librdkafka[name] = value
    else:
        _ignore(work, logging.WARNING, name, "only PEM and PKCS12 key stores can be read here")


def _truststore(work: Translated, values: Mapping[str, Any], name: str, value: str, side: Side) -> None:
    if str(values.get("ssl.truststore.type", "PEM")).upper() == "PEM":
        work.librdkafka["ssl.ca.location"] = value
    else:
        _ignore(work, logging.WARNING, name, "only PEM trust stores can be read here")


_TRANSLATIONS: Mapping[str, Translation] = {
    "acks": _acks,
    "auto.offset.reset": _reset,
    "buffer.memory": _buffer,
    "compression.gzip.level": _level,
    "compression.lz4.level": _level,
    "compression.zstd.level": _level,
    "partition.assignment.strategy": _assignors,
    "partitioner.class": _partitioner,
    "partitioner.ignore.keys": _keyless,
    "request.timeout.ms": _request,
    "sasl.jaas.config": _jaas,
    "ssl.endpoint.identification.algorithm": _endpoint,
    "ssl.keystore.location": _keystore,
    "ssl.truststore.location": _truststore,
}
