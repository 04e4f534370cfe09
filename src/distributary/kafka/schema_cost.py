"""How much work checking a value by a schema can be, estimated without a value. Pure.

A schema of a kilobyte can take years: the work doubles with each definition that refers twice to the next,
and a pattern with nested repetitions tries every way to split a string. What is known to be cheap is checked
at once; all else has a deadline (`distributary.deadline`). If in doubt a schema is not cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distributary.kafka.avro import NAMED, AvroSchema

MAX_BYTES = 1 << 20
MAX_DEPTH = 200
MAX_REFERENCES = 5_000
"""The largest schema that is accepted."""

SMALL = 16_384
"""Characters of a schema that is parsed and compared at once; larger ones have a deadline."""
MAX_COST = 100_000
"""Parts of a schema times bytes of a value that are checked at once."""

_MAX_PARTS = 10_000
_UNBOUNDED = frozenset(
    (
        "$dynamicRef",
        "$recursiveRef",
        "patternProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    )
)
"""Keywords of JSON Schema whose cost grows faster than the value, or depends on the data."""


def is_cheap(cost: int | None, value: bytes | str) -> bool:
    """Whether a value may be checked by a schema of that cost without a deadline."""
    return cost is not None and cost * len(value) <= MAX_COST


def check_size(text: str) -> None:
    """Raise ValueError for a schema that is too large to be parsed."""
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES >> 10} KiB")


def check_shape(document: Any) -> None:
    """Raise ValueError for a schema that is nested too deeply or has too many references."""
    references, level, depth = 0, [document], 0
    while level:
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested too deeply: more than {MAX_DEPTH} levels")
        references += sum(isinstance(node, dict) and isinstance(node.get("$ref"), str) for node in level)
        if references > MAX_REFERENCES:
            raise ValueError(f"it has more than {MAX_REFERENCES} references")
        level = [inner for node in level for inner in _inner(node)]
        depth += 1


def json_cost(document: Any) -> int | None:
    """Count the parts of a JSON Schema that a value may meet, each as often as a path leads to it.

    None if that is unknown: patterns, references that are recursive or leave the document, keywords that
    visit a value repeatedly.
    """
    return _JsonPaths(document).count(document)


def avro_cost(schema: AvroSchema) -> int | None:
    """Count the parts of an Avro schema in the same way.

    None for a recursive schema, since the decoder, which is in C, does not survive deep data, and for arrays
    whose items take no bytes, since a few bytes can be any number of them.
    """
    return _AvroPaths(schema.named).count(schema.schema)


class _Unbounded(Exception):
    """The cost has no limit, or none that is known."""


class _JsonPaths:
    """Counts the paths through one document; each part is counted once and remembered."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._known: dict[int, int | None] = {}

    def count(self, node: Any) -> int | None:
        try:
            return self._of(node)
        except (_Unbounded, RecursionError):
            return None

    def _of(self, node: Any) -> int:
        if not isinstance(node, dict | list):
            return 1  # a value in a list, such as enum; other keywords cost no more than their schema
        known = self._known.get(id(node), 0)
        if known is None:
            raise _Unbounded  # it is being counted: it is recursive
        if known:
            return known
        self._known[id(node)] = None
        found = 1 + sum(map(self._of, self._next(node)))
        if found > _MAX_PARTS:
            raise _Unbounded
        self._known[id(node)] = found
        return found

    def _next(self, node: Any) -> list[Any]:
        # A property may have the name of a keyword, but then its value is a schema and never a string.
        if isinstance(node, list):
            return node
        if (
            not _UNBOUNDED.isdisjoint(node)
            or isinstance(node.get("pattern"), str)
            or node.get("format") == "regex"
            or (node is not self._document and isinstance(node.get("$id", node.get("id")), str))
        ):
            raise _Unbounded
        reference = node.get("$ref")
        return [*_inner(node), *([self._resolve(reference)] if isinstance(reference, str) else [])]

    def _resolve(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            raise _Unbounded
        node = self._document
        for part in reference.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or part not in node:
                raise _Unbounded
            node = node[part]
        return node


class _AvroPaths:
    """Counts the paths through one parsed schema."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._known: dict[str, tuple[int, bool] | None] = {}

    def count(self, node: Any) -> int | None:
        try:
            return self._of(node)[0]
        except (_Unbounded, RecursionError):
            return None

    def _of(self, node: Any) -> tuple[int, bool]:
        """The number of parts, and whether a value may take no bytes."""
        node = self._named.get(node, node) if isinstance(node, str) else node
        if isinstance(node, list):
            return 1 + sum(self._of(branch)[0] for branch in node), False
        if not isinstance(node, dict):
            return 1, node == "null"
        kind = node["type"]
        if kind in NAMED:
            return self._of_named(node, kind)
        if kind in ("array", "map"):
            count, empty = self._of(node["items" if kind == "array" else "values"])
            if empty and kind == "array":
                raise _Unbounded
            return 1 + count, False
        return self._of(kind)

    def _of_named(self, node: Any, kind: str) -> tuple[int, bool]:
        if kind == "enum":
            return 1 + len(node["symbols"]), False
        if kind == "fixed":
            return 1, node["size"] == 0
        name = node["name"]
        if name in self._known:
            known = self._known[name]
            if known is None:
                raise _Unbounded
            return known
        self._known[name] = None
        fields = [self._of(field["type"]) for field in node["fields"]]
        found = 1 + sum(count for count, _ in fields), all(empty for _, empty in fields)
        if found[0] > _MAX_PARTS:
            raise _Unbounded
        self._known[name] = found
        return found


def _inner(node: Any) -> list[Any]:
    found = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [one for one in found if isinstance(one, dict | list)]
