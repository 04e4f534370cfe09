"""Records as lines of text: how `produce` parses them and `consume` prints them. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from distributary.errors import UsageError

Headers = tuple[tuple[str, bytes | None], ...]

FORMATS = ("text", "json", "hex", "base64")
_FIELDS = ("key", "value", "headers", "partition", "timestamp")


class ParsedRecord(NamedTuple):
    """A record to write. ``partition`` -1: chosen by the key. ``timestamp`` 0: now, in ms."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int = -1
    timestamp: int = 0


class ConsumedRecord(NamedTuple):
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


# --- parsing ----------------------------------------------------------------------------------------------


def plain(line: str, *, null: str | None = None) -> ParsedRecord:
    """Parse a line that is a value."""
    return ParsedRecord(None, _bytes(line, null))


def keyed(line: str, separator: str, *, null: str | None = None) -> ParsedRecord:
    """Parse a line of key, separator and value. Raises UsageError if there is no separator."""
    key, found, value = line.partition(separator)
    if not found:
        raise UsageError(
            f"no {separator!r} between key and value", hint="Give --key-separator, or leave --keys out"
        )
    return ParsedRecord(_bytes(key, null), _bytes(value, null))


def from_json(line: str) -> ParsedRecord:
    """Parse a JSON object: key, value, headers, partition, timestamp; all but strings are written as JSON.

    ``{"base64": "…"}`` as a key, a value or a header's value stands for bytes. Parses what `as_json` prints.
    """
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not valid JSON: {error}") from None
    if not isinstance(given, dict) or "value" not in given:
        raise UsageError('not an object with a "value"', hint='As in: {"key": "m1", "value": {"price": 2}}')
    known = {*_FIELDS, "topic", "offset"}
    if unknown := set(given) - known:
        raise UsageError(f"unknown field {min(unknown)!r}", hint=f"There are: {', '.join(_FIELDS)}")
    return ParsedRecord(
        _of_json(given.get("key")),
        _of_json(given["value"]),
        _headers(given.get("headers") or {}),
        _whole(given, "partition", -1),
        _whole(given, "timestamp", 0),
    )


def _of_json(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (ValueError, TypeError):
            raise UsageError("the value of base64 is not valid base64") from None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _headers(given: Any) -> Headers:
    if isinstance(given, dict):
        return tuple((name, _of_json(value)) for name, value in given.items())
    if isinstance(given, list) and all(isinstance(one, list) and len(one) == 2 for one in given):
        return tuple((str(name), _of_json(value)) for name, value in given)
    raise UsageError("headers must be an object, or a list of [name, value]")


def _whole(given: dict[str, Any], name: str, absent: int) -> int:
    value = given.get(name, absent)
    if not isinstance(value, int) or isinstance(value, bool) or (value < 0 and value != absent):
        raise UsageError(f"{name} must be a whole number")
    return value


def _bytes(text: str, null: str | None) -> bytes | None:
    return None if null is not None and text == null else text.encode(errors="surrogateescape")


# --- printing ---------------------------------------------------------------------------------------------


def as_json(record: ConsumedRecord) -> str:
    """Print a record as one line of JSON; UTF-8 as strings (JSON within, too), other bytes as base64."""
    body = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _to_json(record.key),
        "value": _to_json(record.value),
    }
    if record.headers:
        body["headers"] = [[name, _to_json(value)] for name, value in record.headers]
    return json.dumps(body, ensure_ascii=False)


def as_line(
    record: ConsumedRecord,
    format: str,
    parts: Sequence[str] = (),
    *,
    separator: str = "\t",
    null: str = "null",
) -> str:
    """Print a record for people: ``parts`` (timestamp, partition, offset, headers, key), then the value."""
    shown = {
        "timestamp": lambda: str(record.timestamp),
        "partition": lambda: str(record.partition),
        "offset": lambda: str(record.offset),
        "headers": lambda: (
            ",".join(f"{name}:{text(value, 'text', null)}" for name, value in record.headers) or "-"
        ),
        "key": lambda: text(record.key, "text" if format == "json" else format, null),
    }
    return separator.join([*(shown[part]() for part in parts), text(record.value, format, null)])


def text(value: bytes | None, format: str, null: str = "null") -> str:
    """Print bytes in a format of FORMATS; what is not UTF-8 is escaped, what is not JSON stays as it is."""
    if value is None:
        return null
    if format == "hex":
        return value.hex()
    if format == "base64":
        return base64.b64encode(value).decode()
    plain = value.decode(errors="backslashreplace")
    if format == "json":
        try:
            return json.dumps(json.loads(value), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return plain
    return plain


def _to_json(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
