"""The formats that rows come in. Values stay JSON text as long as they can, so digits are not touched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from distributary.control.result_cache import Result
from distributary.model.field_mask import Fields
from distributary.model.position import Position

JSON = "application/json"
NDJSON = "application/x-ndjson"
CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"

_encode = msgspec.json.Encoder().encode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_many = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
text_of = msgspec.json.Decoder(str).decode
"""Reads a JSON text."""

_odd = re.compile(r'[,"\r\n]').search
_formula = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]").match
_number = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII).fullmatch

_NULL = b"null"

CHUNK = 2_000
"""Rows that are read in one go."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one reply shows of a result: some of its rows, of each row some fields.

    ``position`` is the result's as the caller is told it, None where it is told as it is.
    """

    result: Result
    fields: Fields | None
    at: int
    limit: int
    stale: bool
    incomplete: bool
    position: Position | None = None

    @property
    def next(self) -> str:
        """The token of the page after this one; empty on the last."""
        end = self.at + self.limit
        return f"{self.result.tag}-{end}" if end < self.result.count else ""

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """The rows of this page."""
        return self._projected(self.result.rows(self.at, self.limit))

    def all_rows(self) -> Iterator[tuple[str, bytes]]:
        """The rows of all pages."""
        return self._projected(self.result.rows())

    def _projected(self, rows: list[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        if self.fields is None:
            return iter(rows)
        project = self.fields.project
        return ((key, project(row)) for key, row in rows)

    def shape(self, kind: str, find: Callable[[Iterator[tuple[str, bytes]]], object]) -> object:
        """What ``find`` finds out about the rows of all pages, so that every page has the same columns."""
        name = f"{kind} {self.fields.text if self.fields else ''}"
        shapes = self.result.shapes
        if name not in shapes:
            shapes[name] = find(self.all_rows())
        return shapes[name]


class Format(NamedTuple):
    """How a page is written, and the Content-Type that says so."""

    name: str
    content_type: str
    write: Callable[[Part], bytes]


def read_row(row: bytes) -> dict[str, msgspec.Raw]:
    """Read a row one level deep; one that is no object has no fields."""
    try:
        return _fields(row)
    except msgspec.MsgspecError:
        return {}


def read_rows(rows: Sequence[bytes]) -> list[dict[str, msgspec.Raw]]:
    """Read many rows one level deep, in one go where that can be."""
    try:
        found = _many(b"[%b]" % b",".join(rows))
    except msgspec.MsgspecError:
        found = []
    return found if len(found) == len(rows) else [read_row(row) for row in rows]


def chunks(rows: Iterator[tuple[str, bytes]]) -> Iterator[list[bytes]]:
    """The rows without their keys, some at a time."""
    while some := [row for _, row in islice(rows, CHUNK)]:
        yield some


def column_of(field: str, fields: Mapping[str, object]) -> str:
    """Name the column of a field: ``key`` is the row key's, so a field of that name becomes ``key_``.

    Where there is a field ``key_`` too it becomes ``key__``, and so on: no two columns have one name.
    """
    taken = field.rstrip("_") == "key" and all(field[:end] in fields for end in range(3, len(field)))
    return f"{field}_" if taken else field


def write_json(part: Part) -> bytes:
    """Write an object with the rows as pairs of key and row."""
    result = part.result
    rows = b",".join([b"[%b,%b]" % (_encode(key), row) for key, row in part.rows()])
    return b'{"view":%b,"position":%b,"time":%d,"stale":%b%b,"count":%d,"rows":[%b]%b}' % (
        _encode(result.query.view),
        _encode(str(part.position or result.position)),
        result.time,
        b"true" if part.stale else b"false",
        b',"incomplete":true' if part.incomplete else b"",
        result.count,
        rows,
        b',"next":%b' % _encode(part.next) if part.next else b"",
    )


def write_ndjson(part: Part) -> bytes:
    """Write one object a line."""
    return b"".join([b'{"key":%b,"row":%b}\n' % (_encode(key), row) for key, row in part.rows()])


def write_csv(part: Part) -> bytes:
    """Write a header and a line for each row (RFC 4180)."""
    names = part.shape("csv", _names)
    assert isinstance(names, dict)
    lines = [",".join(["key", *(_quoted(column_of(name, names)) for name in names)])]
    shown, cells = list(part.rows()), _Cells()
    for (key, _), found in zip(shown, read_rows([row for _, row in shown]), strict=True):
        lines.append(",".join([_quoted(key), *[cells[bytes(found.get(name, _NULL))] for name in names]]))
    return "\r\n".join([*lines, ""]).encode()


def _names(rows: Iterator[tuple[str, bytes]]) -> dict[str, None]:
    names: set[str] = set()
    for some in chunks(rows):
        names.update(*read_rows(some))
    return dict.fromkeys(sorted(names))


class _Cells(dict[bytes, str]):
    """Values as a CSV has them, each written once: many come again and again."""

    def __missing__(self, value: bytes) -> str:
        """Write a value: texts as they are, null as nothing, everything else as its JSON."""
        cell = ""
        if value != _NULL:
            cell = _quoted(text_of(value) if value[:1] == b'"' else value.decode())
        self[value] = cell
        return cell


def _quoted(text: str) -> str:
    """Put a text in quotes where it needs them; the empty text has them, to differ from no value.

    A text that a spreadsheet would run as a formula gets an apostrophe before it, as spreadsheets write
    texts: whoever publishes a value does not choose what runs at whoever opens the file.
    """
    if _formula(text) and not _number(text):
        text = f"'{text}"
    if text and _odd(text) is None and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def write_arrow(part: Part) -> bytes:
    """Write an Arrow stream of one record batch."""
    # Imported late: pyarrow takes its time and memory, and most callers never ask for it.
    from distributary.control.arrow import write

    return write(part)


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        one.name: one
        for one in (
            Format(JSON, JSON, write_json),
            Format(NDJSON, NDJSON, write_ndjson),
            Format(CSV, "text/csv; charset=utf-8; header=present", write_csv),
            Format(ARROW, ARROW, write_arrow),
        )
    }
)
"""What is offered, the first being what is sent when the caller has no preference."""
