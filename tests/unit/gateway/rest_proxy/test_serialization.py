from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gateway.error_code import error_code

from distributary.errors import GatewayError
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.rest_proxy.serialization import RegisteredSchema, decode, encode, schema_id

ROW = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "b", "type": "bytes"},
        {"name": "u", "type": ["null", "string", "int"], "default": None},
        {"name": "l", "type": {"type": "array", "items": "double"}},
    ],
}
AVRO = RegisteredSchema(7, Schema("AVRO", json.dumps(ROW)))
JSON = RegisteredSchema(8, Schema("JSON", json.dumps({"type": "object", "required": ["a"]})))

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
ROWS = st.fixed_dictionaries(
    {
        "n": st.integers(-(2**63), 2**63 - 1),
        "b": st.text(st.characters(max_codepoint=255)),
        "u": st.none()
        | st.text().map(lambda text: {"string": text})
        | st.integers(-(2**31), 2**31 - 1).map(lambda number: {"int": number}),
        "l": st.lists(st.floats(allow_nan=False, allow_infinity=False)),
    }
)


def find(number: int) -> Schema | None:
    return {7: AVRO.schema, 8: JSON.schema}.get(number)


def round_trip(format: str, raw: bytes, registered: RegisteredSchema | None = None) -> Any:
    data = encode(format, msgspec.Raw(raw), registered, "it")
    return json.loads(bytes(decode(format, data, find, "it")))


@given(st.binary())
def test_binary_is_converted_from_and_to_base64(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    assert encode("binary", json.dumps(text).encode(), None, "it") == data
    assert round_trip("binary", json.dumps(text).encode()) == text


@settings(max_examples=50)
@given(VALUES)
def test_json_is_kept_byte_by_byte(value: Any) -> None:
    raw = json.dumps(value).encode()
    assert encode("json", raw, None, "it") == (None if value is None else raw)
    assert round_trip("json", raw) == value


@given(ROWS)
def test_avro_row_is_unchanged_by_a_round_trip(row: Any) -> None:
    raw = json.dumps(row, indent=1).encode()
    data = encode("avro", raw, AVRO, "it")
    assert data is not None
    assert schema_id(data) == 7
    assert round_trip("avro", raw, AVRO) == row


@settings(max_examples=50)
@given(VALUES)
def test_value_that_does_not_match_the_json_schema_is_rejected(value: Any) -> None:
    raw = json.dumps(value).encode()
    fits = value is None or (isinstance(value, dict) and "a" in value)
    assert error_code(encode, "jsonschema", raw, JSON, "it") == (None if fits else 42203)
    if fits:
        assert round_trip("jsonschema", raw, JSON) == value


@settings(max_examples=50)
@given(st.sampled_from(("binary", "json", "avro", "jsonschema")), st.binary())
def test_any_bytes_are_decoded_or_rejected(format: str, data: bytes) -> None:
    for one in (data, b"\0\0\0\0\7" + data, b"\0\0\0\0\x08" + data, None):
        if error_code(decode, format, one, find, "it") != 42203:
            json.loads(bytes(decode(format, one, find, "it")))


@settings(max_examples=50)
@given(st.sampled_from(("binary", "avro", "jsonschema")), VALUES)
def test_any_value_is_encoded_or_rejected(format: str, value: Any) -> None:
    raw, registered = json.dumps(value).encode(), AVRO if format == "avro" else JSON
    assert error_code(encode, format, raw, registered, "it") in (None, 400, 42203)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0\0\0\0\7\2\2x\0\0more", "left over"),
        (b"\0\0\0\0\x09x", "id of a registered schema"),
        (b"plain", "id of a registered schema"),
        (b"\0\0\0\0\x08{}", "of the type JSON"),
    ],
)
def test_undecodable_data_is_rejected_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(GatewayError, match=why):
        decode("avro", data, find, "it")
