"""Parses the requests to produce, of all three versions. Pure.

Unknown fields are rejected by name: if they were ignored, a misspelt "value" would write a null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from distributary.gateway.error_codes import BAD_REQUEST, UNPROCESSABLE, api_error
from distributary.gateway.request_fields import suggestion, unknown_field
from distributary.gateway.rest_proxy.record_schemas import STRATEGIES

T = TypeVar("T", bound=msgspec.Struct)


class RecordV2(msgspec.Struct, forbid_unknown_fields=True):
    """A record of a body of version 1 or 2; its key and value as they were written."""

    key: msgspec.Raw = msgspec.Raw(b"null")
    value: msgspec.Raw = msgspec.Raw(b"null")
    partition: int | None = None


class ProduceRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A body of version 1 or 2."""

    records: list[RecordV2]
    key_schema: str | None = None
    key_schema_id: int | str | None = None
    value_schema: str | None = None
    value_schema_id: int | str | None = None


SCHEMA_FIELDS = ("key_schema", "key_schema_id", "value_schema", "value_schema_id")
"""The fields of a `ProduceRequest` that only formats with schemas accept."""


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


class RecordV3(msgspec.Struct, forbid_unknown_fields=True):
    """A record of version 3."""

    partition_id: int | None = None
    headers: list[Header] | None = None
    key: Datum | None = None
    value: Datum | None = None
    timestamp: str | int | None = None


TYPES_WITHOUT_SCHEMA = ("BINARY", "JSON", "STRING")
"""The types of version 3 that have no schema."""
_SCHEMA_GIVEN_BY = ("schema_id", "schema_version", "schema")
_SUBJECT_GIVEN_BY = ("subject", "subject_name_strategy")

_REQUEST = msgspec.json.Decoder(ProduceRequest)
_RECORD = msgspec.json.Decoder(RecordV3)
_NESTED = {"records": RecordV2, "headers": Header, "key": Datum, "value": Datum}
"""The types of nested objects, by the field that contains them."""
_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$\.(\w+)(.*)`)?", re.DOTALL)

_WHITESPACE = b" \t\r\n"
_OUTSIDE_STRING = re.compile(rb'[^"{}\[\]]*+')
_INSIDE_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_MAX_DEPTH = 500
"""The most nested objects and lists; JSON parsers have a limit of their own, not far above."""


def parse_request(raw: bytes) -> ProduceRequest:
    """Parse a body of version 1 or 2; raises GatewayError."""
    return _decode(_REQUEST, raw)


def parse_record(raw: bytes) -> RecordV3:
    """Parse one record of version 3; raises GatewayError."""
    record = _decode(_RECORD, raw)
    for part in ("key", "value"):
        datum = getattr(record, part)
        if datum is not None:
            _check_datum(datum, part)
    return record


def _check_datum(datum: Datum, part: str) -> None:
    """Reject fields that exclude each other, with the status that Confluent's proxy has for it."""
    given = [name for name in (*_SCHEMA_GIVEN_BY, *_SUBJECT_GIVEN_BY) if getattr(datum, name) is not None]
    for group in (_SCHEMA_GIVEN_BY, _SUBJECT_GIVEN_BY):
        conflicting = [name for name in group if name in given]
        if len(conflicting) > 1:
            raise api_error(BAD_REQUEST, f"the {part} has {' and '.join(conflicting)}", "give one of them")
    if given and datum.type.upper() in TYPES_WITHOUT_SCHEMA:
        message = f"the {part} has {given[0]}, but the type {datum.type.upper()} has no schema"
        raise api_error(BAD_REQUEST, message, f"leave out {given[0]}, or the type")
    strategy = datum.subject_name_strategy
    if strategy is not None and strategy not in STRATEGIES:
        message = f"unknown subject_name_strategy {strategy[:40]!r} of the {part}"
        raise api_error(BAD_REQUEST, message, suggestion(strategy, STRATEGIES))


def _decode(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        unknown = _UNKNOWN.fullmatch(str(error))
        if unknown is not None:
            name, part, rest = unknown.groups()
            struct = _NESTED[part] if part else decoder.type
            where = f"the body, at {part}{rest}," if part else "the body"
            raise unknown_field(name, struct.__struct_fields__, where) from None
        raise api_error(UNPROCESSABLE, f"invalid body: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise api_error(BAD_REQUEST, f"the body is not JSON: {error}") from None


def parse_schema_id(given: int | str) -> int:
    """Read a schema's id, which may be a string; raises GatewayError."""
    if isinstance(given, str) and not (given.isascii() and given.isdigit() and len(given) < 11):
        raise api_error(UNPROCESSABLE, f"invalid schema id {given[:40]!r}", "give its number")
    return int(given)


class JsonSplitter:
    """Splits a stream of JSON objects as its bytes arrive; an object has at most ``max_bytes``.

    Each byte is examined once, however few arrive at a time. Whether an object is valid JSON is for its
    parser to say.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._scanned = 0
        """How many bytes of the buffer were examined."""
        self._depth = 0
        """How many objects and lists are open there."""
        self._in_string = False

    def feed(self, data: bytes, *, last: bool = False) -> Iterator[bytes]:
        """Add bytes; yields the complete objects. Raises GatewayError, also if the last is incomplete."""
        self._buffer += data
        while True:
            if not self._depth:
                del self._buffer[: len(self._buffer) - len(self._buffer.lstrip(_WHITESPACE))]
                if not self._buffer:
                    return
                if self._buffer[0] != ord("{"):
                    raise api_error(BAD_REQUEST, "the body is not a sequence of JSON objects")
            if not self._scan_object():
                if last:
                    raise api_error(BAD_REQUEST, "the body ends within an object, or is not JSON")
                if len(self._buffer) > self._max_bytes:
                    raise api_error(
                        413, "a record is too large", "send less at a time, or raise gateway.max_body"
                    )
                return
            found = bytes(self._buffer[: self._scanned])
            del self._buffer[: self._scanned]
            self._scanned = 0
            yield found

    def _scan_object(self) -> bool:
        """Examine new bytes; true if the object is complete, and ends at ``_scanned``."""
        buffer = self._buffer
        while True:
            skipped = (_INSIDE_STRING if self._in_string else _OUTSIDE_STRING).match(buffer, self._scanned)
            self._scanned = skipped.end() if skipped is not None else self._scanned
            token = buffer[self._scanned : self._scanned + 1]
            if not token or token == b"\\":  # the escaped character has not arrived yet
                return False
            self._scanned += 1
            if token == b'"':
                self._in_string = not self._in_string
                continue
            self._depth += 1 if token in b"{[" else -1
            if self._depth > _MAX_DEPTH:
                raise api_error(BAD_REQUEST, "the body is nested too deeply")
            if not self._depth:
                return True
