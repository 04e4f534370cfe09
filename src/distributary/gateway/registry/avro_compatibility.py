"""Whether data of one Avro schema can be read with another. Pure.

The rules are those of schema resolution in the Avro specification, with two that keep readers from wrong
values: names are compared with their namespace (a reader's aliases count), and logical types must agree.
"""

from __future__ import annotations

import re
from typing import Any

from distributary.kafka.avro import NAMED, Avro

_WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""What a value of a primitive type may be read as, besides itself."""

MAX_STEPS = 200_000
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


class TooManySteps(Exception):
    """A comparison that was to be quick is not."""


def unreadable(reader: Avro, writer: Avro, steps: int = MAX_STEPS) -> list[str]:
    """Say why data of ``writer`` cannot all be read with ``reader``; nothing when they can.

    Raises TooManySteps where it takes more than ``steps`` and they are fewer than usual.
    """
    try:
        return _Pair(reader.named, writer.named, steps).check(reader.schema, writer.schema, "")
    except RecursionError:
        return ["/: the schemas are too large or nested too deeply to be compared"]


def check_namespaces(schema: Avro) -> None:
    """Raise ValueError for a namespace that other readers refuse.

    Only new schemas are checked: old ones that another registry let pass must stay readable.
    """
    for name in schema.named:
        if not all(_NAME.fullmatch(part) for part in name.split(".")):
            raise ValueError(f"{name.rpartition('.')[0]!r} is no namespace")


class _Pair:
    """One comparison; pairs of names that were begun are taken as good, so that recursion ends."""

    def __init__(self, readers: dict[str, Any], writers: dict[str, Any], steps: int) -> None:
        self._readers, self._writers = readers, writers
        self._begun: set[tuple[str, str]] = set()
        self._most = steps
        self._steps = 0

    def check(self, reader: Any, writer: Any, path: str) -> list[str]:
        self._steps += 1
        if self._steps > self._most:
            raise RecursionError if self._most == MAX_STEPS else TooManySteps
        reader, writer = _resolved(reader, self._readers), _resolved(writer, self._writers)
        if isinstance(writer, list):
            return [why for branch in writer for why in self.check(reader, branch, path)]
        if isinstance(reader, list):
            return self._of_union(reader, writer, path)
        read, written = _kind(reader), _kind(writer)
        if read != written:
            if isinstance(read, str) and read in _WIDER.get(written, ()):
                return self._logical(reader, writer, path)
            return [f"{path or '/'}: {_called(writer)} cannot be read as {_called(reader)}"]
        if read in NAMED:
            return self._of_named(reader, writer, path)
        if read == "array":
            return self.check(reader["items"], writer["items"], f"{path}/items")
        if read == "map":
            return self.check(reader["values"], writer["values"], f"{path}/values")
        return self._logical(reader, writer, path)

    def _of_union(self, reader: list[Any], writer: Any, path: str) -> list[str]:
        # Pairs that are begun in a branch that fails prove nothing for the next.
        for branch in reader:
            before = set(self._begun)
            if not self.check(branch, writer, path):
                return []
            self._begun = before
        return [f"{path or '/'}: {_called(writer)} is in no branch of the reader's union"]

    def _of_named(self, reader: Any, writer: Any, path: str) -> list[str]:
        if writer["name"] != reader["name"] and writer["name"] not in _aliases(reader):
            return [f"{path or '/'}: {writer['name']} is called {reader['name']} by the reader"]
        if reader["type"] == "fixed":
            if reader["size"] != writer["size"]:
                return [f"{path or '/'}: the size of {writer['name']} is {reader['size']} for the reader"]
            return self._logical(reader, writer, path)
        if reader["type"] == "enum":
            lost = [one for one in writer["symbols"] if one not in reader["symbols"]]
            if lost and "default" not in reader:
                return [f"{path or '/'}: the reader does not know the symbols {', '.join(lost)}"]
            return []
        pair = (reader["name"], writer["name"])
        if pair in self._begun:
            return []
        self._begun.add(pair)
        return [why for field in reader["fields"] for why in self._of_field(field, writer, path)]

    def _of_field(self, field: Any, writer: Any, path: str) -> list[str]:
        place = f"{path}/{field['name']}"
        written = {one["name"]: one for one in writer["fields"]}
        for name in (field["name"], *field.get("aliases", ())):
            if name in written:
                return self.check(field["type"], written[name]["type"], place)
        return [] if "default" in field else [f"{place}: the writer has no such field, and no default is set"]

    def _logical(self, reader: Any, writer: Any, path: str) -> list[str]:
        read, written = _logic(reader), _logic(writer)
        if read == written or not read or not written:
            return []
        return [f"{path or '/'}: {written} cannot be read as {read}"]


def _resolved(schema: Any, named: dict[str, Any]) -> Any:
    return named.get(schema, schema) if isinstance(schema, str) else schema


def _kind(schema: Any) -> str:
    kind = schema["type"] if isinstance(schema, dict) else schema
    return "record" if kind == "error" else str(kind)


def _called(schema: Any) -> str:
    return str(schema["name"]) if isinstance(schema, dict) and "name" in schema else _kind(schema)


def _aliases(schema: Any) -> set[str]:
    space = schema["name"].rpartition(".")[0]
    return {alias if "." in alias or not space else f"{space}.{alias}" for alias in schema.get("aliases", ())}


def _logic(schema: Any) -> str:
    if not isinstance(schema, dict) or "logicalType" not in schema:
        return ""
    if schema["logicalType"] == "decimal":
        return f"decimal({schema.get('precision')},{schema.get('scale', 0)})"
    return str(schema["logicalType"])
