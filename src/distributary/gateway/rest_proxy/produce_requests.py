"""What requests to produce say, in all three versions. Pure.

Fields that a body does not have are refused by name: passed over, a misspelt "value" would write a null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from distributary.gateway.error_codes import BAD_REQUEST, UNPROCESSABLE, api_error
from distributary.gateway.request_fields import check_entry, suggestion, unknown_field
from distributary.gateway.rest_proxy.subjects import STRATEGIES

T = TypeVar("T", bound=msgspec.Struct)


class Item(msgspec.Struct, forbid_unknown_fields=True):
    """A record of a body of version 1 or 2; its key and value as they were written."""

    key: msgspec.Raw = msgspec.Raw(b"null")
    value: msgspec.Raw = msgspec.Raw(b"null")
    partition: int | None = None


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    """A body of version 1 or 2."""

    records: list[Item]
    key_schema: str | None = None
    key_schema_id: int | str | None = None
    value_schema: str | None = None
    value_schema_id: int | str | None = None


SCHEMAS = ("key_schema", "key_schema_id", "value_schema", "value_schema_id")
"""The fields of a `Batch` that only formats with schemas take."""


class Header(msgspec.Struct, forbid_unknown_fields=True):
    """A header of a record of version 3; its value in base64."""

    name: str
    value: str | None = None


class Datum(msgspec.Struct, forbid_unknown_fields=True):
    """A key or value of version 3."""

    data: msgspec.Raw = msgspec.Raw(b"null")
    type: str = ""
    schema: str | None = None
    schema_id: int | str | None = None
    schema_version: str | int | None = None
    subject: str | None = None
    subject_name_strategy: str | None = None


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """A record of version 3."""

    partition_id: int | None = None
    headers: list[Header] | None = None
    key: Datum | None = None
    value: Datum | None = None
    timestamp: str | int | None = None


PLAIN = ("BINARY", "JSON", "STRING")
"""The types of version 3 that have no schema."""
_SCHEMAS = ("schema_id", "schema_version", "schema")
_SUBJECTS = ("subject", "subject_name_strategy")

_BATCH = msgspec.json.Decoder(Batch)
_RECORD = msgspec.json.Decoder(Record)
_PARTS = {"records": Item, "headers": Header, "key": Datum, "value": Datum}
"""What stands in a body, by the name that it has there."""
_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$\.(\w+)(.*)`)?", re.DOTALL)


_SPACE = b" \t\r\n"
_OUT_OF_TEXT = re.compile(rb'[^"{}\[\]]*+')
_IN_TEXT = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_DEPTH = 500
"""Objects and lists within each other; readers of JSON have a limit of their own, not far above."""


def batch(raw: bytes) -> Batch:
    """Read a body of version 1 or 2; raises GatewayError."""
    return _decoded(_BATCH, raw)


def record(raw: bytes) -> Record:
    """Read one record of version 3; raises GatewayError."""
    found = _decoded(_RECORD, raw)
    for part in ("key", "value"):
        datum = getattr(found, part)
        if datum is not None:
            _check_datum(datum, part)
    return found


def _check_datum(datum: Datum, part: str) -> None:
    """Refuse what cannot have an effect together, with the status that Confluent's proxy has for it."""
    given = [name for name in (*_SCHEMAS, *_SUBJECTS) if getattr(datum, name) is not None]
    for group in (_SCHEMAS, _SUBJECTS):
        double = [name for name in group if name in given]
        if len(double) > 1:
            raise api_error(BAD_REQUEST, f"the {part} has {' and '.join(double)}", "give one of them")
    if given and datum.type.upper() in PLAIN:
        said = f"the {part} has {given[0]}, and the type {datum.type.upper()} has no schema"
        raise api_error(BAD_REQUEST, said, f"leave out {given[0]}, or the type")
    strategy = datum.subject_name_strategy
    if strategy is not None and strategy not in STRATEGIES:
        said = f"the {part}'s subject_name_strategy {strategy[:40]!r} is not known"
        raise api_error(BAD_REQUEST, said, suggestion(strategy, STRATEGIES))


