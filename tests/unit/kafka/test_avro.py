"""Avro schemas that are refused; values are in test_schema.py, what may follow what with the registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from distributary.kafka import avro
from distributary.kafka.avro import parse_schema

X = {"name": "x", "type": "int"}


@pytest.mark.parametrize(
    "schema",
    [
        5,
        None,
        {},
        "nope",
        {"type": "array"},
        {"type": "record", "name": "r"},
        {"type": "record", "name": "1", "fields": []},
        {"type": "record", "name": "r", "fields": [X, X]},
        {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int", "default": "a"}]},
        {"type": "enum", "name": "e", "symbols": "abc"},
        {"type": "fixed", "name": "f", "size": -1},
        ["int", "int"],
        [["int"]],
    ],
)
def test_invalid_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_schema(schema)


def test_schema_that_is_nested_too_deeply_is_refused() -> None:
    schema: Any = "int"
    for _ in range(20_000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(ValueError, match="deep"):
        parse_schema(schema)


EMPTY = {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "null"},
        EMPTY,
        {"type": "fixed", "name": "F", "size": 0},
        {"type": "record", "name": "R", "fields": []},
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        lambda schema: schema,
        lambda schema: {"type": "map", "values": schema},
        lambda schema: ["null", schema],
    ],
)
def test_array_of_items_that_take_no_bytes_is_refused(items: Any, around: Callable[[Any], Any]) -> None:
    """Five bytes could be thirty million of them."""
    schema = avro.parse_schema(around({"type": "array", "items": items})).schema
    for data in (b"\x80\x80\x80\x20\x00", b"\x02\x80\x80\x80\x20\x00"):
        with pytest.raises(ValueError, match="take no bytes"):
            avro.decode(data, schema)


def test_array_of_a_type_that_is_defined_before_is_resolved() -> None:
    fields = [{"name": "one", "type": EMPTY}, {"name": "many", "type": {"type": "array", "items": "E"}}]
    with pytest.raises(ValueError, match="take no bytes"):
        avro.decode(b"\x00", avro.parse_schema({"type": "record", "name": "R", "fields": fields}).schema)


def test_array_of_recursive_records_is_decoded() -> None:
    tree = {
        "type": "record",
        "name": "T",
        "fields": [{"name": "below", "type": {"type": "array", "items": "T"}}],
    }
    assert avro.decode(b"\x02\x00\x00", avro.parse_schema(tree).schema) == {"below": [{"below": []}]}
