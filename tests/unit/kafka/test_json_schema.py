"""Validators that look nothing up: a schema's references lead into it, or it is refused."""

from __future__ import annotations

import json
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from distributary.kafka.json_schema import check_schema, create_validator, mismatch

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NEWEST = "https://json-schema.org/draft/2020-12/schema"


@pytest.fixture(autouse=True)
def nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*words: Any, **more: Any) -> None:
        pytest.fail(f"it opens {words}")

    monkeypatch.setattr(urllib.request, "urlopen", opened)
    monkeypatch.setattr(socket, "create_connection", opened)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:1/meta-data#/x"},
        {"$ref": "other.json"},
        {"$ref": "#/definitions/none"},
        {"properties": {"status": {"allOf": [{"$ref": "https://127.0.0.1:1/"}]}}},
        {"$id": "http://127.0.0.1:1/", "additionalProperties": {"$ref": "next"}},
        {"$schema": NEWEST, "$dynamicRef": "http://127.0.0.1:1/#a"},
        {"if": True, "then": {"not": {"$ref": "http://127.0.0.1:1/"}}},
    ],
)
def test_reference_out_of_the_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="is not in the schema"):
        check_schema(schema)
    assert "is not in it" in mismatch(create_validator(schema), {"status": 1})


def test_local_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text(json.dumps({"const": "secret"}))
    schema = {"$ref": f"{(tmp_path / 'secret.json').as_uri()}#/x"}
    with pytest.raises(ValueError, match="is not in the schema") as caught:
        check_schema(schema)
    assert "'const'" not in str(caught.value)
    assert "'const'" not in mismatch(create_validator(schema), 1)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/definitions/whole", "definitions": {"whole": {"type": "integer"}}},
        {"$id": "http://127.0.0.1:1/a", "allOf": [{"$ref": "a#/definitions/b"}], "definitions": {"b": {}}},
        {"$schema": NEWEST, "$ref": "#here", "$defs": {"a": {"$anchor": "here"}}},
        {"anyOf": [{"$ref": DRAFT_7}, {}]},
        {"properties": {"$ref": {"type": "string"}}},
        {"anyOf": [{"enum": [{"$ref": "http://127.0.0.1:1/"}]}, {}]},
    ],
)
def test_reference_within_the_schema_or_to_a_dialect_is_followed(schema: Any) -> None:
    check_schema(schema)
    assert mismatch(create_validator(schema), 5) == ""


def test_endless_recursion_is_reported() -> None:
    schema = {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}
    check_schema(schema)
    assert mismatch(create_validator(schema), 5) == "it is nested too deeply"


def test_long_reason_is_cut() -> None:
    assert 50 < len(mismatch(create_validator({"type": "integer"}), "x" * 10_000)) <= 300


@pytest.mark.parametrize("dialect", [{"a": 1}, ["x"], 7, None])
def test_dialect_that_is_not_a_string_is_refused(dialect: Any) -> None:
    with pytest.raises(ValueError, match=r"\$schema must be a string"):
        check_schema({"$schema": dialect})


@pytest.mark.parametrize("dialect", ["", DRAFT_4, "https://json-schema.org/draft/2019-09/schema"])
@pytest.mark.parametrize(
    ("schema", "value", "good"),
    [
        ({"items": False, "additionalItems": False}, [], True),
        ({"items": False, "additionalItems": False}, [1], False),
        ({"items": True, "additionalItems": False}, [1, 2], True),
        ({"items": {}, "additionalItems": False}, [1, 2], True),
        ({"additionalItems": False}, [1, 2], True),
        ({"items": [{}], "additionalItems": False}, [1], True),
        ({"items": [{}], "additionalItems": False}, [1, 2], False),
        ({"items": [{}], "additionalItems": {"type": "string"}}, [1, "x"], True),
    ],
)
def test_additional_items_apply_only_after_a_list(dialect: str, schema: Any, value: Any, good: bool) -> None:
    if dialect == DRAFT_4 and isinstance(schema.get("items"), bool):
        return  # booleans are no schemas there
    document = {**schema, **({"$schema": dialect} if dialect else {})}
    check_schema(document)
    assert (mismatch(create_validator(document), value) == "") == good
