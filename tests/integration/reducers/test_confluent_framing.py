"""Avro and framed JSON on a real Spark: every type is decoded exactly, and broken values are detected."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from pyspark.errors import PySparkException
from tests.integration.reducers.test_view_compiler import _frame

from distributary.model.build import Engine
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.reducers import engine
from distributary.reducers.confluent_framing import Known, unknown_ids
from distributary.reducers.record_codec import Packed, unpack
from distributary.reducers.view_compiler import Compiler

AVRO, FRAMED = Feed("f", "t", "avro"), Feed("f", "t", framed=True)
HEAD = b"\0\0\0\0\1"


def record(*fields: tuple[str, Any], name: str = "R", **words: Any) -> dict[str, Any]:
    found = [{"name": field, "type": type} for field, type in fields]
    return {"type": "record", "name": name, "fields": found, **words}


def written(schema: Any, value: Any, head: bytes = HEAD) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return head + out.getvalue()


def run(spark: Any, values: list[bytes | None], feed: Feed, known: Known, **settings: Any) -> list[Packed]:
    """What reaches Python of some values."""
    plan = Compiler(spark).compile(View("v", "f", **settings), feed, known)
    prepared = engine.prepare(_frame(spark, [(b"k", value) for value in values]), plan, Engine.CATCH_UP)
    found = [unpack(bytes(row.packed)) for row in prepared.collect()]
    return [one._replace(value=plan.projection.original(one.value or b"")) for one in found]


def logical(type: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type, "logicalType": name, **more}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return logical("bytes", "decimal", precision=precision, scale=scale)


INNER = record(("x", ["null", "int"]), name="Inner")
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
TYPES: dict[str, tuple[Any, Any, str]] = {
    "text": ("string", 'é"\n', '"é\\"\\n"'),
    "long": ("long", 2**63 - 1, "9223372036854775807"),
    "float": ("float", 1.1, "1.1"),
    "nan": ("double", float("nan"), '"NaN"'),
    "flag": ("boolean", True, "true"),
    "price": (decimal(38, 10), Decimal("12345678901234567890.1500000000"), "12345678901234567890.1500000000"),
    "cents": (decimal(9, 2), Decimal("1.50"), "1.50"),
    "bytes": ("bytes", b"\0\xff", '"AP8="'),
    "fixed": ({"type": "fixed", "name": "F", "size": 4}, b"abcd", '"YWJjZA=="'),
    "side": ({"type": "enum", "name": "Side", "symbols": ["HOME", "AWAY"]}, "AWAY", '"AWAY"'),
    "none": (["null", "string"], None, "null"),
    "some": (["null", "string"], "s", '"s"'),
    "inner": (INNER, {"x": None}, '{"x":null}'),
    "list": ({"type": "array", "items": ["null", "long"]}, [1, None], "[1,null]"),
    "map": ({"type": "map", "values": "long"}, {"k": 2**60}, '{"k":1152921504606846976}'),
    "millis": (logical("long", "timestamp-millis"), MOMENT, '"2026-01-02T03:04:05.678000Z"'),
    "micros": (logical("long", "timestamp-micros"), MOMENT, '"2026-01-02T03:04:05.678901Z"'),
    "local": (logical("long", "local-timestamp-micros"), MOMENT, '"2026-01-02T03:04:05.678901"'),
    "day": (logical("int", "date"), date(2026, 1, 2), '"2026-01-02"'),
    "hour": (logical("long", "time-micros"), time(1, 2, 3, 4), '"01:02:03.000004"'),
    "uuid": (logical("string", "uuid"), UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
    "both": (["int", "string"], "s", '{"member0":null,"member1":"s"}'),
}


def test_every_avro_type_is_decoded_exactly(spark: Any) -> None:
    schema = record(*((name, type) for name, (type, _, _) in TYPES.items()))
    value = written(schema, {name: value for name, (_, value, _) in TYPES.items()})
    (found,) = run(spark, [value], AVRO, Known({1: schema}))
    assert not found.unparsed
    text = ",".join(f'"{name}":{json}' for name, (_, _, json) in TYPES.items())
    assert (found.value or b"").decode() == f"{{{text}}}"


def test_where_and_select_read_fields_of_all_schema_versions(spark: Any) -> None:
    first = record(("id", "string"), ("price", decimal(20, 2)), ("at", logical("long", "timestamp-millis")))
    second = record(*((f["name"], f["type"]) for f in first["fields"]), ("more", "int"), doc="it's ${new}")
    one = {"id": "a", "price": Decimal("1.50"), "at": datetime(2020, 1, 1, tzinfo=UTC)}
    values = [
        written(first, one),
        written(first, {**one, "id": "cheap", "price": Decimal("1.00")}),
        written(second, {**one, "id": "b", "more": 5}, b"\0\0\0\1\0"),
        written(second, {**one, "at": datetime(2999, 1, 1, tzinfo=UTC), "more": 5}, b"\0\0\0\1\0"),
        None,
    ]
    known = Known({1: first, 256: second})
    found = run(
        spark, values, AVRO, known, key="id", where="price > 1.0 and at < now()", select="id, more + 1 m"
    )
    assert [(one.key, one.unparsed) for one in found] == [(b"a", False), (b"b", False), (None, False)]
    assert json.loads(found[1].value or b"")["more"] == 5


def long(number: int) -> bytes:
    """A number as Avro writes it."""
    number, out = number << 1, b""
    while number >= 0x80:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def test_broken_value_is_passed_on_unchanged_and_marked(spark: Any) -> None:
    schema = record(("t", ["null", "string"]), ("l", {"type": "array", "items": "long"}))
    good = written(schema, {"t": None, "l": []})
    text = written(schema, {"t": "some text", "l": [1, 2, 3]})
    huge = [HEAD + long(1) + long(size) + b"x" for size in (2**30, 2**31 - 10, 2**40)]
    endless = [HEAD + long(0) + long(size) + b"x" for size in (2**30, 2**31 - 10, 2**40)]
    gone = b"\0\0\0\0\7" + good[5:]
    broken = [b"", b"\0", b"\0\0\0\0", HEAD, b"{}", text[:-1], text[:-6], gone, *huge, *endless]
    known = Known({1: schema}, {7: "gone"})
    found = run(spark, [*broken, good], AVRO, known)
    assert [(one.value, one.unparsed) for one in found[:-1]] == [(value, True) for value in broken]
    assert (found[-1].value, found[-1].unparsed) == (b'{"t":null,"l":[]}', False)
    marked = run(spark, [*broken, good], AVRO, known, select="upper(t) t", where="t is null")
    assert [one.value for one in marked[:-1]] == broken


def test_avro_record_without_fields_is_an_empty_object(spark: Any) -> None:
    (found,) = run(spark, [HEAD], AVRO, Known({1: record()}))
    assert (found.value, found.unparsed) == (b"{}", False)


def test_a_schema_that_is_not_in_the_plan_stops_the_query(spark: Any) -> None:
    with pytest.raises(PySparkException) as failed:
        run(spark, [b"\0\xff\0\0\2x"], AVRO, Known({1: record(("a", "int"))}))
    assert unknown_ids(str(failed.value)) == {0xFF000002}


def test_framed_json_is_decoded_without_its_frame(spark: Any) -> None:
    values = [HEAD + b'{"n": 1.50}', b'{"n": 2}', HEAD, HEAD + b"{", None]
    found = run(spark, values, FRAMED, Known(), where="n > 1")
    assert [(one.value, one.unparsed) for one in found] == [
        (b'{"n": 1.50}', False),
        (b'{"n": 2}', True),
        (b"", True),
        (b"{", True),
        (b"", False),
    ]
