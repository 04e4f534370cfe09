"""JSON Schemas: reading them, and whether all that one allows is allowed by another too. Pure.

The check is conservative: it says yes only where it can show it, by the rules of `_Covering`. Keywords that
it has no rule for must be the same in both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from referencing.exceptions import Unresolvable

from distributary.gateway.registry.avro_compatibility import TooManySteps
from distributary.kafka import json_schema
from distributary.kafka.json_schema import dialect, make_validator

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_SAME = {
    "string": ("pattern", "format", "contentEncoding", "contentMediaType"),
    "array": ("prefixItems", "additionalItems"),
    "object": ("propertyNames", "dependencies", "dependentRequired", "dependentSchemas"),
    "": ("not", "if", "then", "else", "$dynamicRef", "$recursiveRef"),
}
"""Keywords without a rule of their own, by the type of value that they say something of."""

_WHOLE = ("unevaluatedItems", "unevaluatedProperties", "contains")
"""Keywords that mean something only together with others: a reader's part that has one must be the same."""

_OF = {
    **dict.fromkeys(("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "multipleOf"), "number"),
    **dict.fromkeys(("maxLength", "minLength"), "string"),
    **dict.fromkeys(("maxItems", "minItems", "uniqueItems"), "array"),
    **dict.fromkeys(("maxProperties", "minProperties"), "object"),
}
_MAX_DEPTH = 64
MAX_STEPS = 20_000
"""Alternatives within alternatives multiply; what takes longer than this is not looked into."""


def read(document: Any) -> Any:
    """Check a schema by its own dialect (draft 7 unless ``$schema`` says); raises ValueError."""
    json_schema.check(document)
    return document


def invalid(schema: Any, value: Any) -> str:
    """Say why a value does not fit a schema; "" when it does."""
    return json_schema.reason(make_validator(schema), value)


def uncovered(reader: Any, writer: Any, steps: int = MAX_STEPS) -> list[str]:
    """Say why what ``writer`` allows may not be allowed by ``reader``; nothing when it surely is.

    Raises TooManySteps where it takes more than ``steps`` and they are fewer than usual.
    """
    if _text(reader) == _text(writer):
        return []
    if dialect(reader) is not dialect(writer):
        return ["/$schema: the two are of different dialects"]
    try:
        return _Covering(reader, writer, steps).check(reader, writer, "", 0)
    except (_Unknown, RecursionError) as error:
        return [f"/: {error or 'it is nested too deeply'}"]


class _Unknown(Exception):
    """The schemas are beyond what is looked into."""


class _Covering:
    """One comparison of two documents, whose references lead into themselves."""

    def __init__(self, reader: Any, writer: Any, steps: int) -> None:
        self._reader, self._writer = reader, writer
        self._begun: set[tuple[str, str]] = set()
        self._most = steps
        self._steps = 0

    def check(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        """Say what keeps ``reader`` from covering ``writer``, at a place of both documents."""
        self._steps += 1
        if self._steps > self._most != MAX_STEPS:
            raise TooManySteps
        if depth > _MAX_DEPTH or self._steps > MAX_STEPS:
            raise _Unknown("the schemas are too large or nested too deeply to be compared")
        if writer is False or reader is True or reader == {} or _equal(reader, writer):
            return []
        if reader is False:
            return [f"{path or '/'}: the reader allows nothing here"]
        writer = {} if writer is True else writer
        if "$ref" in reader or "$ref" in writer:
            return self._of_references(reader, writer, path, depth)
        if "const" in writer or "enum" in writer:
            return self._of_values(reader, writer, path)
        if self._branches(reader, writer, path, depth):
            return []
        problems = self._of_types(reader, writer, path)
        problems += [f"{path}/{name}: it must be the same in both" for name in _WHOLE if name in reader]
        held = _types(writer)
        for kind, names in _SAME.items():
            if not kind or kind in held:
                problems += self._same(reader, writer, names, path)
        for name, kind in _OF.items():
            if name in reader and kind in _numbered(held) and not _narrower(name, reader, writer):
                problems.append(f"{path}/{name}: the reader allows less")
        if "object" in held:
            problems += self._of_objects(reader, writer, path, depth)
        if "array" in held:
            problems += self._of_arrays(reader, writer, path, depth)
        return problems + self._of_combinations(reader, writer, path, depth)

    def _of_references(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        pair = (_text(reader), _text(writer))
        # A pair that is under way is met again only one level deeper in the data, which end somewhere.
        if pair in self._begun:
            return []
        self._begun.add(pair)
        if "$ref" in writer:  # what stands beside it may or may not count, by dialect: so it does not here
            return self.check(reader, _found(self._writer, writer["$ref"]), path, depth + 1)
        beside = {name: value for name, value in reader.items() if name != "$ref"}
        return self.check(_found(self._reader, reader["$ref"]), writer, path, depth + 1) + self.check(
            beside, writer, path, depth + 1
        )

    def _of_values(self, reader: Any, writer: Any, path: str) -> list[str]:
        """A writer that lists its values: each of them is tried."""
        values = [writer["const"]] if "const" in writer else writer["enum"]
        whole = make_validator(self._reader)
        try:
            lost = [value for value in values if next(whole.descend(value, reader), None) is not None]
        except Unresolvable as error:
            raise _Unknown(f"the reference {error.ref!r} leads nowhere") from None
        return [f"{path or '/'}: the reader refuses {_text(value)[:80]}" for value in lost]

    def _branches(self, reader: Any, writer: Any, path: str, depth: int) -> bool:
        """Say whether the writer's alternatives alone settle it: each (or, of allOf, one) is covered."""
        for name in ("anyOf", "oneOf"):
            if name in writer and not any(
                self._apart(reader, branch, path, depth) for branch in writer[name]
            ):
                return True
        return any(not self._apart(reader, branch, path, depth) for branch in writer.get("allOf", ()))

    def _apart(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        """Check something that may fail without an end to the rest."""
        before = set(self._begun)
        problems = self.check(reader, writer, path, depth + 1)
        if problems:
            self._begun = before
        return problems

    def _of_types(self, reader: Any, writer: Any, path: str) -> list[str]:
        lost = sorted(_types(writer) - _widened(_types(reader)))
        problems = [f"{path or '/'}: {', '.join(lost)} is not allowed by the reader"] if lost else []
        if "enum" in reader or "const" in reader:
            problems.append(f"{path or '/'}: the reader allows only some values")
        return problems

    def _same(self, reader: Any, writer: Any, names: Iterable[str], path: str) -> list[str]:
        return [
            f"{path}/{name}: the reader's may differ from the writer's"
            for name in names
            if name in reader and (name not in writer or not _equal(reader[name], writer[name]))
        ]

    def _of_objects(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        missing = [one for one in reader.get("required", ()) if one not in writer.get("required", ())]
        problems = [f"{path}/{one}: the reader requires it" for one in missing]
        if "patternProperties" in reader or "patternProperties" in writer:
            names = ("patternProperties", "properties", "additionalProperties")
            if "patternProperties" not in reader and not any(name in reader for name in names[1:]):
                return problems
            return problems + [
                f"{path}/{name}: with patternProperties it must be the same in both"
                for name in names
                if not _equal(reader.get(name), writer.get(name))
            ]
        read, written = reader.get("properties", {}), writer.get("properties", {})
        others = reader.get("additionalProperties", True), writer.get("additionalProperties", True)
        for name in sorted({*read, *written}):
            problems += self.check(
                read.get(name, others[0]), written.get(name, others[1]), f"{path}/{name}", depth + 1
            )
        return problems + self.check(*others, f"{path}/*", depth + 1)

    def _of_arrays(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        read, written = reader.get("items", True), writer.get("items", True)
        if isinstance(read, list) or isinstance(written, list) or "prefixItems" in writer:
            prefixed = _equal(reader.get("prefixItems"), writer.get("prefixItems"))
            if "items" not in reader or (prefixed and _equal(read, written)):
                return []
            return [f"{path}/items: a list of schemas must be the same in both"]
        return self.check(read, written, f"{path}/items", depth + 1)

    def _of_combinations(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        problems = [
            why for one in reader.get("allOf", ()) for why in self.check(one, writer, path, depth + 1)
        ]
        for name in ("anyOf", "oneOf"):
            if name not in reader:
                continue
            # One of several is sure to be the only one where no two of them allow the same type.
            good = name == "anyOf" or _disjoint(reader[name])
            if not good or all(self._apart(one, writer, path, depth) for one in reader[name]):
                problems.append(f"{path}/{name}: no branch is sure to allow it")
        return problems


def _types(schema: Any) -> set[str]:
    said = schema.get("type", TYPES) if isinstance(schema, dict) else TYPES
    return {said} if isinstance(said, str) else set(said)


def _widened(types: set[str]) -> set[str]:
    """Add integer to number: each of the one is one of the other."""
    return types | ({"integer"} if "number" in types else set())


def _numbered(types: set[str]) -> set[str]:
    """Add number to integer: keywords of numbers are about both."""
    return types | ({"number"} if "integer" in types else set())


def _narrower(name: str, reader: Any, writer: Any) -> bool:
    read, written = reader[name], writer.get(name)
    if name == "uniqueItems":
        return read is False or written is True
    if written is None or isinstance(read, bool) or isinstance(written, bool):
        return bool(read == written)
    if name == "multipleOf":
        return (Fraction(str(written)) / Fraction(str(read))).denominator == 1
    return bool(written <= read) if name in _AT_MOST else bool(written >= read)


def _disjoint(branches: list[Any]) -> bool:
    seen: set[str] = set()
    for branch in branches:
        if not isinstance(branch, dict) or "type" not in branch:
            return False
        types = _widened(_types(branch))
        if types & seen:
            return False
        seen |= types
    return True


def _equal(one: Any, other: Any) -> bool:
    """Say whether two parts mean the same: what refers to elsewhere may not, though it reads the same."""
    if one != other:  # quick, but true of 1 and True
        return False
    text = _text(one)
    return text == _text(other) and '"$ref"' not in text and 'Ref"' not in text


def _found(document: Any, reference: Any) -> Any:
    if reference == "#":
        return document
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise _Unknown(f"the reference {reference!r} leads out of the schema")
    node = document
    for part in reference[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or part not in node:
            raise _Unknown(f"the reference {reference!r} leads nowhere")
        node = node[part]
    return node


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
