"""Records as lines of text: how `produce` reads them and `consume` writes them. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from distributary.errors import UsageError

Headers = tuple[tuple[str, bytes | None], ...]

FORMATS = ("text", "json", "hex", "base64")
_FIELDS = ("key", "value", "headers", "partition", "timestamp")


class Record(NamedTuple):
    """What is written. ``partition`` -1: chosen by the key. ``timestamp`` 0: now, in ms."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int = -1
    timestamp: int = 0


class Seen(NamedTuple):
    """What was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


# --- reading ----------------------------------------------------------------------------------------------


def plain(line: str, *, null: str | None = None) -> Record:
    """A line is a value."""
    return Record(None, _bytes(line, null))


def keyed(line: str, separator: str, *, null: str | None = None) -> Record:
    """A line is a key, the separator, and a value. Raises UsageError for one without the separator."""
    key, found, value = line.partition(separator)
    if not found:
        raise UsageError(f"no {separator!r} between key and value", hint="Give --key-separator, or no --keys")
    return Record(_bytes(key, null), _bytes(value, null))


def from_json(line: str) -> Record:
    """A line is an object: key, value, headers, partition, timestamp; what is no text is written as JSON.

    ``{"base64": "…"}`` as a key, a value or a header's value stands for bytes. Reads what `as_json` writes.
    """
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}") from None
    if not isinstance(given, dict) or "value" not in given:
        raise UsageError('not an object with a "value"', hint='As in: {"key": "m1", "value": {"price": 2}}')
    known = {*_FIELDS, "topic", "offset"}
    if strange := set(given) - known:
        raise UsageError(f"unknown field {min(strange)!r}", hint=f"There are: {', '.join(_FIELDS)}")
    return Record(
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
            raise UsageError("what stands under base64 is not base64") from None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _headers(given: Any) -> Headers:
    if isinstance(given, dict):
        return tuple((name, _of_json(value)) for name, value in given.items())
    if isinstance(given, list) and all(isinstance(one, list) and len(one) == 2 for one in given):
        return tuple((str(name), _of_json(value)) for name, value in given)
    raise UsageError("headers are an object, or a list of [name, value]")


def _whole(given: dict[str, Any], name: str, absent: int) -> int:
    value = given.get(name, absent)
    if not isinstance(value, int) or isinstance(value, bool) or (value < 0 and value != absent):
        raise UsageError(f"{name} is a whole number")
    return value


def _bytes(text: str, null: str | None) -> bytes | None:
    return None if null is not None and text == null else text.encode(errors="surrogateescape")


# --- writing ----------------------------------------------------------------------------------------------


def as_json(seen: Seen) -> str:
    """A record as one line of JSON; text as text, JSON within as text too, other bytes as base64."""
    body = {
        "topic": seen.topic,
        "partition": seen.partition,
        "offset": seen.offset,
        "timestamp": seen.timestamp,
        "key": _to_json(seen.key),
        "value": _to_json(seen.value),
    }
    if seen.headers:
        body["headers"] = [[name, _to_json(value)] for name, value in seen.headers]
    return json.dumps(body, ensure_ascii=False)


def as_line(
    seen: Seen, format: str, parts: Sequence[str] = (), *, separator: str = "\t", null: str = "null"
) -> str:
    """A record for people: ``parts`` (timestamp, partition, offset, headers, key), then the value."""
    shown = {
        "timestamp": lambda: str(seen.timestamp),
        "partition": lambda: str(seen.partition),
        "offset": lambda: str(seen.offset),
        "headers": lambda: (
            ",".join(f"{name}:{text(value, 'text', null)}" for name, value in seen.headers) or "-"
        ),
        "key": lambda: text(seen.key, "text" if format == "json" else format, null),
    }
    return separator.join([*(shown[part]() for part in parts), text(seen.value, format, null)])


def text(value: bytes | None, format: str, null: str = "null") -> str:
    """Bytes in a format of FORMATS; what is not UTF-8 is escaped, what is not JSON stays as it is."""
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
