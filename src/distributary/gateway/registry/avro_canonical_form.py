"""Avro schemas in one form, so that those which say the same in other words are the same. Pure.

It is the form of Confluent's registry: names are whole, a type without attributes is its name, what is left
out is what has no meaning. Docs, aliases, defaults and attributes stay, since readers and tools use them;
Avro's own Parsing Canonical Form drops them, and would take a new default for nothing new.
"""

from __future__ import annotations

from typing import Any

from distributary.kafka.avro import NAMED

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

_OWN = ("type", "name", "namespace", "fields", "symbols", "size", "items", "values", "doc", "aliases")


def normal(schema: Any, space: str = "") -> Any:
    """Rewrite the JSON of a schema that can be read; ``space`` is the namespace that it stands in."""
    if isinstance(schema, list):
        return [normal(branch, space) for branch in schema]
    if not isinstance(schema, dict):
        return _whole(schema, space)
    kind = schema["type"]
    if kind in NAMED:
        return _named(schema, kind, space)
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        return {"type": kind, inner: normal(schema[inner], space), **_attributes(schema)}
    attributes = _attributes(schema)
    found = normal(kind, space)
    return {"type": found, **attributes} if attributes else found


def _named(schema: dict[str, Any], kind: str, space: str) -> dict[str, Any]:
    name = _whole(schema["name"], schema.get("namespace", space) or "")
    space = name.rpartition(".")[0]
    found: dict[str, Any] = {"name": name, "type": kind}
    if kind == "enum":
        found["symbols"] = schema["symbols"]
    elif kind == "fixed":
        found["size"] = schema["size"]
    else:
        found["fields"] = [_field(field, space) for field in schema["fields"]]
    if schema.get("doc"):
        found["doc"] = schema["doc"]
    if schema.get("aliases"):
        found["aliases"] = sorted(_whole(alias, space) for alias in schema["aliases"])
    return found | _attributes(schema)


def _field(field: dict[str, Any], space: str) -> dict[str, Any]:
    found = {"name": field["name"], "type": normal(field["type"], space)}
    if field.get("doc") is not None:
        found["doc"] = field["doc"]
    if field.get("aliases"):
        found["aliases"] = sorted(field["aliases"])
    rest = {name: field[name] for name in sorted(field) if name not in ("name", "type", "doc", "aliases")}
    if rest.get("order") == "ascending":  # the usual
        del rest["order"]
    return found | rest


def _attributes(schema: dict[str, Any]) -> dict[str, Any]:
    found = {name: schema[name] for name in sorted(schema) if name not in _OWN}
    if schema.get("logicalType") == "decimal" and found.get("scale") == 0:  # the usual
        del found["scale"]
    return found


def _whole(name: Any, space: str) -> Any:
    if not isinstance(name, str) or name in PRIMITIVES or "." in name or not space:
        return name
    return f"{space}.{name}"
