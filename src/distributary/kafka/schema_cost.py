"""How much work a schema can make of a value, seen without a value. Pure.

A schema of a kilobyte can take years: definitions that refer twice to the next double with each, a pattern
with a repetition in a repetition tries every way to part a text. What is known to be cheap is checked where
it is needed; all else has a deadline (`distributary.deadline`). In doubt a schema is not cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distributary.kafka.avro import NAMED, Avro

MAX_BYTES = 1 << 20
MAX_DEPTH = 200
MAX_REFERENCES = 5_000
"""The largest schema that is taken from anybody."""

SMALL = 16_384
"""Characters of a schema that is read and compared where it is needed; larger ones have a deadline."""
MAX_COST = 100_000
"""Parts of a schema times bytes of a value that are checked where they are needed."""

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
"""Keywords of JSON Schema whose cost grows faster than the value, or as the data please."""


def is_cheap(cost: int | None, value: bytes | str) -> bool:
    """Say whether a value may be checked by a schema of that cost without a deadline."""
    return cost is not None and cost * len(value) <= MAX_COST


def check_size(text: str) -> None:
    """Raise ValueError for the text of a schema that is too large to be looked at."""
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES >> 10} KiB")


def check_shape(document: Any) -> None:
    """Raise ValueError for a schema that is nested too deeply or refers too often."""
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
    """Count the parts of a JSON Schema that a value may meet, each as often as a way leads to it.

    None where there is no telling: patterns, references that come back to where they are or leave the
    document, keywords that look at a value again and again.
    """
    return _Paths(document).count(document)


def avro_cost(schema: Avro) -> int | None:
    """Count the parts of an Avro schema likewise.

    None for a schema that contains itself, since the decoder, being C, does not survive deep data, and for
    arrays whose items take no bytes, since any number of them fits into a few.
    """
    return _AvroPaths(schema.named).count(schema.schema)


class _Doubt(Exception):
    """The cost is not bounded, or not known to be."""


class _Paths:
    """One count over a document; a part that was counted once is not looked at again."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._known: dict[int, int | None] = {}

    def count(self, node: Any) -> int | None:
        try:
            return self._of(node)
        except (_Doubt, RecursionError):
            return None

    def _of(self, node: Any) -> int:
        if not isinstance(node, dict | list):
            return 1  # a value of a list, such as enum; the other keywords cost no more than their schema
        known = self._known.get(id(node), 0)
        if known is None:
            raise _Doubt  # it is under way: a way leads back to it
        if known:
            return known
        self._known[id(node)] = None
        found = 1 + sum(map(self._of, self._next(node)))
        if found > _MAX_PARTS:
            raise _Doubt
        self._known[id(node)] = found
        return found

    def _next(self, node: Any) -> list[Any]:
        # A property may be called as a keyword is, but then a schema stands there, and never a text.
        if isinstance(node, list):
            return node
        if (
            not _UNBOUNDED.isdisjoint(node)
            or isinstance(node.get("pattern"), str)
            or node.get("format") == "regex"
            or (node is not self._document and isinstance(node.get("$id", node.get("id")), str))
        ):
            raise _Doubt
        reference = node.get("$ref")
        return [*_inner(node), *([self._found(reference)] if isinstance(reference, str) else [])]

    def _found(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            raise _Doubt
        node = self._document
        for part in reference.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or part not in node:
                raise _Doubt
            node = node[part]
        return node


class _AvroPaths:
    """One count over a schema whose names are known."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._known: dict[str, tuple[int, bool] | None] = {}

    def count(self, node: Any) -> int | None:
        try:
            return self._of(node)[0]
        except (_Doubt, RecursionError):
            return None

    def _of(self, node: Any) -> tuple[int, bool]:
        """Count the parts, and say whether a value may take no bytes."""
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
                raise _Doubt
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
                raise _Doubt
            return known
        self._known[name] = None
        fields = [self._of(field["type"]) for field in node["fields"]]
        found = 1 + sum(count for count, _ in fields), all(empty for _, empty in fields)
        if found[0] > _MAX_PARTS:
            raise _Doubt
        self._known[name] = found
        return found


def _inner(node: Any) -> list[Any]:
    found = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [one for one in found if isinstance(one, dict | list)]
