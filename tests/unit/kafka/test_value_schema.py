"""Schemas: what fits, and why something does not."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.kafka.value_schema import SchemaMismatch, any_value, create_reader, json_reader

ORDER = {"type": "object", "required": ["price"], "properties": {"price": {"type": "number", "minimum": 0}}}
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "price", "type": ["null", "double"]}],
}


def reader(kind: str, definition: Any, **more: Any) -> Any:
    return create_reader({"Type": kind, "Definition": definition, **more}, Path())


def avro(value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, value)
    return out.getvalue()


def test_json_value_matches_or_says_where_it_does_not() -> None:
    read = reader("JSON", ORDER)
    assert bytes(read(b'{"price": 1.50}')["price"]) == b"1.50"
    for value, message in (
        (b'{"price": -1}', "$.price"),
        (b"{}", "'price' is a required property"),
        (b"[1]", "is not of type 'object'"),
        (b"{", "not valid JSON"),
        (b"\xff", "not valid JSON"),
    ):
        with pytest.raises(SchemaMismatch) as caught:
            read(value)
        assert message in str(caught.value)


def test_newer_drafts_are_supported() -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "integer"}]}
    read = reader("JSON", schema)
    assert read(b"[1]") == {}
    with pytest.raises(SchemaMismatch):
        read(b'["x"]')


def test_reference_is_never_fetched() -> None:
    with pytest.raises(ValueError, match="is not in the schema"):
        reader("JSON", {"$ref": "http://127.0.0.1:1/schema.json"})


def test_avro_value_matches_or_is_refused() -> None:
    read = reader("AVRO", AVRO)
    assert {name: json.loads(bytes(raw)) for name, raw in read(avro({"id": "a", "price": 1.5})).items()} == {
        "id": "a",
        "price": 1.5,
    }
    for value in (b"", avro({"id": "a", "price": None})[:-1], avro({"id": "a", "price": None}) + b"x", b"{}"):
        with pytest.raises(SchemaMismatch, match="not valid Avro for this schema"):
            read(value)


def test_framed_avro_begins_with_the_id_of_its_schema() -> None:
    read = reader("AVRO", AVRO, Framed=True)
    assert "id" in read(b"\x00\x00\x00\x00\x07" + avro({"id": "a", "price": 1.5}))
    for value in (b"", b"\x01\x00\x00\x00\x07" + avro({"id": "a", "price": 1.5})):
        with pytest.raises(SchemaMismatch, match="not framed"):
            read(value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"Type": "JSON"}, "either a Definition or a File"),
        ({"Type": "XML", "Definition": {}}, 'the Type JSON or AVRO, got "XML"'),
        ({"Type": "JSON", "Definition": {"type": "nothing"}}, "not a JSON Schema: $.type"),
        ({"Type": "AVRO", "Definition": {"type": "nothing"}}, "not an Avro schema"),
        ({"Type": "AVRO", "Definition": 7}, "not an Avro schema"),
        ({"Type": "JSON", "File": "none.json"}, "cannot read none.json: "),
        ({"Type": "JSON", "Definition": {}, "Strict": 1}, "unknown: Strict"),
    ],
)
def test_invalid_schema_is_refused_by_name(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        create_reader(spec, Path())


def test_schema_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text(json.dumps(ORDER))
    read = create_reader({"Type": "JSON", "File": "order.json"}, tmp_path)
    with pytest.raises(SchemaMismatch):
        read(b"{}")
    (tmp_path / "order.json").write_text("{")
    with pytest.raises(ValueError, match="not valid JSON"):
        create_reader({"Type": "JSON", "File": "order.json"}, tmp_path)


@given(st.binary(max_size=60))
def test_any_bytes_match_or_are_refused(value: bytes) -> None:
    any_value(value)
    for read in (reader("JSON", ORDER), reader("AVRO", AVRO)):
        reason = "fits"
        try:
            read(value)
        except SchemaMismatch as unfit:
            reason = str(unfit)
        assert 0 < len(reason) <= 300


def test_value_that_is_nested_too_deeply_is_refused() -> None:
    deep = b'{"a":' * 5_000 + b"1" + b"}" * 5_000
    assert not any_value(deep)
    with pytest.raises(SchemaMismatch):
        json_reader({})(deep)
