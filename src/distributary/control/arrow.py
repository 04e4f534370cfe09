"""Rows as an Apache Arrow stream: the key, then a column for each field, typed by its values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa

from distributary.control.row_formats import Page, chunks, column_of, read_row, read_rows

STRING, BOOLEAN, SHORT, LONG, FRACTION, OTHER = 1, 2, 4, 8, 16, 32
"""Kinds of values; SHORT is an integer that a double represents exactly, LONG one that needs 64 bits."""

_TYPES = {
    "string": pa.string(),
    "json": pa.string(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
}
_KINDS = {type(None): 0, str: STRING, bool: BOOLEAN, float: FRACTION, dict: OTHER, list: OTHER}
_INT64 = range(-(1 << 63), 1 << 63)
_DOUBLE = 1 << 53

_value = msgspec.json.Decoder().decode
_row = msgspec.json.Decoder(dict[str, Any]).decode
_many = msgspec.json.Decoder(list[dict[str, Any]]).decode


def write(page: Page) -> bytes:
    """Write a page as a stream of one record batch."""
    columns = page.shape("arrow", find_columns)
    assert isinstance(columns, dict)
    rows = list(page.rows())
    jsons = [row for _, row in rows]
    values = _read(jsons)
    texts = read_rows(jsons) if "json" in columns.values() else []
    arrays = [pa.array([key for key, _ in rows], pa.string())]
    schema = [pa.field("key", pa.string(), nullable=False)]
    for name, kind in columns.items():
        if kind == "json":
            column = [_text(row.get(name)) for row in texts]
        else:
            column = [row.get(name) for row in values]
        arrays.append(pa.array(column, _TYPES[kind]))
        metadata = {"distributary": "json"} if kind == "json" else None
        schema.append(pa.field(column_of(name, columns), _TYPES[kind], metadata=metadata))
    sink = pa.BufferOutputStream()
    whole = pa.schema(schema)
    with pa.ipc.new_stream(sink, whole) as stream:
        stream.write_batch(pa.record_batch(arrays, schema=whole))
    written: bytes = sink.getvalue().to_pybytes()
    return written


def find_columns(rows: Iterator[tuple[str, bytes]]) -> dict[str, str]:
    """Return what the column of each field contains, by name: a kind of value, or JSON for a mixture."""
    kinds_of: dict[str, int] = {}
    for chunk in chunks(rows):
        found = _read(chunk)
        names = sorted(set[str]().union(*found))
        for name, values in zip(names, _columns(found, names), strict=True):
            kinds_of[name] = kinds_of.get(name, 0) | _kinds(values)
    return {name: _column(kinds) for name, kinds in sorted(kinds_of.items())}


def _column(kinds: int) -> str:
    if kinds in (0, STRING):  # a column of nulls only is a column of strings
        return "string"
    if kinds == BOOLEAN:
        return "boolean"
    if not kinds & ~(SHORT | LONG):
        return "integer"
    if kinds in (FRACTION, FRACTION | SHORT):
        return "number"
    return "json"


def _columns(rows: list[dict[str, Any]], names: list[str]) -> list[Sequence[Any]]:
    """Return the values of each field; rows that all have the same fields are transposed at once."""
    if len(names) > 1:
        with contextlib.suppress(KeyError):
            return list(zip(*map(itemgetter(*names), rows), strict=True))
    return [[row.get(name) for row in rows] for name in names]


def _kinds(values: Sequence[Any]) -> int:
    """Return all kinds of the values."""
    found = 0
    for kind in set(map(type, values)):
        if kind is int:
            integers = [value for value in values if type(value) is int]
            low, high = min(integers), max(integers)
            if low not in _INT64 or high not in _INT64:
                found |= OTHER
            else:
                found |= SHORT if low >= -_DOUBLE and high <= _DOUBLE else LONG
        else:
            found |= _KINDS[kind]
    return found


def _read(rows: Sequence[bytes]) -> list[dict[str, Any]]:
    """Parse rows into values, at once if possible."""
    try:
        found = _many(b"[%b]" % b",".join(rows))
    except msgspec.MsgspecError:
        found = []
    return found if len(found) == len(rows) else [_read_one(row) for row in rows]


def _read_one(row: bytes) -> dict[str, Any]:
    """Parse a row; a number that exceeds a double becomes a list, which only a JSON column can contain."""
    try:
        return _row(row)
    except msgspec.MsgspecError:
        pass
    values: dict[str, Any] = {}
    for name, raw in read_row(row).items():
        try:
            values[name] = _value(raw)
        except msgspec.MsgspecError:
            values[name] = []
    return values


def _text(raw: msgspec.Raw | None) -> str | None:
    text = None if raw is None else bytes(raw).decode()
    return None if text == "null" else text
