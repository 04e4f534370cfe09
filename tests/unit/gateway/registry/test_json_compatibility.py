"""Schemas that the check calls compatible are, for any value, by the validator."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.sample_schemas import JSON_VALUES, json_documents

from distributary.gateway.registry.json_compatibility import invalid, read, uncovered


@settings(max_examples=60)
@given(JSON_VALUES, json_documents(), json_documents())
def test_value_of_a_covered_writer_is_accepted_by_the_reader(value: Any, writer: Any, reader: Any) -> None:
    if not uncovered(reader, writer) and not invalid(writer, value):
        assert not invalid(reader, value)


@settings(max_examples=60)
@given(JSON_VALUES, json_documents(), st.data())
def test_value_of_a_covered_writer_is_accepted_by_a_slightly_changed_reader(
    value: Any, writer: Any, draw: st.DataObject
) -> None:
    """Two drawn apart seldom cover each other; one with a keyword changed often does."""
    if isinstance(writer, bool):
        return
    other: Any = draw.draw(json_documents())
    reader, shorter = dict(writer), draw.draw(st.booleans())
    if reader and shorter:
        reader.pop(draw.draw(st.sampled_from(sorted(reader))))
    if isinstance(other, dict) and other:
        name = draw.draw(st.sampled_from(sorted(other)))
        reader[name] = other[name]
    if not uncovered(reader, writer) and not invalid(writer, value):
        assert not invalid(reader, value)


@settings(max_examples=60)
@given(json_documents())
def test_every_schema_covers_itself(schema: Any) -> None:
    assert not uncovered(schema, schema)


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def chain(value: Any) -> dict[str, Any]:
    """A list of values, each of which leads to the next."""
    node = closed(value=value, next={"anyOf": [{"type": "null"}, {"$ref": "#/definitions/node"}]})
    return {"definitions": {"node": node}, "$ref": "#/definitions/node"}


@pytest.mark.parametrize(
    ("reader", "writer", "good"),
    [
        (closed(x=TEXT, y=TEXT), closed(x=TEXT), True),
        (closed(x=TEXT), closed(x=TEXT, y=TEXT), False),
        ({"type": "object", "properties": {"x": TEXT}}, {"type": "object"}, False),
        ({"type": "object"}, {"type": "object", "properties": {"x": TEXT}}, True),
        ({**closed(x=TEXT), "required": ["x"]}, closed(x=TEXT), False),
        (closed(x=TEXT), {**closed(x=TEXT), "required": ["x"]}, True),
        ({"type": "number"}, WHOLE, True),
        (WHOLE, {"type": "number"}, False),
        ({"type": ["string", "null"]}, TEXT, True),
        ({"enum": ["a", "b", "c"]}, {"enum": ["a", "b"]}, True),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, False),
        ({"maximum": 5, **WHOLE}, {"maximum": 3, **WHOLE}, True),
        ({"maximum": 3, **WHOLE}, {"maximum": 5, **WHOLE}, False),
        ({"oneOf": [TEXT, {"type": "null"}]}, TEXT, True),
        ({"oneOf": [TEXT, {"maxLength": 3}]}, TEXT, False),
        ({"anyOf": [TEXT, WHOLE]}, {"oneOf": [WHOLE, TEXT]}, True),
        (chain({"type": "number"}), chain(WHOLE), True),
        (chain(WHOLE), chain({"type": "number"}), False),
        (TEXT, {"$ref": "https://example.com/other.json"}, False),
        ({"title": "another", "description": "of the same", **TEXT}, TEXT, True),
        (TEXT, {"$schema": "http://json-schema.org/draft-04/schema#", **TEXT}, False),
    ],
)
def test_reader_covers_writer_by_the_rules(reader: Any, writer: Any, good: bool) -> None:
    assert (not uncovered(reader, writer)) is good


@pytest.mark.parametrize("schema", [5, "string", {"type": "strin"}, {"required": "x"}, {"properties": []}])
def test_invalid_schema_is_rejected(schema: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(schema)


def test_comparison_of_nested_alternatives_is_given_up() -> None:
    reader: Any = WHOLE
    writer: Any = TEXT
    for depth in range(8):
        reader = {"anyOf": [reader, {"allOf": [reader, {"maximum": depth}]}]}
        writer = {"anyOf": [writer, {"allOf": [writer, {"maxLength": depth}]}]}
    assert "too large" in uncovered(reader, writer)[0]
