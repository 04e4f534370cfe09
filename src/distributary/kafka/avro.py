"""Avro: parsing schemas strictly, and decoding values by them. Pure."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import fastavro.schema

NAMED = ("record", "error", "enum", "fixed")
"""The types that have names."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class AvroSchema(NamedTuple):
    """A parsed schema: its names are fully qualified, and ``named`` has the types that they name."""

    schema: Any
    named: dict[str, Any]


def parse_schema(document: Any) -> AvroSchema:
    """Parse a schema from its JSON; raises ValueError with what is wrong."""
    named: dict[str, Any] = {}
    try:
        _check_raw(document)
        schema = fastavro.schema.parse_schema(document, named_schemas=named)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except fastavro.schema.UnknownType as error:
        raise ValueError(f"unknown type {error.name}") from None
    except ValueError:
        raise
    except KeyError as error:
        raise ValueError(f"{error} is missing") from None
    except Exception as error:  # fastavro lets any exception through
        raise ValueError(str(error) or "it is not an Avro schema") from None
    return AvroSchema(schema, named)


def _check_raw(node: Any) -> None:
    """Refuse what the parser accepts and other implementations do not."""
    if isinstance(node, list):
        kinds = [_branch(one) for one in _each(node)]
        if len(set(kinds)) < len(kinds):
            raise ValueError("a union has the same type twice")
        return
    if not isinstance(node, dict):
        if not isinstance(node, str):
            raise ValueError("a schema must be a string, an object or an array")
        return
    kind = node.get("type")
    if kind in NAMED:
        name = node.get("name")
        if not isinstance(name, str) or not all(_NAME.fullmatch(part) for part in name.split(".")):
            raise ValueError(f"{name!r} is not a valid name")
    if kind in ("record", "error"):
        fields = node.get("fields")
        if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
            raise ValueError("a record must have a list of fields")
        names = [field.get("name") for field in fields]
        if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in names):
            raise ValueError("a field has no name, or an invalid one")
        if len(set(names)) < len(names):
            raise ValueError("a record has two fields of the same name")
        for field in fields:
            _check_raw(field["type"])
    elif kind == "enum":
        symbols = node.get("symbols")
        if not isinstance(symbols, list) or not all(
            isinstance(one, str) and _NAME.fullmatch(one) for one in symbols
        ):
            raise ValueError("an enum must have a list of symbols")
    elif kind == "fixed":
        if not isinstance(node.get("size"), int) or node["size"] < 0:
            raise ValueError("a fixed must have a size")
    elif kind == "array":
        _check_raw(node["items"])
    elif kind == "map":
        _check_raw(node["values"])


def _each(union: list[Any]) -> Iterator[Any]:
    for branch in union:
        if isinstance(branch, list):
            raise ValueError("a union is directly inside a union")
        _check_raw(branch)
        yield branch


def _branch(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    if "name" not in schema:
        return str(schema.get("type"))
    return f"{schema.get('namespace', '')}.{schema['name']}"


def decode(data: bytes, schema: Any) -> Any:
    """Decode a value by a parsed schema. Raises ValueError for any bytes that do not fit."""
    if _unbounded(schema):
        raise ValueError(
            "it has an array whose items take no bytes, so a few bytes could be any number of them"
        )
    source = io.BytesIO(data)
    try:
        found = fastavro.schemaless_reader(source, schema, None)
    except Exception as error:
        raise ValueError(f"{type(error).__name__} {error}") from None
    if left := len(data) - source.tell():
        raise ValueError(f"{left} bytes are left over")
    return found


_unbounded_by_id: dict[int, tuple[Any, bool]] = {}
"""By the id of a schema: itself, so that the id is not reused, and whether it is unbounded."""


def _unbounded(schema: Any) -> bool:
    """Whether values of a few bytes may have any number of items."""
    if not isinstance(schema, dict | list):
        return False
    known = _unbounded_by_id.get(id(schema))
    if known is None:
        if len(_unbounded_by_id) >= 1_000:
            _unbounded_by_id.clear()
        known = _unbounded_by_id[id(schema)] = (schema, _has_empty_items(schema, {}))
    return known[1]


def _has_empty_items(schema: Any, named: dict[str, Any]) -> bool:
    if isinstance(schema, list):
        return any([_has_empty_items(one, named) for one in schema])
    if not isinstance(schema, dict):
        return False
    if "name" in schema:
        named[schema["name"]] = schema
    # All parts are visited: a later one may define a name.
    parts = [schema.get("items"), schema.get("values"), *(one["type"] for one in schema.get("fields", ()))]
    found = [_has_empty_items(part, named) for part in parts]
    return any(found) or (schema.get("type") == "array" and _is_empty(schema.get("items"), named, ()))


def _is_empty(schema: Any, named: dict[str, Any], above: tuple[str, ...]) -> bool:
    """Whether every value of a schema takes no bytes at all."""
    if isinstance(schema, str):
        if schema in named and schema not in above:
            return _is_empty(named[schema], named, (*above, schema))
        return schema == "null"
    if not isinstance(schema, dict):
        return False
    if schema.get("type") in ("record", "error"):
        return all(_is_empty(one["type"], named, above) for one in schema["fields"])
    return schema.get("type") == "null" or (schema.get("type") == "fixed" and not schema["size"])
