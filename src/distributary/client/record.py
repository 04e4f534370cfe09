"""What goes through a client: records that are sent, where they end up, and records that are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from confluent_kafka import Message

from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_producer import Delivered

Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
"""In a sequence a name may occur several times."""


class Record(NamedTuple):
    """A record that was read. ``timestamp`` is in milliseconds since 1970, -1 for none."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = -1

    @property
    def text(self) -> str:
        """The value decoded as UTF-8, "" for none. Raises UnicodeDecodeError."""
        return (self.value or b"").decode()

    def header(self, name: str) -> bytes | None:
        """The value of the last header of that name."""
        return next((value for one, value in reversed(self.headers) if one == name), None)


class Sent(NamedTuple):
    """Where an acknowledged record is. ``reason`` is not "" if it is a dead letter, and says why."""

    topic: str
    partition: int
    offset: int
    reason: str = ""


def outgoing_record(
    topic: str,
    value: bytes | None,
    key: bytes | str | None = None,
    partition: int | None = None,
    headers: Headers | None = None,
    timestamp: int | datetime | None = None,
) -> OutgoingRecord:
    """Check and convert what a caller sends. Raises TypeError and ValueError as Python's own functions do."""
    if value is not None and not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"a value must be bytes, not {type(value).__name__}; use send_string for strings")
    pairs: Iterable[tuple[str, Any]] = headers.items() if isinstance(headers, Mapping) else headers or ()
    at = timestamp
    if isinstance(at, datetime):
        at = round(at.timestamp() * 1000)
    if partition is not None and partition < 0:
        raise ValueError(f"a partition must be 0 or more, not {partition}")
    return OutgoingRecord(
        topic=topic,
        value=None if value is None else bytes(value),
        key=key.encode() if isinstance(key, str) else key,
        partition=-1 if partition is None else partition,
        headers=tuple((name, content) for name, content in pairs),
        timestamp=at or 0,
    )


def sent(delivered: Delivered) -> Sent:
    """Where a delivered record is."""
    return Sent(delivered.topic, delivered.partition, delivered.offset, delivered.reason)


def record_of(message: Message) -> Record:
    """Convert a message of librdkafka."""
    headers: Any = message.headers() or ()
    return Record(
        topic=str(message.topic()),
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=tuple((name, _bytes(value)) for name, value in headers),
        timestamp=message.timestamp()[1],
    )


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
