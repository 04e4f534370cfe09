"""Avro schemas that are refused; values are in test_schema.py, what may follow what with the registry."""

from __future__ import annotations

from typing import Any

import pytest

from distributary.kafka.avro import read

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
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(schema)


def test_depth_has_an_end() -> None:
    schema: Any = "int"
    for _ in range(20_000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(ValueError, match="deep"):
        read(schema)
