"""A view's SQL on a real Spark: how names are typed, what is packed, and that it all runs in the JVM."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions

from distributary.config import load
from distributary.model.build import Engine
from distributary.model.feed import Feed
from distributary.model.position import checksum
from distributary.model.view import View
from distributary.reducers import engine
from distributary.reducers.record_codec import Packed, unpack
from distributary.reducers.row_json import write_object
from distributary.reducers.view_compiler import Compiler

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
JSON = Feed("f", "t")

Record = tuple[bytes | None, bytes | None]


def run(spark: Any, records: list[Record], feed: Feed = JSON, **settings: Any) -> list[Packed]:
    """What reaches Python of some records; offsets count from 0."""
    plan = Compiler(spark).compile(View("v", "f", **settings), feed)
    prepared = engine.prepare(_frame(spark, records), plan, Engine.CATCH_UP)
    found = [unpack(bytes(row.packed)) for row in prepared.collect()]
    return [
        one
        if one.value is None or one.unparsed or plan.projection.picks is None
        else one._replace(value=write_object(plan.projection.apply(one.value)))
        for one in found
    ]


def _frame(spark: Any, records: list[Record]) -> Any:
    rows = [(key, value, "t", 3, at, NOON, [("h", b"x")]) for at, (key, value) in enumerate(records)]
    return spark.createDataFrame(rows, COLUMNS).coalesce(1)


ROWS = {
    "int": b'{"price":2,"name":"x","active":true,"tags":["a","b"],"at":"2026-01-02","n":{"deep":{"er":5}}}',
    "text-number": b'{"price":"1.5","name":"it\'s","active":"true","at":"2026-01-03T10:00:00Z"}',
    "decimal": b'{"price":1.5,"name":"Xy","active":false,"lo":1,"hi":1.75,"limit":10}',
    "small": b'{"price":-0.1,"name":"","lo":-9,"hi":-8,"limit":-0.10}',
    "huge": b'{"price":12345678901234567890.1234567890,"name":"9"}',
    "wrong": b'{"price":"cheap","name":7,"active":1,"tags":"a","n":3}',
    "null": b'{"price":null,"name":null,"active":null,"n":{"deep":null}}',
    "odd": b'{"a.b":1,"with space":2,"it\'s":3,"items":[{"price":3,"id":"p"},{"price":4}],"quote\\"d":4}',
}
NUMBERS = {"int", "text-number", "decimal", "huge"}

CASES: list[tuple[str, set[str]]] = [
    ("price > 1", NUMBERS),
    ("price > 1.4999", NUMBERS),
    ("1 < price", NUMBERS),
    ("price >= 1.5 and price < 2", {"text-number", "decimal"}),
    ("price = 1.5", {"text-number", "decimal"}),
    ("price = 1.50", {"text-number", "decimal"}),
    ("price = 2", {"int"}),
    ("price <=> 2", {"int"}),
    ("price <> 2", {"text-number", "decimal", "small", "huge"}),
    ("price > 1e0", NUMBERS),
    ("price > -0.2 and price < 0", {"small"}),
    ("price > 12345678901234567890.1234567889", {"huge"}),
    ("price = 12345678901234567890.1234567890", {"huge"}),
    ("price between 1 and 2", {"int", "text-number", "decimal"}),
    ("price not between 1 and 2", {"small", "huge"}),
    ("price in (1.5, 2)", {"int", "text-number", "decimal"}),
    ("price in ('cheap')", {"wrong"}),
    ("price not in (1.5, 2)", {"small", "huge"}),
    ("name = 'x'", {"int"}),
    ("name = 'it\\'s'", {"text-number"}),
    ("name in ('x', '7')", {"int", "wrong"}),
    ("name like '%y'", {"decimal"}),
    ("name rlike '^[xX]'", {"int", "decimal"}),
    ("upper(name) = 'X'", {"int"}),
    ("length(name) > 1", {"text-number", "decimal"}),
    ("concat(name, '!') = 'x!'", {"int"}),
    ("name >= 'X' and name <= 'a'", {"decimal"}),
    ("active", {"int", "text-number", "wrong"}),
    ("active = true", {"int", "text-number", "wrong"}),
    ("not active", {"decimal"}),
    ("active is true and price > 1", {"int", "text-number"}),
    ("active or price < 0", {"int", "text-number", "wrong", "small"}),
    ("price is null", {"null", "odd"}),
    ("name is not null and active is null", {"small", "huge"}),
    ("n.deep.er = 5", {"int"}),
    ("n.deep is null and n is not null", {"wrong", "null"}),
    ("n['deep'].er > 4.5", {"int"}),
    ("items[0].price > 2.5", {"odd"}),
    ("items[1]['price'] = 4", {"odd"}),
    ("price * 2 > 3.5 and price < 10", {"int"}),
    ("-price > 0", {"small"}),
    ("price - 0.5 = 1", {"text-number", "decimal"}),
    ("abs(price) < 1", {"small"}),
    ("round(price) = 2", {"int", "text-number", "decimal"}),
    ("cast(price as double) > 1", NUMBERS),
    ("cast(price as int) = 1", {"text-number", "decimal"}),
    ("coalesce(price, 0) > 1", NUMBERS),
    ("coalesce(name, 'none') = 'none'", {"null", "odd"}),
    ("if(active, price, 0) > 1.5", {"int"}),
    ("case when price > 1 then name else 'low' end = 'Xy'", {"decimal"}),
    ("case when active then price else -1 end > 1.4", {"int", "text-number"}),
    ("greatest(price, limit) > 9.5", {"decimal", "huge"}),
    ("price < limit", {"decimal"}),
    ("price = limit", {"small"}),
    ("price between lo and hi", {"decimal"}),
    ("price > lo and lo > 0", {"decimal"}),
    ("`a.b` = 1", {"odd"}),
    ("`with space` = 2 and `it's` = 3", {"odd"}),
    ('`quote"d` = 4', {"odd"}),
    ("at > date '2026-01-02'", {"text-number"}),
    ("at >= '2026-01-02'", {"int", "text-number"}),
    ("at > timestamp '2026-01-03 09:59:59'", {"text-number"}),
    ("at < record_timestamp + interval 1 day", {"int"}),
    ("at > record_timestamp", {"int", "text-number"}),
    ("at > to_timestamp('2026-01-03')", {"text-number"}),
    ("at < now() + interval 1 hour", {"int", "text-number"}),
    ("to_date(at) = date '2026-01-03'", {"text-number"}),
    ("array_contains(tags, 'b')", {"int"}),
    ("size(tags) = 2", {"int"}),
    ("record_key = 'int'", {"int"}),
    ("name = record_key or record_offset = 0", {"int"}),
    ("record_headers[0].key = 'h' and price < 0", {"small"}),
    ("price > record_partition", {"huge"}),
]


@pytest.fixture(scope="module")
def matching(spark: Any) -> dict[str, set[str] | Exception]:
    """Which rows each where keeps, all found in one job; or why it cannot be used."""
    records: list[Record] = [(name.encode(), value) for name, value in ROWS.items()]
    compiler, out = Compiler(spark), dict[str, set[str] | Exception]()
    columns: dict[str, Any] = {}
    frame = _frame(spark, records)
    for where, _ in CASES:
        plan = compiler.compile(View("v", "f", where=where), JSON)
        source = frame.select(*map(functions.expr, plan.source))
        try:
            column = functions.expr(f"{plan.where} AS `{len(columns)}`")
            source.select(column)
            columns[where] = column
        except PySparkException as error:
            out[where] = error
    found = source.select("record_key", *columns.values()).collect()
    for at, where in enumerate(columns):
        out[where] = {row.record_key for row in found if row[at + 1]}
    return out


@pytest.mark.parametrize(("where", "expected"), CASES, ids=[where for where, _ in CASES])
def test_where_is_typed_by_how_a_name_is_used(
    matching: dict[str, set[str] | Exception], where: str, expected: set[str]
) -> None:
    assert matching[where] == expected


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("price", {"price": 1.50}),
        ("price p, n.deep", {"p": 1.50, "deep": {"er": 5}}),
        ("price * 2 AS twice, name", {"twice": 3.0, "name": "x"}),
        ("items[1].id AS id, items[0] AS item", {"id": "p", "item": {"id": 7}}),
        ("coalesce(nothing, price) AS it", {"it": 1.5}),
        ("coalesce(nothing, 0) AS it", {"it": 0.0}),
        ("coalesce(nothing, 'none') AS it", {"it": "none"}),
        ("greatest(price, items[0].id) AS it", {"it": 7.0}),
        ("case when price > 1 then name else items end AS it", {"it": "x"}),
        ("upper(name) AS it, record_offset", {"it": "X", "record_offset": 0}),
        ("record_key, record_partition", {"record_key": "k", "record_partition": 3}),
        ("name AS v, upper(name) AS value, 1 AS value_bytes", {"v": "x", "value": "X", "value_bytes": 1}),
        ("size(items) AS it, `a.b`", {"it": 2, "a.b": True}),
    ],
)
def test_select_keeps_json_as_it_was_written(spark: Any, select: str, expected: dict[str, Any]) -> None:
    value = b'{"price":1.50,"name":"x","n":{"deep":{"er":5}},"a.b":true,"nothing":null,'
    value += b'"items":[{"id":7},{"id":"p"}]}'
    [one] = run(spark, [(b"k", value)], select=select)
    assert one.value is not None
    assert json.loads(one.value) == expected
    if '"price"' in one.value.decode():
        assert b"1.50" in one.value, "a plain field keeps its digits"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (None, b"{}", None),
        ("record_key", b"{}", b"k"),
        ("id", b'{"id":"a"}', b"a"),
        ("id", b'{"id":7}', b"7"),
        ("id", b'{"id":12345678901234567890}', b"12345678901234567890"),
        ("id", b'{"id":null}', None),
        ("id", b'{"id":"\\u00fc\\n"}', "ü\n".encode()),
        ("id", b"{}", None),
        ("n.id", b'{"n":{"id":"x"}}', b"x"),
        ("concat(id, '-', record_partition)", b'{"id":"a"}', b"a-3"),
        ("id", b'{"id":"first","id":"last"}', b"last"),
    ],
)
def test_row_key_is_the_key_expression_as_a_string(
    spark: Any, key: str | None, value: bytes, expected: bytes | None
) -> None:
    record_key = b"k" if key else None
    assert [one.key for one in run(spark, [(record_key, value)], key=key)] == [expected]


TOMBSTONE: Record = (b"a", None)


@pytest.mark.parametrize("settings", [{}, {"where": "n > 0"}, {"select": "id, n * 2 AS twice"}])
def test_tombstone_has_record_key_as_row_key_when_feed_is_partitioned_by_the_key(
    spark: Any, settings: dict[str, Any]
) -> None:
    feed = Feed("f", "t", partitioned_by="id")
    records: list[Record] = [(b"a", b'{"id":"a","n":1}'), TOMBSTONE, (None, None)]
    found = run(spark, records, feed, key=" id ", **settings)
    assert [(one.key, one.value is None) for one in found] == [(b"a", False), (b"a", True), (None, True)]


@pytest.mark.parametrize(
    ("feed", "settings"),
    [
        (JSON, {"key": "id"}),
        (Feed("f", "t", partitioned_by="other"), {"key": "id"}),
        (Feed("f", "t", partitioned_by="id"), {"key": "id", "select": "upper(id) AS id"}),
        (Feed("f", "t", partitioned_by="id"), {"key": "concat(id, '-', n)"}),
    ],
)
def test_tombstone_has_no_row_key_when_record_key_is_another(
    spark: Any, feed: Feed, settings: dict[str, Any]
) -> None:
    assert [one.key for one in run(spark, [TOMBSTONE], feed, **settings)] == [None]


def test_row_key_may_use_selected_columns(spark: Any) -> None:
    value = b'{"a":{"id":"x"},"n":1}'
    for select, key in [
        ("a AS it, n", "it.id"),
        ("explode(array(a.id)) AS value", "value"),
        ("upper(a.id) AS v, record_key", "concat(lower(v), '')"),
    ]:
        assert [one.key for one in run(spark, [(b"k", value)], select=select, key=key)] == [b"x"], select
    text = Feed("f", "t", "text")
    select = "split(value, ',')[1] AS id, value"
    [one] = run(spark, [(b"k", b"1,x")], text, select=select, key="id")
    assert (one.key, json.loads(one.value or b"")) == (b"x", {"id": "x", "value": "1,x"})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"at":"2026-01-01T00:00:10Z"}', 1767225610000),
        (b'{"at":"2026-01-01 00:00:10.5"}', 1767225610500),
        (b'{"at":1767225610123}', 1767225610123),
        (b'{"at":"1767225610123"}', 1767225610123),
        (b'{"at":"soon"}', 0),
        (b"{}", 0),
    ],
)
def test_event_time_is_read_from_a_time_or_milliseconds(spark: Any, value: bytes, expected: int) -> None:
    assert [one.event_time for one in run(spark, [(b"k", value)], time="at")] == [expected]


MEGABYTE = json.dumps({"n": 1, "big": "ü" * 500_000}, ensure_ascii=False).encode()


def test_what_the_jvm_packs_is_what_python_unpacks(spark: Any) -> None:
    records: list[Record] = [
        (b"a", b'{"n":1.50}'),
        (None, b'{"n":2}'),
        (b"", b'{"n":3}'),
        (b"tombstone", None),
        (None, None),
        (b"broken", b"{oops"),
        (b"empty", b""),
        (b"bytes", b"\xff\xfe"),
        (b"k\n .", b'{\n"n": 4\n}'),
        (b"dropped", b'{"n":0}'),
        (b"big", MEGABYTE),
    ]
    millis = int(NOON.timestamp() * 1000)

    def packed(offset: int, unparsed: bool) -> Packed:
        crc = checksum(millis, records[offset][1])
        return Packed(3, offset, millis, millis, *records[offset], unparsed, crc=crc)

    found = run(spark, records, where="n > 0")
    assert found == [packed(at, at in (5, 6, 7)) for at in range(11) if at != 9]
    assert run(spark, records) == [packed(at, False) for at in range(11)], "nothing to parse for"


def test_real_time_mode_passes_on_offsets_of_some_filtered_records(spark: Any) -> None:
    records: list[Record] = [(b"k", b'{"n":%d}' % (n % 10)) for n in range(100)]
    view = View("v", "f", where="n = 7", select="n * 2 AS twice, n")
    prepared = engine.prepare(_frame(spark, records), Compiler(spark).compile(view, JSON), Engine.REAL_TIME)
    found = [unpack(bytes(row.packed)) for row in prepared.collect()]
    passed = {one.offset for one in found if not one.filtered}
    assert passed == set(range(7, 100, 10))
    dropped = [one for one in found if one.filtered]
    assert [one.offset for one in dropped] == [0, 32, 64, 96]
    assert {(one.key, one.value, one.unparsed) for one in dropped} == {(None, None, False)}
    assert dropped[1].crc == checksum(dropped[1].time, records[32][1])


def test_text_and_bytes_become_objects(spark: Any) -> None:
    records: list[Record] = [(b"a", b'he "said" \n'), (b"b", None), (b"c", b"no")]
    found = run(spark, records, Feed("f", "t", "text"), where="value like 'he%'")
    assert [one.value and json.loads(one.value) for one in found] == [{"value": 'he "said" \n'}, None]
    found = run(spark, records, Feed("f", "t", "bytes"))
    assert [one.value and json.loads(one.value) for one in found] == [
        {"value": "aGUgInNhaWQiIAo="},
        None,
        {"value": "bm8="},
    ]


def test_where_and_select_run_in_the_jvm(spark: Any, tmp_path: Path) -> None:
    """The physical plan: Filter and Project below MapInArrow, and Python nowhere else."""
    (tmp_path / "d.toml").write_text("")
    view = View("v", "f", key="id", where="price > 1", select="price * 2 AS twice")
    records = engine.prepare(_frame(spark, []), Compiler(spark).compile(view, JSON), Engine.REAL_TIME)
    records = engine.to_python(records, "packed", load(tmp_path / "d.toml", env={}), Engine.REAL_TIME)
    out = records.mapInArrow(_nothing, "nothing int")
    text: str = out._jdf.queryExecution().executedPlan().toString()
    nodes = [found[1] for line in text.splitlines() if (found := re.match(r"[\s:+*()\d-]*(\w+)", line))]
    python = [node for node in nodes if re.search("Python|Arrow|Pandas|Batch", node)]
    assert python == ["MapInArrow"], text
    below = nodes[nodes.index("MapInArrow") :]
    assert {"Filter", "Project"} <= set(below), text
    assert "1.000000000000000000" in next(line for line in text.splitlines() if "Filter" in line)
    assert "twice" in text


def _nothing(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches
