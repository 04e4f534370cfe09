from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.control.result_cache import Result
from distributary.control.row_formats import Page, column_of, write_csv, write_json, write_ndjson
from distributary.model.build import Build
from distributary.model.field_mask import parse_field_mask
from distributary.model.query import Query
from distributary.store.consistent_read import QueryRows
from distributary.store.store_types import Row


def part(
    rows: dict[str, bytes],
    *,
    at: int = 0,
    limit: int = 100,
    fields: str | None = None,
    stale: bool = False,
    incomplete: bool = False,
) -> Page:
    state = QueryRows("e1", 7, {key: Row(1, 0, 0, row) for key, row in rows.items()}, 0)
    result = Result("0" * 24, Query("odds"), Build("odds", "b"), state, 1234)
    return Page(result, parse_field_mask(fields) if fields else None, at, limit, stale, incomplete)


EXACT = b'{"big":12345678901234567890.10,"n":1.50,"t":"\\u00e9"}'


def test_json_contains_rows_unchanged() -> None:
    assert write_json(part({"b": b"{}", 'a"': EXACT})) == (
        b'{"view":"odds","position":"e1:7","time":1234,"stale":false,"count":2,"rows":[["a\\"",%b],["b",{}]]}'
        % EXACT
    )


def test_json_contains_count_and_next_page() -> None:
    rows = {key: b"{}" for key in "abc"}
    found = json.loads(write_json(part(rows, limit=2, stale=True, incomplete=True)))
    assert (found["stale"], found["incomplete"], found["count"]) == (True, True, 3)
    assert found["next"] == "0" * 24 + "-2"
    last = json.loads(write_json(part(rows, at=2, limit=2)))
    assert (last["rows"], "next" in last, last["count"]) == ([["c", {}]], False, 3)
    assert "next" not in json.loads(write_json(part(rows, at=1, limit=2)))


def test_ndjson_has_one_object_per_line() -> None:
    found = write_ndjson(part({"b": b"{}", "a": EXACT}))
    assert found == b'{"key":"a","row":%b}\n{"key":"b","row":{}}\n' % EXACT
    assert write_ndjson(part({"a": EXACT}, fields="n")) == b'{"key":"a","row":{"n":1.50}}\n'
    assert write_ndjson(part({})) == b""


def test_csv_has_a_header_and_a_line_per_row() -> None:
    rows = {
        "a": b'{"n":1.50,"t":"x, \\"y\\"\\n","o":{"b":[1,2]},"f":false}',
        "b,c": b'{"t":"","z":null,"n":12345678901234567890}',
        "d": b"{}",
    }
    assert write_csv(part(rows)).decode().split("\r\n") == [
        "key,f,n,o,t,z",
        'a,false,1.50,"{""b"":[1,2]}","x, ""y""\n",',
        '"b,c",,12345678901234567890,,"",',
        "d,,,,,",
        "",
    ]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ('"=1+1"', "'=1+1"),
        ("\"=cmd|' /C calc'!A0\"", "'=cmd|' /C calc'!A0"),
        ('"+49 30 1234"', "'+49 30 1234"),
        ('"-SUM(A1)"', "'-SUM(A1)"),
        ('"@SUM(1,2)"', '"\'@SUM(1,2)"'),
        ('"\\t=1"', "'\t=1"),
        ('"\uff1d1"', "'\uff1d1"),
        ("-1.50", "-1.50"),
        ('"-1.50"', "-1.50"),
        ('"+5e3"', "+5e3"),
        ('"a=1"', "a=1"),
        ('"-"', "'-"),
    ],
)
def test_csv_cell_is_no_formula_and_numbers_stay_numbers(value: str, cell: str) -> None:
    rows = {"a": f'{{"t":{value}}}'.encode()}
    assert write_csv(part(rows)).decode() == f"key,t\r\na,{cell}\r\n"


def test_csv_key_and_column_are_no_formulas() -> None:
    assert write_csv(part({"=k": b'{"@c":1}'})).decode() == "key,'@c\r\n'=k,1\r\n"


def test_all_pages_of_a_csv_have_the_same_columns() -> None:
    rows = {"a": b'{"x":1}', "b": b'{"y":2}'}
    assert write_csv(part(rows, limit=1)) == b"key,x,y\r\na,1,\r\n"
    assert write_csv(part(rows, at=1, limit=1)) == b"key,x,y\r\nb,,2\r\n"
    assert write_csv(part(rows, fields="y")) == b"key,y\r\na,\r\nb,2\r\n"
    assert write_csv(part({})) == b"key\r\n"


@pytest.mark.parametrize(
    ("fields", "columns"),
    [
        (["a", "key"], ["a", "key_"]),
        (["key", "key_"], ["key_", "key__"]),
        (["key", "key__"], ["key_", "key__"]),
        (["key_"], ["key_"]),
        (["keys", "ke", "_"], ["keys", "ke", "_"]),
    ],
)
def test_field_gives_way_to_the_row_key(fields: list[str], columns: list[str]) -> None:
    known = dict.fromkeys(fields)
    assert [column_of(field, known) for field in fields] == columns


@given(st.sets(st.text(alphabet="key_", max_size=8)))
def test_no_two_columns_have_one_name(fields: set[str]) -> None:
    columns = ["key", *(column_of(field, dict.fromkeys(fields)) for field in fields)]
    assert len(set(columns)) == len(columns)


TEXT = st.text(st.characters(exclude_categories=["Cs", "Nd"]), max_size=6)


@given(st.dictionaries(TEXT, st.dictionaries(TEXT, TEXT | st.booleans() | st.none(), max_size=3), max_size=4))
def test_any_csv_is_read_back(rows: dict[str, dict[str, object]]) -> None:
    text = write_csv(part({key: json.dumps(row).encode() for key, row in rows.items()})).decode()
    header, *lines = csv.reader(io.StringIO(text, newline=""))
    names = sorted({name for row in rows.values() for name in row})
    assert header == ["key", *(safe(column_of(name, dict.fromkeys(names))) for name in names)]
    shown = {True: "true", False: "false", None: ""}
    assert lines == [
        [
            safe(key),
            *(shown[v] if isinstance(v := row.get(name), bool | None) else safe(str(v)) for name in names),
        ]
        for key, row in sorted(rows.items())
    ]


def safe(text: str) -> str:
    """What a spreadsheet would run, as a text; no text of the test is a number with a sign."""
    return f"'{text}" if text[:1] in tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20") else text
