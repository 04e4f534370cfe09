"""A change of one row, and the log entry that carries a group of them.

Rows and values are JSON that is never decoded on the way from the reducer to the subscriber, so numbers keep
their exact digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec


class Change(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A change of one row, and which queries (by number) it concerns.

    ``row`` is the whole new row as JSON if any query is in ``adds``; else it may be empty. ``fields`` is the
    inside of a JSON object, ``"changed":{…}`` with ``,"gone":[…]`` if fields were removed; empty if the row
    is new or removed. A query gets the row if it is in ``adds``, the fields if in ``changes``, and only the
    key if in ``removes``.
    """

    key: str
    time: int
    fields: bytes
    row: bytes
    adds: list[int]
    changes: list[int]
    removes: list[int]


class Entry(NamedTuple):
    """One group of changes in a view's log: change i has the number ``last - len + 1 + i``."""

    last: int
    changes: list[Change]

    @property
    def first(self) -> int:
        """The number of the first change."""
        return self.last - len(self.changes) + 1

    def numbered(self) -> Iterator[tuple[int, Change]]:
        """Yield each change with its number."""
        return enumerate(self.changes, self.first)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Change])
_key = msgspec.json.Encoder().encode


def encode_changes(changes: Iterable[Change]) -> bytes:
    """Encode a group for the log."""
    return _encoder.encode(list(changes))


def decode_changes(blob: bytes) -> list[Change]:
    """Decode what ``encode_changes`` returned."""
    return _decoder.decode(blob)


def add_data(change: Change) -> bytes:
    """Return the JSON that a subscriber gets if a row enters its query."""
    return b'{"op":"add","key":%b,"time":%d,"row":%b}' % (_key(change.key), change.time, change.row)


def change_data(change: Change) -> bytes:
    """Return the JSON that a subscriber gets if a row of its query changes."""
    return b'{"op":"change","key":%b,"time":%d,%b}' % (_key(change.key), change.time, change.fields)


def remove_data(change: Change) -> bytes:
    """Return the JSON that a subscriber gets if a row leaves its query."""
    return b'{"op":"remove","key":%b,"time":%d}' % (_key(change.key), change.time)


def data_for(change: Change, query: int) -> bytes | None:
    """Return what the subscribers of a query get of a change; None if it does not concern them."""
    if query in change.changes:
        return change_data(change)
    if query in change.adds:
        return add_data(change)
    if query in change.removes:
        return remove_data(change)
    return None
