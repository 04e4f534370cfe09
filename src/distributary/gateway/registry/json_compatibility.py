"""JSON Schemas: checking them, and whether everything that one accepts is accepted by another too. Pure.

The comparison is conservative: it says yes only where the rules of `_Comparison` prove it. Keywords without a
rule must be equal in both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from referencing.exceptions import Unresolvable

from distributary.gateway.registry.avro_compatibility import TooManySteps
from distributary.kafka import json_schema
from distributary.kafka.json_schema import create_validator, dialect

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_SAME = {
    "string": ("pattern", "format", "contentEncoding", "contentMediaType"),
    "array": ("prefixItems", "additionalItems"),
    "object": ("propertyNames", "dependencies", "dependentRequired", "dependentSchemas"),
    "": ("not", "if", "then", "else", "$dynamicRef", "$recursiveRef"),
}
"""Keywords without a rule, by the type of value that they constrain."""

_WHOLE = ("unevaluatedItems", "unevaluatedProperties", "contains")
"""Keywords that depend on others: a reader's subschema that has one must be equal to the writer's."""

_OF = {
    **dict.fromkeys(("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "multipleOf"), "number"),
    **dict.fromkeys(("maxLength", "minLength"), "string"),
    **dict.fromkeys(("maxItems", "minItems", "uniqueItems"), "array"),
    **dict.fromkeys(("maxProperties", "minProperties"), "object"),
}
_MAX_DEPTH = 64
MAX_STEPS = 20_000
"""Nested alternatives multiply; a comparison that needs more steps is given up."""


def read(document: Any) -> Any:
    """Check a schema by its dialect (``$schema``, draft 7 by default); raises ValueError."""
    json_schema.check_schema(document)
    return document


def invalid(schema: Any, value: Any) -> str:
    """Return why a value does not match a schema; "" if it does."""
    return json_schema.mismatch(create_validator(schema), value)


def uncovered(reader: Any, writer: Any, max_steps: int = MAX_STEPS) -> list[str]:
    """List why ``reader`` may not accept everything that ``writer`` accepts; empty if it surely does.

    Raises TooManySteps if ``max_steps`` is below the default and is not enough.
    """
    if _text(reader) == _text(writer):
        return []
    if dialect(reader) is not dialect(writer):
        return ["/$schema: the two have different dialects"]
    try:
        return _Comparison(reader, writer, max_steps).check(reader, writer, "", 0)
    except (_Unsupported, RecursionError) as error:
        return [f"/: {error or 'it is nested too deeply'}"]


class _Unsupported(Exception):
    """The schemas cannot be compared."""


class _Comparison:
    """One comparison of two documents, whose references point into themselves."""

    def __init__(self, reader: Any, writer: Any, max_steps: int) -> None:
        self._reader, self._writer = reader, writer
        self._visited: set[tuple[str, str]] = set()
        self._max_steps = max_steps
        self._steps = 0

    def check(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        """List what keeps ``reader`` from covering ``writer``, two subschemas at ``path``."""
        self._steps += 1
        if self._steps > self._max_steps != MAX_STEPS:
            raise TooManySteps
        if depth > _MAX_DEPTH or self._steps > MAX_STEPS:
            raise _Unsupported("the schemas are too large or nested too deeply to be compared")
        if writer is False or reader is True or reader == {} or _equal(reader, writer):
            return []
        if reader is False:
            return [f"{path or '/'}: the reader accepts nothing here"]
        writer = {} if writer is True else writer
        if "$ref" in reader or "$ref" in writer:
            return self._check_references(reader, writer, path, depth)
        if "const" in writer or "enum" in writer:
            return self._check_values(reader, writer, path)
        if self._covered_by_branch(reader, writer, path, depth):
            return []
        problems = self._check_types(reader, writer, path)
        problems += [f"{path}/{name}: it must be equal in both" for name in _WHOLE if name in reader]
        written_types = _types(writer)
        for kind, names in _SAME.items():
            if not kind or kind in written_types:
                problems += self._check_equal(reader, writer, names, path)
        for name, kind in _OF.items():
            if name in reader and kind in _with_number(written_types) and not _narrower(name, reader, writer):
                problems.append(f"{path}/{name}: the reader accepts less")
        if "object" in written_types:
            problems += self._check_objects(reader, writer, path, depth)
        if "array" in written_types:
            problems += self._check_arrays(reader, writer, path, depth)
        return problems + self._check_combinations(reader, writer, path, depth)

    def _check_references(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        pair = (_text(reader), _text(writer))
        # A pair that is being compared is met again only one level deeper in the data, which are finite.
        if pair in self._visited:
            return []
        self._visited.add(pair)
        if "$ref" in writer:  # its siblings count in some dialects only, so they do not count here
            return self.check(reader, _resolve(self._writer, writer["$ref"]), path, depth + 1)
        siblings = {name: value for name, value in reader.items() if name != "$ref"}
        return self.check(_resolve(self._reader, reader["$ref"]), writer, path, depth + 1) + self.check(
            siblings, writer, path, depth + 1
        )

    def _check_values(self, reader: Any, writer: Any, path: str) -> list[str]:
        """Check a writer that lists its values: the reader must accept each of them."""
        values = [writer["const"]] if "const" in writer else writer["enum"]
        validator = create_validator(self._reader)
        try:
            rejected = [value for value in values if next(validator.descend(value, reader), None) is not None]
        except Unresolvable as error:
            raise _Unsupported(f"the reference {error.ref!r} cannot be resolved") from None
        return [f"{path or '/'}: the reader rejects {_text(value)[:80]}" for value in rejected]

    def _covered_by_branch(self, reader: Any, writer: Any, path: str, depth: int) -> bool:
        """Whether the writer's alternatives alone prove it: each of them (of allOf: one) is covered."""
        for name in ("anyOf", "oneOf"):
            if name in writer and not any(self._try(reader, branch, path, depth) for branch in writer[name]):
                return True
        return any(not self._try(reader, branch, path, depth) for branch in writer.get("allOf", ()))

    def _try(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        """Check an alternative: if it fails, its visited pairs are forgotten."""
        before = set(self._visited)
        problems = self.check(reader, writer, path, depth + 1)
        if problems:
            self._visited = before
        return problems

    def _check_types(self, reader: Any, writer: Any, path: str) -> list[str]:
        rejected = sorted(_types(writer) - _with_integer(_types(reader)))
        problems = [f"{path or '/'}: {', '.join(rejected)} is not accepted by the reader"] if rejected else []
        if "enum" in reader or "const" in reader:
            problems.append(f"{path or '/'}: the reader accepts only some values")
        return problems

    def _check_equal(self, reader: Any, writer: Any, names: Iterable[str], path: str) -> list[str]:
        return [
            f"{path}/{name}: it may differ from the writer's"
            for name in names
            if name in reader and (name not in writer or not _equal(reader[name], writer[name]))
        ]

    def _check_objects(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        missing = [name for name in reader.get("required", ()) if name not in writer.get("required", ())]
        problems = [f"{path}/{name}: the reader requires it" for name in missing]
        if "patternProperties" in reader or "patternProperties" in writer:
            names = ("patternProperties", "properties", "additionalProperties")
            if "patternProperties" not in reader and not any(name in reader for name in names[1:]):
                return problems
            return problems + [
                f"{path}/{name}: with patternProperties it must be equal in both"
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

    def _check_arrays(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        read, written = reader.get("items", True), writer.get("items", True)
        if isinstance(read, list) or isinstance(written, list) or "prefixItems" in writer:
            prefixed = _equal(reader.get("prefixItems"), writer.get("prefixItems"))
            if "items" not in reader or (prefixed and _equal(read, written)):
                return []
            return [f"{path}/items: a list of schemas must be equal in both"]
        return self.check(read, written, f"{path}/items", depth + 1)

    def _check_combinations(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        problems = [
            problem
            for branch in reader.get("allOf", ())
            for problem in self.check(branch, writer, path, depth + 1)
        ]
        for name in ("anyOf", "oneOf"):
            if name not in reader:
                continue
            # A branch of oneOf surely matches alone only if no two branches accept the same type.
            usable = name == "anyOf" or _disjoint(reader[name])
            if not usable or all(self._try(branch, writer, path, depth) for branch in reader[name]):
                problems.append(f"{path}/{name}: no branch surely accepts it")
        return problems


def _types(schema: Any) -> set[str]:
    types = schema.get("type", TYPES) if isinstance(schema, dict) else TYPES
    return {types} if isinstance(types, str) else set(types)


def _with_integer(types: set[str]) -> set[str]:
    """Add integer to number: every integer is a number."""
    return types | ({"integer"} if "number" in types else set())


def _with_number(types: set[str]) -> set[str]:
    """Add number to integer: keywords for numbers constrain both."""
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
    covered: set[str] = set()
    for branch in branches:
        if not isinstance(branch, dict) or "type" not in branch:
            return False
        types = _with_integer(_types(branch))
        if types & covered:
            return False
        covered |= types
    return True


def _equal(one: Any, other: Any) -> bool:
    """Whether two subschemas mean the same: equal ones with references may not."""
    if one != other:  # quick, but 1 equals True here
        return False
    text = _text(one)
    return text == _text(other) and '"$ref"' not in text and 'Ref"' not in text


def _resolve(document: Any, reference: Any) -> Any:
    if reference == "#":
        return document
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise _Unsupported(f"the reference {reference!r} points outside the schema")
    node = document
    for part in reference[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or part not in node:
            raise _Unsupported(f"the reference {reference!r} cannot be resolved")
        node = node[part]
    return node


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
