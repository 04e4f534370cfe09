"""Avro schemas: whether data of one can be read with another, and the form that equal ones share. Pure.

The rules are those of schema resolution in the Avro specification, plus two that protect readers from wrong
values: names are compared with their namespace (a reader's aliases count), and logical types must match.
"""

from __future__ import annotations

import re
from typing import Any

from distributary.kafka.avro import NAMED, AvroSchema

_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""What a value of a primitive type can be read as, besides its own type."""

MAX_STEPS = 200_000
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_SCHEMA_FIELDS = frozenset(
    ("type", "name", "namespace", "fields", "symbols", "size", "items", "values", "doc", "aliases")
)
"""The fields of a schema that are not attributes."""


class TooManySteps(Exception):
    """A comparison that was limited to a few steps needs more."""


# --- compatibility ---


def unreadable(reader: AvroSchema, writer: AvroSchema, max_steps: int = MAX_STEPS) -> list[str]:
    """List why data of ``writer`` cannot always be read with ``reader``; empty if it can.

    Raises TooManySteps if ``max_steps`` is below the default and is not enough.
    """
    try:
        return _Comparison(reader.named, writer.named, max_steps).check(reader.schema, writer.schema, "")
    except RecursionError:
        return ["/: the schemas are too large or nested too deeply to be compared"]


def check_namespaces(schema: AvroSchema) -> None:
    """Raise ValueError for a namespace that other readers do not accept.

    Only new schemas are checked: old ones that another registry accepted must stay readable.
    """
    for name in schema.named:
        if not all(_NAME.fullmatch(part) for part in name.split(".")):
            raise ValueError(f"invalid namespace {name.rpartition('.')[0]!r}")


class _Comparison:
    """One comparison. A pair of names that is being compared counts as readable, so that recursion ends."""

    def __init__(self, readers: dict[str, Any], writers: dict[str, Any], max_steps: int) -> None:
        self._readers, self._writers = readers, writers
        self._visited: set[tuple[str, str]] = set()
        self._max_steps = max_steps
        self._steps = 0

    def check(self, reader: Any, writer: Any, path: str) -> list[str]:
        self._steps += 1
        if self._steps > self._max_steps:
            raise RecursionError if self._max_steps == MAX_STEPS else TooManySteps
        reader, writer = _resolve(reader, self._readers), _resolve(writer, self._writers)
        if isinstance(writer, list):
            return [problem for branch in writer for problem in self.check(reader, branch, path)]
        if isinstance(reader, list):
            return self._check_union(reader, writer, path)
        reader_kind, writer_kind = _kind(reader), _kind(writer)
        if reader_kind != writer_kind:
            if reader_kind in _PROMOTIONS.get(writer_kind, ()):
                return self._check_logical(reader, writer, path)
            return [f"{path or '/'}: {_label(writer)} cannot be read as {_label(reader)}"]
        if reader_kind in NAMED:
            return self._check_named(reader, writer, path)
        if reader_kind == "array":
            return self.check(reader["items"], writer["items"], f"{path}/items")
        if reader_kind == "map":
            return self.check(reader["values"], writer["values"], f"{path}/values")
        return self._check_logical(reader, writer, path)

    def _check_union(self, reader: list[Any], writer: Any, path: str) -> list[str]:
        # Pairs that were visited in a branch that fails prove nothing for the next branch.
        for branch in reader:
            before = set(self._visited)
            if not self.check(branch, writer, path):
                return []
            self._visited = before
        return [f"{path or '/'}: {_label(writer)} is in no branch of the reader's union"]

    def _check_named(self, reader: Any, writer: Any, path: str) -> list[str]:
        if writer["name"] != reader["name"] and writer["name"] not in _aliases(reader):
            return [f"{path or '/'}: {writer['name']} is called {reader['name']} by the reader"]
        if reader["type"] == "fixed":
            if reader["size"] != writer["size"]:
                return [f"{path or '/'}: the size of {writer['name']} is {reader['size']} for the reader"]
            return self._check_logical(reader, writer, path)
        if reader["type"] == "enum":
            unknown = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
            if unknown and "default" not in reader:
                return [f"{path or '/'}: the reader does not know the symbols {', '.join(unknown)}"]
            return []
        pair = (reader["name"], writer["name"])
        if pair in self._visited:
            return []
        self._visited.add(pair)
        return [problem for field in reader["fields"] for problem in self._check_field(field, writer, path)]

    def _check_field(self, field: Any, writer: Any, path: str) -> list[str]:
        field_path = f"{path}/{field['name']}"
        written = {one["name"]: one for one in writer["fields"]}
        for name in (field["name"], *field.get("aliases", ())):
            if name in written:
                return self.check(field["type"], written[name]["type"], field_path)
        if "default" in field:
            return []
        return [f"{field_path}: the writer has no such field, and it has no default"]

    def _check_logical(self, reader: Any, writer: Any, path: str) -> list[str]:
        reader_type, writer_type = _logical_type(reader), _logical_type(writer)
        if reader_type == writer_type or not reader_type or not writer_type:
            return []
        return [f"{path or '/'}: {writer_type} cannot be read as {reader_type}"]


def _resolve(schema: Any, named: dict[str, Any]) -> Any:
    return named.get(schema, schema) if isinstance(schema, str) else schema


def _kind(schema: Any) -> str:
    kind = schema["type"] if isinstance(schema, dict) else schema
    return "record" if kind == "error" else str(kind)


def _label(schema: Any) -> str:
    return str(schema["name"]) if isinstance(schema, dict) and "name" in schema else _kind(schema)


def _aliases(schema: Any) -> set[str]:
    namespace = schema["name"].rpartition(".")[0]
    return {
        alias if "." in alias or not namespace else f"{namespace}.{alias}"
        for alias in schema.get("aliases", ())
    }


def _logical_type(schema: Any) -> str:
    if not isinstance(schema, dict) or "logicalType" not in schema:
        return ""
    if schema["logicalType"] == "decimal":
        return f"decimal({schema.get('precision')},{schema.get('scale', 0)})"
    return str(schema["logicalType"])


# --- the canonical form ---


def canonical_form(schema: Any, namespace: str = "") -> Any:
    """Rewrite the JSON of a valid schema to the form of Confluent's registry.

    Names are qualified, a type without attributes is its name, and what has no meaning is left out. Docs,
    aliases, defaults and attributes stay, since readers and tools use them; Avro's own Parsing Canonical Form
    drops them, and would not see that a default is new. ``namespace`` is the enclosing one.
    """
    if isinstance(schema, list):
        return [canonical_form(branch, namespace) for branch in schema]
    if not isinstance(schema, dict):
        return _qualified(schema, namespace)
    kind = schema["type"]
    if kind in NAMED:
        return _canonical_named(schema, kind, namespace)
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        return {"type": kind, inner: canonical_form(schema[inner], namespace), **_attributes(schema)}
    attributes = _attributes(schema)
    inner_type = canonical_form(kind, namespace)
    return {"type": inner_type, **attributes} if attributes else inner_type


def _canonical_named(schema: dict[str, Any], kind: str, enclosing: str) -> dict[str, Any]:
    name = _qualified(schema["name"], schema.get("namespace", enclosing) or "")
    namespace = name.rpartition(".")[0]
    result: dict[str, Any] = {"name": name, "type": kind}
    if kind == "enum":
        result["symbols"] = schema["symbols"]
    elif kind == "fixed":
        result["size"] = schema["size"]
    else:
        result["fields"] = [_canonical_field(field, namespace) for field in schema["fields"]]
    if schema.get("doc"):
        result["doc"] = schema["doc"]
    if schema.get("aliases"):
        result["aliases"] = sorted(_qualified(alias, namespace) for alias in schema["aliases"])
    return result | _attributes(schema)


def _canonical_field(field: dict[str, Any], namespace: str) -> dict[str, Any]:
    result = {"name": field["name"], "type": canonical_form(field["type"], namespace)}
    if field.get("doc") is not None:
        result["doc"] = field["doc"]
    if field.get("aliases"):
        result["aliases"] = sorted(field["aliases"])
    rest = {name: field[name] for name in sorted(field) if name not in ("name", "type", "doc", "aliases")}
    if rest.get("order") == "ascending":  # the default
        del rest["order"]
    return result | rest


def _attributes(schema: dict[str, Any]) -> dict[str, Any]:
    found = {name: schema[name] for name in sorted(schema) if name not in _SCHEMA_FIELDS}
    if schema.get("logicalType") == "decimal" and found.get("scale") == 0:  # the default
        del found["scale"]
    return found


def _qualified(name: Any, namespace: str) -> Any:
    if not isinstance(name, str) or name in PRIMITIVES or "." in name or not namespace:
        return name
    return f"{namespace}.{name}"