def _decoded(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        unknown = _UNKNOWN.fullmatch(str(error))
        if unknown is not None:
            name, part, rest = unknown.groups()
            known = _PARTS[part] if part else decoder.type
            where = f"the body, at {part}{rest}," if part else "the body"
            raise unknown_field(name, known.__struct_fields__, where) from None
        raise api_error(UNPROCESSABLE, f"the body is not what is taken: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise api_error(BAD_REQUEST, f"the body is not JSON: {error}") from None


def id_of(given: int | str) -> int:
    """Read a schema's id, which may be a text; raises GatewayError."""
    if isinstance(given, str) and not (given.isascii() and given.isdigit() and len(given) < 11):
        raise api_error(UNPROCESSABLE, f"{given[:40]!r} is no schema id", "give its number")
    return int(given)


class Splitter:
    """Cuts a stream of JSON objects, one after the other, as its bytes come; each is at most ``limit``.

    Each byte is looked at once, however few come at a time; whether an object is JSON is for its reader.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self._at = self._depth = 0
        self._quoted = False

    def feed(self, data: bytes, *, last: bool = False) -> Iterator[bytes]:
        """Take more bytes; gives the objects that are whole now. Raises GatewayError, also for a torn end."""
        self._bytes += data
        while True:
            if not self._depth:
                del self._bytes[: len(self._bytes) - len(self._bytes.lstrip(_SPACE))]
                if not self._bytes:
                    return
                if self._bytes[0] != ord("{"):
                    raise api_error(BAD_REQUEST, "the body is not a sequence of JSON objects")
            if not self._ended():
                if last:
                    raise api_error(BAD_REQUEST, "the body ends within an object, or is not JSON")
                if len(self._bytes) > self._limit:
                    raise api_error(
                        413, "a record is too large", "send less at a time, or raise gateway.max_body"
                    )
                return
            found = bytes(self._bytes[: self._at])
            del self._bytes[: self._at]
            self._at = 0
            yield found

    def _ended(self) -> bool:
        """Go on through what has come; say whether the object ends there (at ``_at``)."""
        there = self._bytes
        while True:
            skipped = (_IN_TEXT if self._quoted else _OUT_OF_TEXT).match(there, self._at)
            self._at = skipped.end() if skipped is not None else self._at
            mark = there[self._at : self._at + 1]
            if not mark or mark == b"\\":  # what is escaped has not come yet
                return False
            self._at += 1
            if mark == b'"':
                self._quoted = not self._quoted
                continue
            self._depth += 1 if mark in b"{[" else -1
            if self._depth > _DEPTH:
                raise api_error(BAD_REQUEST, "the body is nested too deeply")
            if not self._depth:
                return True


class Place(NamedTuple):
    """A partition in a consumer's request, with an offset, and what is to be kept with that."""

    topic: str
    partition: int
    offset: int = 0
    metadata: str = ""


PARTITION = ("topic", "partition")
OFFSET = (*PARTITION, "offset")
COMMITTED = (*OFFSET, "metadata")
"""The fields of an entry, by what is asked; only ``metadata`` may be missing."""


def places(body: dict[str, Any], name: str, fields: tuple[str, ...]) -> list[Place]:
    """Read the list ``name`` of a consumer's request, each entry of which has ``fields``."""
    found = body.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise api_error(UNPROCESSABLE, f'"{name}" is missing or no list', f'send {{"{name}": [{{…}}]}}')
    return [_place(one, fields, f"the body, at {name}[{at}],") for at, one in enumerate(found)]


def _place(entry: dict[str, Any], fields: tuple[str, ...], where: str) -> Place:
    check_entry(entry, fields, where)
    topic, note = entry.get("topic"), entry.get("metadata")
    good = isinstance(topic, str) and topic and isinstance(note, str | None)
    if not good or not all(_whole(entry.get(field)) for field in fields if field in ("partition", "offset")):
        wanted = ", ".join(field for field in fields if field != "metadata")
        raise api_error(UNPROCESSABLE, f"each entry has {wanted}; this one has not: {str(entry)[:120]}")
    return Place(str(topic), entry["partition"], entry.get("offset", 0), note or "")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
