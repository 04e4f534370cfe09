"""What requests to produce say, in all three versions. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from distributary.gateway.refuse import BAD_REQUEST, UNPROCESSABLE, refuse

T = TypeVar("T")


class Item(msgspec.Struct):
    """A record of a body of version 1 or 2; its key and value as they were written."""

    key: msgspec.Raw = msgspec.Raw(b"null")
    value: msgspec.Raw = msgspec.Raw(b"null")
    partition: int | None = None


class Batch(msgspec.Struct):
    """A body of version 1 or 2."""

    records: list[Item]
    key_schema: str | None = None
    key_schema_id: int | None = None
    value_schema: str | None = None
    value_schema_id: int | None = None


class Header(msgspec.Struct):
    """A header of a record of version 3; its value in base64."""

    name: str
    value: str | None = None


class Datum(msgspec.Struct):
    """A key or value of version 3."""

    data: msgspec.Raw = msgspec.Raw(b"null")
    type: str = ""
    schema: str | None = None
    schema_id: int | None = None
    schema_version: str | int | None = None
    subject: str | None = None


class Record(msgspec.Struct):
    """A record of version 3."""

    partition_id: int | None = None
    headers: list[Header] = []
    key: Datum | None = None
    value: Datum | None = None
    timestamp: str | int | None = None


_BATCH = msgspec.json.Decoder(Batch)
_RECORD = msgspec.json.Decoder(Record)


def batch(raw: bytes) -> Batch:
    """Read a body of version 1 or 2; raises GatewayError."""
    return _decoded(_BATCH, raw)


def record(raw: bytes) -> Record:
    """Read one record of version 3; raises GatewayError."""
    return _decoded(_RECORD, raw)


def _decoded(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise refuse(UNPROCESSABLE, f"the body is not what is taken: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refuse(BAD_REQUEST, f"the body is not JSON: {error}") from None


class Splitter:
    """Cuts a stream of JSON objects, one after the other, as its bytes come; each is at most ``limit``."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._text = ""
        self._bytes = b""
        self._decoder = json.JSONDecoder()

    def feed(self, data: bytes, *, last: bool = False) -> Iterator[bytes]:
        """Take more bytes; gives the objects that are whole now. Raises GatewayError, also for a torn end."""
        self._bytes += data
        try:
            text = self._bytes.decode()
            self._bytes = b""
        except UnicodeDecodeError as error:
            if last or len(self._bytes) - error.start > 3:
                raise refuse(BAD_REQUEST, "the body is not UTF-8") from None
            text, self._bytes = self._bytes[: error.start].decode(), self._bytes[error.start :]
        self._text += text
        while True:
            self._text = self._text.lstrip()
            if not self._text:
                return
            if self._text[0] != "{":
                raise refuse(BAD_REQUEST, "the body is not a sequence of JSON objects")
            end = self._end()
            if end is None:
                if last:
                    raise refuse(BAD_REQUEST, "the body ends within an object, or is not JSON")
                if len(self._text) > self._limit:
                    raise refuse(
                        413, "a record is too large", "send less at a time, or raise gateway.max_body"
                    )
                return
            found, self._text = self._text[:end], self._text[end:]
            yield found.encode()

    def _end(self) -> int | None:
        try:
            return self._decoder.raw_decode(self._text)[1]
        except json.JSONDecodeError:
            return None
        except RecursionError:
            raise refuse(BAD_REQUEST, "the body is nested too deeply") from None


def place(item: dict[str, Any], *names: str) -> tuple[str, int, int | None]:
    """Read a topic, a partition and (where ``names`` has it) an offset of a consumer's request."""
    topic, partition = item.get("topic"), item.get("partition")
    offset = item.get("offset")
    good = (
        isinstance(topic, str) and topic and _whole(partition) and ("offset" not in names or _whole(offset))
    )
    if not good or not isinstance(topic, str) or not isinstance(partition, int):
        wanted = ", ".join(("topic", "partition", *names))
        raise refuse(UNPROCESSABLE, f"each entry has {wanted}; this one has not: {str(item)[:120]}")
    return topic, partition, offset


def places(body: dict[str, Any], name: str, *names: str) -> list[tuple[str, int, int | None]]:
    """Read the list ``name`` of a consumer's request."""
    found = body.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise refuse(UNPROCESSABLE, f'"{name}" is missing or no list', f'send {{"{name}": [{{…}}]}}')
    return [place(one, *names) for one in found]


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
