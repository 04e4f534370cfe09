"""The modes of compatibility, each with what it lets through."""

from __future__ import annotations

import json
from typing import Any

import pytest

from distributary.errors import GatewayError
from distributary.gateway.registry.registered_schema import MODES, Schema, incompatible, parse


def avro(*fields: str) -> Schema:
    """A record; a field with ``?`` has a default."""
    made = [
        {"name": name.rstrip("?"), "type": "int", **({"default": 0} if name.endswith("?") else {})}
        for name in fields
    ]
    return Schema("AVRO", json.dumps({"type": "record", "name": "r", "fields": made}))


V1, V2, V3 = avro("a"), avro("a", "b?"), avro("a", "b")


@pytest.mark.parametrize(
    ("new", "older", "good"),
    [
        (V2, [V1], set(MODES)),
        (V3, [V1], {"NONE", "FORWARD", "FORWARD_TRANSITIVE"}),
        (V1, [V3], {"NONE", "BACKWARD", "BACKWARD_TRANSITIVE"}),
        (V3, [V1, V2], {"NONE", "BACKWARD", "FORWARD", "FULL", "FORWARD_TRANSITIVE"}),
        (avro("c"), [V1], {"NONE"}),
        (Schema("JSON", '{"type": "object"}'), [V1], {"NONE"}),
    ],
)
def test_what_each_mode_lets_through(new: Schema, older: list[Schema], good: set[str]) -> None:
    assert {mode for mode in MODES if not incompatible(mode, new, older)} == good


def test_the_first_version_gets_along_with_nothing() -> None:
    assert not any(incompatible(mode, V1, []) for mode in MODES)


@pytest.mark.parametrize(
    ("text", "kind", "references", "why"),
    [
        (None, None, None, "missing"),
        ("{", "AVRO", None, "not JSON"),
        ('"nope"', None, None, "no type nope"),
        ('{"type": 5}', "JSON", None, "5"),
        ('"int"', "PROTOBUF", None, "AVRO or JSON"),
        ('"int"', "AVRO", [{"name": "x", "subject": "y", "version": 1}], "refer"),
        ("[" * 100_000, "JSON", None, "deep"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(
    text: Any, kind: Any, references: Any, why: str
) -> None:
    with pytest.raises(GatewayError, match=why) as caught:
        parse(text, kind, references)
    assert caught.value.number == 42201


def test_json_schema_that_refers_to_another_place_is_refused() -> None:
    """It is neither registered nor compared, so that nothing is looked up there."""
    for place in ("http://127.0.0.1:1/meta-data#/x", "file:///dev/null", "other.json"):
        with pytest.raises(GatewayError, match="leads nowhere") as caught:
            parse(json.dumps({"properties": {"a": {"allOf": [{"$ref": place}]}}}), "JSON")
        assert str(caught.value.number).startswith("422")


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_schema_with_half_of_a_surrogate_pair_is_refused(kind: str) -> None:
    with pytest.raises(GatewayError, match="cannot be read"):
        parse('{"type": "string", "doc": "\ud800"}', kind)
