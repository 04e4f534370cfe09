from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.control.test_row_formats import part

from distributary.control.arrow import find_columns
from distributary.control.arrow import write as write_arrow


def table(rows: dict[str, bytes], **words: Any) -> Any:
    return pa.ipc.open_stream(write_arrow(part(rows, **words))).read_all()


def column(*values: bytes) -> str:
    found = find_columns(iter([(str(n), b'{"x":%b}' % value) for n, value in enumerate(values)]))
    return found["x"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([b'"a"', b"null"], "string"),
        ([b"null"], "string"),
        ([b"true", b"false"], "boolean"),
        ([b"1", b"-9223372036854775808", b"9223372036854775807"], "integer"),
        ([b"9223372036854775808"], "json"),
        ([b"9" * 5000], "json"),
        ([b"1.5", b"1e3", b"-2"], "number"),
        ([b"1.5", b"9007199254740992"], "number"),
        ([b"1.5", b"9007199254740993"], "json"),
        ([b"1e999"], "json"),
        ([b"1", b'"a"'], "json"),
        ([b"true", b"1"], "json"),
        ([b'{"a":1}'], "json"),
        ([b"[]", b'"a"'], "json"),
    ],
)
def test_column_type_is_that_of_its_values(values: list[bytes], kind: str) -> None:
    assert column(*values) == kind
    assert column(*reversed(values)) == kind
    assert column(b"null", *values) == kind


def test_arrow_stream_has_typed_columns() -> None:
    found = table(
        {
            "b": b'{"i":2,"n":1,"t":"\\u00e9","m":"x","o":{"p":1.50}}',
            "a": b'{"i":9223372036854775807,"n":1.5,"b":true,"m":12345678901234567890,"key":"k"}',
        }
    )
    assert found.to_pylist() == [
        {
            "key": "a",
            "b": True,
            "i": 9223372036854775807,
            "key_": "k",
            "m": "12345678901234567890",
            "n": 1.5,
            "o": None,
            "t": None,
        },
        {
            "key": "b",
            "b": None,
            "i": 2,
            "key_": None,
            "m": '"x"',
            "n": 1.0,
            "o": '{"p":1.50}',
            "t": "é",
        },
    ]
    assert found.schema.field("key").type == pa.string()
    assert found.schema.field("i").type == pa.int64()
    assert found.schema.field("n").type == pa.float64()
    marked = [name for name in found.column_names if found.schema.field(name).metadata]
    assert marked == ["m", "o"]


def test_all_pages_have_one_schema() -> None:
    rows = {"a": b'{"x":1}', "b": b'{"x":"t","y":2}'}
    first, second = table(rows, limit=1), table(rows, at=1, limit=1)
    assert first.schema == second.schema
    assert (first.num_rows, first.to_pylist()[0]["x"], second.to_pylist()[0]["x"]) == (1, "1", '"t"')


def test_arrow_stream_without_rows_has_a_schema() -> None:
    assert table({}).column_names == ["key"]
    assert table({"a": b'{"x":1,"y":2}'}, fields="y").to_pylist() == [{"key": "a", "y": 2}]
