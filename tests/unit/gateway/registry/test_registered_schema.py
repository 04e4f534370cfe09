"""Parsing of schemas, and the compatibility levels with what each allows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.inline_registry import incompatibilities

from distributary.errors import GatewayError
from distributary.gateway.registry.registered_schema import COMPATIBILITY_LEVELS, Schema, parse_schema


def avro(*fields: str) -> Schema:
    """A record; a field with ``?`` has a default."""
    made = [
        {"name": name.rstrip("?"), "type": "int", **({"default": 0} if name.endswith("?") else {})}
        for name in fields
    ]
    return Schema("AVRO", json.dumps({"type": "record", "name": "r", "fields": made}))


V1, V2, V3 = avro("a"), avro("a", "b?"), avro("a", "b")


@pytest.mark.parametrize(
    ("new", "older", "allowing"),
    [
        (V2, [V1], set(COMPATIBILITY_LEVELS)),
        (V3, [V1], {"NONE", "FORWARD", "FORWARD_TRANSITIVE"}),
        (V1, [V3], {"NONE", "BACKWARD", "BACKWARD_TRANSITIVE"}),
        (V3, [V1, V2], {"NONE", "BACKWARD", "FORWARD", "FULL", "FORWARD_TRANSITIVE"}),
        (avro("c"), [V1], {"NONE"}),
        (Schema("JSON", '{"type": "object"}'), [V1], {"NONE"}),
    ],
)
def test_level_allows_compatible_schema(new: Schema, older: list[Schema], allowing: set[str]) -> None:
    assert {level for level in COMPATIBILITY_LEVELS if not incompatibilities(level, new, older)} == allowing


def test_first_version_is_compatible_at_every_level() -> None:
    assert not any(incompatibilities(level, V1, []) for level in COMPATIBILITY_LEVELS)


@pytest.mark.parametrize(
    ("text", "kind", "references", "why"),
    [
        (None, None, None, "missing"),
        ("{", "AVRO", None, "not JSON"),
        ('"nope"', None, None, "unknown type nope"),
        ('{"type": 5}', "JSON", None, "5"),
        ('"int"', "PROTOBUF", None, "AVRO or JSON"),
        ('"int"', "AVRO", [{"name": "x", "subject": "y", "version": 1}], "refer"),
        ("[" * 100_000, "JSON", None, "deep"),
    ],
)
def test_invalid_schema_is_rejected_with_the_reason(text: Any, kind: Any, references: Any, why: str) -> None:
    with pytest.raises(GatewayError, match=why) as caught:
        parse_schema(text, kind, references)
    assert caught.value.error_code == 42201


def test_json_schema_with_external_reference_is_rejected() -> None:
    """It is neither registered nor compared, so nothing is fetched from there."""
    for reference in ("http://127.0.0.1:1/meta-data#/x", "file:///dev/null", "other.json"):
        with pytest.raises(GatewayError, match="is not in the schema") as caught:
            parse_schema(json.dumps({"properties": {"a": {"allOf": [{"$ref": reference}]}}}), "JSON")
        assert str(caught.value.error_code).startswith("422")


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_schema_with_lone_surrogate_is_rejected(kind: str) -> None:
    with pytest.raises(GatewayError, match="invalid"):
        parse_schema('{"type": "string", "doc": "\ud800"}', kind)
