"""What a schema may cost is seen without a value: references that multiply, patterns, recursion."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.kafka import avro
from distributary.kafka.schema_cost import (
    MAX_DEPTH,
    MAX_REFERENCES,
    avro_cost,
    check_shape,
    check_size,
    is_cheap,
    json_cost,
)


def laughs(levels: int) -> dict[str, Any]:
    """Definitions that each refer twice to the next."""
    chain: dict[str, Any] = {
        f"l{at}": {"allOf": [{"$ref": f"#/definitions/l{at + 1}"}] * 2} for at in range(levels)
    }
    return {"$ref": "#/definitions/l0", "definitions": {**chain, f"l{levels}": {"type": "integer"}}}


def nested_records(levels: int) -> dict[str, Any]:
    """Records that each have two fields of the next."""
    node: dict[str, Any] = {"type": "record", "name": f"L{levels}", "fields": []}
    for at in reversed(range(levels)):
        fields = [{"name": "a", "type": node}, {"name": "b", "type": f"L{at + 1}"}]
        node = {"type": "record", "name": f"L{at}", "fields": fields}
    return node


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}, "required": ["a"]},
        {"properties": {"pattern": {"type": "string"}, "format": {"enum": ["regex"]}}},
        {"$id": "urn:x", "$ref": "#/definitions/a", "definitions": {"a": {"items": {"type": "null"}}}},
        {"oneOf": [{"const": 1}, {"if": {}, "then": {}}], "format": "date"},
        laughs(3),
    ],
)
def test_json_schema_without_multiplication_has_a_cost(schema: Any) -> None:
    assert 0 < (json_cost(schema) or 0) < 100


@pytest.mark.parametrize(
    "schema",
    [
        laughs(30),
        {"pattern": "^(a+)+$"},
        {"properties": {"a": {"items": {"pattern": "a"}}}},
        {"patternProperties": {"^a": {}}},
        {"format": "regex"},
        {"uniqueItems": True},
        {"properties": {"child": {"$ref": "#"}}},
        {"$ref": "#/definitions/a", "definitions": {"a": {"not": {"$ref": "#/definitions/a"}}}},
        {"$ref": "http://json-schema.org/draft-07/schema#"},
        {"$ref": "#/definitions/none"},
        {"$ref": "#anchor"},
        {"allOf": [{"$id": "b", "$ref": "#/c"}], "c": {}},
        {"unevaluatedProperties": False},
        {"enum": list(range(20_000))},
    ],
)
def test_json_schema_that_may_take_long_has_no_cost(schema: Any) -> None:
    assert json_cost(schema) is None


def test_cost_counts_paths_and_not_parts() -> None:
    costs = [json_cost(laughs(levels)) or 0 for levels in range(6)]
    grown = [after - before for before, after in itertools.pairwise(costs)]
    assert all(after >= 2 * before * 0.9 for before, after in itertools.pairwise(grown))


def test_cost_of_the_worst_schema_is_counted_quickly() -> None:
    begun = time.process_time()
    assert json_cost(laughs(2_000)) is None
    assert json_cost({"allOf": [laughs(1)] * 50_000}) is None
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "schema",
    [
        "string",
        ["null", "int"],
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]},
        {"type": "map", "values": "null"},
        {"type": "bytes", "logicalType": "decimal", "precision": 4},
        nested_records(3),
    ],
)
def test_avro_schema_without_multiplication_has_a_cost(schema: Any) -> None:
    assert 0 < (avro_cost(avro.parse_schema(schema)) or 0) < 100


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]},
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "record", "name": "E", "fields": []}},
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
        nested_records(20),
    ],
)
def test_avro_schema_that_may_take_long_has_no_cost(schema: Any) -> None:
    assert avro_cost(avro.parse_schema(schema)) is None


def test_large_value_is_not_cheap() -> None:
    assert is_cheap(10, b"x" * 1_000)
    assert not is_cheap(10, b"x" * 100_000)
    assert not is_cheap(None, b"")


def test_schema_that_is_too_large_is_refused() -> None:
    check_size("x" * 1000)
    with pytest.raises(ValueError, match="larger than 1024 KiB"):
        check_size("ä" * 600_000)
    check_shape(laughs(30))
    with pytest.raises(ValueError, match=f"more than {MAX_REFERENCES} references"):
        check_shape({"allOf": [{"$ref": "#"}] * (MAX_REFERENCES + 1)})
    deep: Any = {}
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        check_shape(deep)


DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.integers() | st.sampled_from(("#", "#/a", "#/a/b", "x")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("$ref", "a", "b", "allOf", "properties", "$id")), inner)
    ),
    max_leaves=20,
)


@settings(max_examples=200)
@given(DOCUMENTS)
def test_any_document_is_counted(document: Any) -> None:
    size = sum(character in "[{,:" for character in json.dumps(document))
    cost = json_cost(document)
    assert cost is None or cost >= 1
    if cost is not None and "#" not in json.dumps(document):
        assert cost <= size + 2
