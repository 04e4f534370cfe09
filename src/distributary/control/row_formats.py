"""The formats of rows. Values stay JSON text as long as possible, so that digits are not changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from distributary.control.result_cache import Result
from distributary.model.field_mask import FieldMask
from distributary.model.position import Position

JSON = "application/json"
NDJSON = "application/x-ndjson"
CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"

_encode = msgspec.json.Encoder().encode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_many = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
text_of = msgspec.json.Decoder(str).decode
"""Parses a JSON string."""

_odd = re.compile(r'[,"\r\n]').search
_formula = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]").match
_number = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII).fullmatch

_NULL = b"null"

CHUNK = 2_000
"""Rows that are parsed at once."""


@dataclass(frozen=True, slots=True)
class Page:
    """What one response has of a result: some of its rows, and some fields of each.

    ``position`` is the result's as the caller sees it, None if that is the result's own.
    """

    result: Result
    fields: FieldMask | None
    at: int
    limit: int
    stale: bool
    incomplete: bool
    position: Position | None = None

    @property
    def next(self) -> str:
        """The token of the next page; empty on the last one."""
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
        """Return what ``find`` finds about the rows of all pages, so that all pages have the same columns."""
        name = f"{kind} {self.fields.text if self.fields else ''}"
        shapes = self.result.shapes
        if name not in shapes:
            shapes[name] = find(self.all_rows())
        return shapes[name]


class Format(NamedTuple):
    """How a page is written, and its Content-Type."""

    name: str
    content_type: str
    write: Callable[[Page], bytes]


def read_row(row: bytes) -> dict[str, msgspec.Raw]:
    """Parse a row one level deep; one that is not an object has no fields."""
    try:
        return _fields(row)
    except msgspec.MsgspecError:
        return {}


def read_rows(rows: Sequence[bytes]) -> list[dict[str, msgspec.Raw]]:
    """Parse many rows one level deep, at once if possible."""
    try:
        found = _many(b"[%b]" % b",".join(rows))
    except msgspec.MsgspecError:
        found = []
    return found if len(found) == len(rows) else [read_row(row) for row in rows]


def chunks(rows: Iterator[tuple[str, bytes]]) -> Iterator[list[bytes]]:
    """Yield the rows without their keys, in chunks."""
    while chunk := [row for _, row in islice(rows, CHUNK)]:
        yield chunk


def column_of(field: str, fields: Mapping[str, object]) -> str:
    """Return the column name of a field: ``key`` is the row key's, so a field of that name becomes ``key_``.

    If there is a field ``key_`` too, that becomes ``key__``, and so on: no two columns have the same name.
    """
    taken = field.rstrip("_") == "key" and all(field[:end] in fields for end in range(3, len(field)))
    return f"{field}_" if taken else field


def write_json(page: Page) -> bytes:
    """Write an object with the rows as pairs of key and row."""
    result = page.result
    rows = b",".join([b"[%b,%b]" % (_encode(key), row) for key, row in page.rows()])
    return b'{"view":%b,"position":%b,"time":%d,"stale":%b%b,"count":%d,"rows":[%b]%b}' % (
        _encode(result.query.view),
        _encode(str(page.position or result.position)),
        result.time,
        b"true" if page.stale else b"false",
        b',"incomplete":true' if page.incomplete else b"",
        result.count,
        rows,
        b',"next":%b' % _encode(page.next) if page.next else b"",
    )


def write_ndjson(page: Page) -> bytes:
    """Write one object per line."""
    return b"".join([b'{"key":%b,"row":%b}\n' % (_encode(key), row) for key, row in page.rows()])


def write_csv(page: Page) -> bytes:
    """Write a header, and a line for each row (RFC 4180)."""
    names = page.shape("csv", _names)
    assert isinstance(names, dict)
    lines = [",".join(["key", *(_quoted(column_of(name, names)) for name in names)])]
    rows, cells = list(page.rows()), _Cells()
    for (key, _), found in zip(rows, read_rows([row for _, row in rows]), strict=True):
        lines.append(",".join([_quoted(key), *[cells[bytes(found.get(name, _NULL))] for name in names]]))
    return "\r\n".join([*lines, ""]).encode()


def _names(rows: Iterator[tuple[str, bytes]]) -> dict[str, None]:
    names: set[str] = set()
    for chunk in chunks(rows):
        names.update(*read_rows(chunk))
    return dict.fromkeys(sorted(names))


class _Cells(dict[bytes, str]):
    """Values as CSV cells, each written once: many are repeated."""

    def __missing__(self, value: bytes) -> str:
        """Write a value: strings unchanged, null as nothing, anything else as JSON."""
        cell = ""
        if value != _NULL:
            cell = _quoted(text_of(value) if value[:1] == b'"' else value.decode())
        self[value] = cell
        return cell


def _quoted(text: str) -> str:
    """Quote a string if necessary; the empty string is quoted, to differ from no value.

    A string that a spreadsheet would run as a formula gets an apostrophe in front, which spreadsheets use for
    text: who publishes a value must not choose what runs on the machine of who opens the file.
    """
    if _formula(text) and not _number(text):
        text = f"'{text}"
    if text and _odd(text) is None and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def write_arrow(page: Page) -> bytes:
    """Write an Arrow stream of one record batch."""
    # Imported late: pyarrow costs time and memory, and most callers never request it.
    from distributary.control.arrow import write

    return write(page)


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
"""The formats that are offered; the first is the default."""
