"""Schemas that the check calls compatible are: fastavro, which reads by the same rules, reads the data."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from fastavro.schema import parse_schema as parsed_by_fastavro
from fastavro.schema import to_parsing_canonical_form
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.sample_schemas import avro_schemas

from distributary.gateway.registry.avro_compatibility import canonical_form, unreadable
from distributary.gateway.registry.registered_schema import Schema
from distributary.kafka.avro import parse_schema


def data(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.one_of(*(data(branch) for branch in schema))
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "int":
            return st.integers(-(2**31), 2**31 - 1)
        case "long":
            return st.integers(-(2**62), 2**62)
        case "float" | "double":
            return st.floats(width=32, allow_nan=False, allow_infinity=False)
        case "bytes":
            return st.text().map(str.encode)  # bytes may be read as a string, which is UTF-8
        case "string":
            return st.text()
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "fixed":
            return st.binary(min_size=schema["size"], max_size=schema["size"])
        case "array":
            return st.lists(data(schema["items"]), max_size=2)
        case "map":
            return st.dictionaries(st.text(max_size=2), data(schema["values"]), max_size=2)
        case _:
            return st.fixed_dictionaries({field["name"]: data(field["type"]) for field in schema["fields"]})


@given(st.data(), avro_schemas(), avro_schemas())
def test_data_of_a_readable_writer_can_be_read(draw: st.DataObject, writer: Any, reader: Any) -> None:
    if unreadable(parse_schema(reader), parse_schema(writer)):
        return
    written = io.BytesIO()
    fastavro.schemaless_writer(written, writer, draw.draw(data(writer)))
    written.seek(0)
    fastavro.schemaless_reader(written, writer, reader)


@settings(max_examples=60)
@given(avro_schemas())
def test_every_schema_reads_its_own_data(schema: Any) -> None:
    assert not unreadable(parse_schema(schema), parse_schema(schema))


def record(*fields: Any, name: str = "n.r", **more: Any) -> Any:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def enum(*symbols: str) -> Any:
    return {"type": "enum", "name": "e", "symbols": list(symbols)}


FIELD_X = {"name": "x", "type": "int"}
FIELD_Y_WITH_DEFAULT = {"name": "y", "type": "string", "default": ""}
TREE = record({"name": "children", "type": {"type": "array", "items": "n.r"}})


@pytest.mark.parametrize(
    ("reader", "writer", "why"),
    [
        (record(FIELD_X, FIELD_Y_WITH_DEFAULT), record(FIELD_X), ""),
        (record(FIELD_X, {"name": "y", "type": "string"}), record(FIELD_X), "/y: the writer has no such"),
        (record(FIELD_X), record(FIELD_X, FIELD_Y_WITH_DEFAULT), ""),
        (record({"name": "x", "type": "long"}), record(FIELD_X), ""),
        (record(FIELD_X), record({"name": "x", "type": "long"}), "/x: long cannot be read as int"),
        (record({"name": "z", "aliases": ["x"], "type": "int"}), record(FIELD_X), ""),
        (record(FIELD_X, name="other.r"), record(FIELD_X), "n.r is called other.r"),
        (record(FIELD_X, name="n.s", aliases=["r"]), record(FIELD_X), ""),
        (record(FIELD_X, name="other.s", aliases=["r"]), record(FIELD_X), "n.r is called other.s"),
        (["null", "int"], "int", ""),
        ("int", ["null", "int"], "null cannot be read as int"),
        (["null", "string"], "int", "in no branch"),
        (enum("A"), enum("A", "B"), "B"),
        (enum("B", "A"), enum("A", "B"), ""),
        (TREE, TREE, ""),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            {"type": "long", "logicalType": "timestamp-millis"},
            "timestamp-millis cannot be read as timestamp-micros",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
            "decimal(9,3) cannot be read as decimal(9,2)",
        ),
    ],
)  # fmt: skip
def test_reader_resolves_writer_by_the_rules(reader: Any, writer: Any, why: str) -> None:
    found = unreadable(parse_schema(reader), parse_schema(writer))
    assert (why in found[0]) if why else not found, found


def test_names_in_unions_are_compared_with_their_namespace() -> None:
    union = [record(FIELD_X, name="a.r"), record({"name": "x", "type": "string"}, name="b.r")]
    assert not unreadable(
        parse_schema(union), parse_schema(record({"name": "x", "type": "string"}, name="b.r"))
    )
    assert unreadable(parse_schema(union), parse_schema(record({"name": "x", "type": "string"}, name="a.r")))


# --- the canonical form ---


def unqualified_record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


FIELD_A = {"name": "a", "type": "int"}
ENUM = {"type": "enum", "name": "E", "symbols": ["x"]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int", {"type": "int"}),
        (unqualified_record(FIELD_A, namespace="com.x"), unqualified_record(FIELD_A, name="com.x.R")),
        (unqualified_record(FIELD_A), unqualified_record({"name": "a", "type": {"type": "int"}})),
        (unqualified_record(FIELD_A), unqualified_record({**FIELD_A, "order": "ascending"})),
        (unqualified_record(FIELD_A), unqualified_record(FIELD_A, doc="")),
        (unqualified_record(FIELD_A, aliases=["b", "c"]), unqualified_record(FIELD_A, aliases=["c", "b"])),
        (
            unqualified_record(FIELD_A, namespace="n", aliases=["b"]),
            unqualified_record(FIELD_A, namespace="n", aliases=["n.b"]),
        ),
        (
            unqualified_record(FIELD_A, p=1, q={"r": 1, "s": 2}),
            unqualified_record(FIELD_A, q={"s": 2, "r": 1}, p=1),
        ),
        (
            unqualified_record({"name": "a", "type": ENUM}, {"name": "b", "type": "E"}, namespace="n"),
            unqualified_record(
                {"name": "a", "type": {**ENUM, "namespace": "n"}}, {"name": "b", "type": "n.E"}, namespace="n"
            ),
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4},
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 0},
        ),
        (["null", {"type": "string"}], ["null", "string"]),
        ({"type": "array", "items": {"type": "int"}}, {"items": "int", "type": "array"}),
    ],
)
def test_schemas_with_one_meaning_have_one_canonical_form(one: Any, other: Any) -> None:
    assert canonical_form(one) == canonical_form(other)
    assert Schema("AVRO", json.dumps(one)).identity == Schema("AVRO", json.dumps(other)).identity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int", "long"),
        (unqualified_record(FIELD_A), unqualified_record(FIELD_A, namespace="n")),
        (unqualified_record(FIELD_A), unqualified_record({**FIELD_A, "default": 0})),
        (unqualified_record({**FIELD_A, "default": 0}), unqualified_record({**FIELD_A, "default": 1})),
        (unqualified_record(FIELD_A), unqualified_record({**FIELD_A, "doc": "d"})),
        (unqualified_record(FIELD_A), unqualified_record(FIELD_A, doc="d")),
        (unqualified_record(FIELD_A), unqualified_record({**FIELD_A, "aliases": ["b"]})),
        (unqualified_record(FIELD_A), unqualified_record({**FIELD_A, "order": "descending"})),
        (unqualified_record(FIELD_A), unqualified_record({**FIELD_A, "tag": 1})),
        ("string", {"type": "string", "avro.java.string": "String"}),
        (ENUM, {**ENUM, "default": "x"}),
        (["null", "string"], ["string", "null"]),
    ],
)
def test_canonical_form_keeps_what_readers_and_tools_use(one: Any, other: Any) -> None:
    assert canonical_form(one) != canonical_form(other)


@given(avro_schemas(), st.sampled_from(("", "outer")))
def test_canonical_form_keeps_the_meaning_and_is_stable(schema: Any, space: str) -> None:
    if space and isinstance(schema, dict):
        schema = {**schema, "namespace": space}
    found = canonical_form(schema)
    assert canonical_form(found) == found
    assert to_parsing_canonical_form(parsed_by_fastavro(found)) == to_parsing_canonical_form(
        parsed_by_fastavro(schema)
    )
