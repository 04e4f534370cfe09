"""Schemas that say the same are the same; those that differ in anything that is used are not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastavro.schema import parse_schema, to_parsing_canonical_form
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gateway.registry.test_avro_compatibility import schemas

from distributary.gateway.registry.avro_canonical_form import normal
from distributary.gateway.registry.registered_schema import Schema


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


A = {"name": "a", "type": "int"}
E = {"type": "enum", "name": "E", "symbols": ["x"]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int", {"type": "int"}),
        (record(A, namespace="com.x"), record(A, name="com.x.R")),
        (record(A), record({"name": "a", "type": {"type": "int"}})),
        (record(A), record({**A, "order": "ascending"})),
        (record(A), record(A, doc="")),
        (record(A, aliases=["b", "c"]), record(A, aliases=["c", "b"])),
        (record(A, namespace="n", aliases=["b"]), record(A, namespace="n", aliases=["n.b"])),
        (record(A, p=1, q={"r": 1, "s": 2}), record(A, q={"s": 2, "r": 1}, p=1)),
        (
            record({"name": "a", "type": E}, {"name": "b", "type": "E"}, namespace="n"),
            record(
                {"name": "a", "type": {**E, "namespace": "n"}}, {"name": "b", "type": "n.E"}, namespace="n"
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
def test_other_words_are_the_same_schema(one: Any, other: Any) -> None:
    assert normal(one) == normal(other)
    assert Schema("AVRO", json.dumps(one)).identity == Schema("AVRO", json.dumps(other)).identity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int", "long"),
        (record(A), record(A, namespace="n")),
        (record(A), record({**A, "default": 0})),
        (record({**A, "default": 0}), record({**A, "default": 1})),
        (record(A), record({**A, "doc": "d"})),
        (record(A), record(A, doc="d")),
        (record(A), record({**A, "aliases": ["b"]})),
        (record(A), record({**A, "order": "descending"})),
        (record(A), record({**A, "tag": 1})),
        ("string", {"type": "string", "avro.java.string": "String"}),
        (E, {**E, "default": "x"}),
        (["null", "string"], ["string", "null"]),
    ],
)
def test_what_is_used_makes_another_schema(one: Any, other: Any) -> None:
    assert normal(one) != normal(other)


@given(schemas(), st.sampled_from(("", "outer")))
def test_normal_form_keeps_the_meaning_and_stays(schema: Any, space: str) -> None:
    if space and isinstance(schema, dict):
        schema = {**schema, "namespace": space}
    found = normal(schema)
    assert normal(found) == found
    assert to_parsing_canonical_form(parse_schema(found)) == to_parsing_canonical_form(parse_schema(schema))
