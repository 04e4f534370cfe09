"""Rows as an Apache Arrow stream: the key, then a column for each field, typed by the values there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from distributary.control.formats import Part, column_of, read_row, text_of

TEXT, BOOLEAN, SHORT, LONG, FRACTION, OTHER = 1, 2, 4, 8, 16, 32
"""Kinds of values; SHORT is an integer that a double holds exactly, LONG one that only 64 bits hold."""

_TYPES = {
    "text": pa.string(),
    "json": pa.string(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
}
_INT64 = range(-(1 << 63), 1 << 63)
_DOUBLE = 1 << 53
_SHORT = 16
"""Integers of fewer digits are below 2^53."""
_QUOTE = ord('"')


def write(part: Part) -> bytes:
    """Write a page as a stream of one record batch."""
    columns = part.shape("arrow", find_columns)
    assert isinstance(columns, dict)
    rows = [(key, read_row(row)) for key, row in part.rows()]
    arrays = [pa.array([key for key, _ in rows], pa.string())]
    schema = [pa.field("key", pa.string(), nullable=False)]
    for name, kind in columns.items():
        convert = _CONVERT[kind]
        values = [_value(row.get(name), convert) for _, row in rows]
        arrays.append(pa.array(values, _TYPES[kind]))
        metadata = {"distributary": "json"} if kind == "json" else None
        schema.append(pa.field(column_of(name, columns), _TYPES[kind], metadata=metadata))
    sink = pa.BufferOutputStream()
    whole = pa.schema(schema)
    with pa.ipc.new_stream(sink, whole) as stream:
        stream.write_batch(pa.record_batch(arrays, schema=whole))
    written: bytes = sink.getvalue().to_pybytes()
    return written


def find_columns(rows: Iterator[tuple[str, bytes]]) -> dict[str, str]:
    """Say of each field, in order of name, what its column holds: a kind of value, or JSON for a mixture."""
    seen: dict[str, int] = {}
    for _, row in rows:
        for name, raw in read_row(row).items():
            value = bytes(raw)
            # Texts and short numbers are most of what there is, so they are told apart without a call.
            if value[0] == _QUOTE:
                kind = TEXT
            elif len(value) < _SHORT and value.isdigit():
                kind = SHORT
            else:
                kind = _kind(value)
            known = seen.get(name)
            if known is None or known | kind != known:
                seen[name] = (known or 0) | kind
    return {name: _column(kinds) for name, kinds in sorted(seen.items())}


def _column(kinds: int) -> str:
    if kinds in (0, TEXT):  # none but nulls is a column of texts, too
        return "text"
    if kinds == BOOLEAN:
        return "boolean"
    if not kinds & ~(SHORT | LONG):
        return "integer"
    if kinds in (FRACTION, FRACTION | SHORT):
        return "number"
    return "json"


def _kind(value: bytes) -> int:
    head = value[:1]
    if head == b'"':
        return TEXT
    if head == b"n":
        return 0
    if head in (b"t", b"f"):
        return BOOLEAN
    if head in (b"{", b"["):
        return OTHER
    if not (b"." in value or b"e" in value or b"E" in value):
        if len(value) < _SHORT:
            return SHORT
        number = int(value) if len(value) < 24 else 1 << 64
        return SHORT if abs(number) <= _DOUBLE else LONG if number in _INT64 else OTHER
    return FRACTION if abs(float(value)) != float("inf") else OTHER


def _value(raw: msgspec.Raw | None, convert: Callable[[bytes], Any]) -> Any:
    if raw is None:
        return None
    value = bytes(raw)
    return None if value == b"null" else convert(value)


_CONVERT: dict[str, Callable[[bytes], Any]] = {
    "text": text_of,
    "json": bytes.decode,
    "boolean": lambda value: value == b"true",
    "integer": int,
    "number": float,
}
