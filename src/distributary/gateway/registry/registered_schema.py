"""A registered schema, and whether data of one can be read with another. Pure."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.registry import avro_compatibility, json_compatibility
from distributary.gateway.registry.avro_compatibility import TooManySteps, canonical_form
from distributary.kafka import avro, schema_cost

KINDS = ("AVRO", "JSON")
FOREIGN_FIELDS = ("references", "metadata", "ruleSet")
COMPATIBILITY_LEVELS = (
    "NONE",
    *(word + suffix for word in ("BACKWARD", "FORWARD", "FULL") for suffix in ("", "_TRANSITIVE")),
)
"""BACKWARD: a new version reads older data; FORWARD: older readers read its data; FULL: both."""

_QUICK_STEPS = 500
"""Steps of a comparison that runs inline; a longer one runs with a deadline."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text and kind. Schemas that mean the same have one identity, however they are written.

    ``foreign`` are the `FOREIGN_FIELDS` that another registry wrote, as JSON: shown, but not interpreted.
    """

    kind: str
    text: str
    foreign: str = ""

    @property
    def identity(self) -> str:
        """A string that is the same for all schemas with the same meaning."""
        return f"{_identity(self.kind, self.text)}{self.foreign}"

    def foreign_fields(self) -> dict[str, Any]:
        """Return the fields that another registry wrote."""
        return dict(_load(self.foreign)) if self.foreign else {}

    def references(self) -> tuple[tuple[str, int], ...]:
        """List the (subject, version) pairs that it refers to."""
        return _references(self.foreign) if self.foreign else ()

    def canonical(self) -> Schema:
        """Return it in the form that all schemas with its meaning share."""
        document = _canonical(self.kind, self.text)
        return Schema(self.kind, json.dumps(document, separators=(",", ":"), ensure_ascii=False))

    @property
    def cost(self) -> int | None:
        """What checking a value by it, or comparing it, may cost (`schema_cost`); None: it may be slow."""
        return _cost(self.kind, self.text)

    def avro(self) -> avro.AvroSchema:
        """Return it as a parsed Avro schema (cached)."""
        return _avro(self.text)

    def json(self) -> Any:
        """Return it as a parsed JSON Schema (cached)."""
        return _json(self.text)


def parse_schema(text: Any, kind: Any = None, references: Any = None) -> Schema:
    """Parse a schema that was sent to be registered or looked up; raises GatewayError (422)."""
    kind = "AVRO" if kind is None else kind
    if kind not in KINDS:
        raise _invalid(f"unknown schemaType {str(kind)[:40]!r}", f"use {' or '.join(KINDS)}")
    if references:
        raise _invalid("references to other schemas are not supported", "put what they share into each")
    if not isinstance(text, str) or not text.strip():
        raise _invalid("the schema is missing", 'send it as a string: {"schema": "…"}')
    schema = Schema(kind, text)
    try:
        text.encode()  # half of a surrogate pair, which JSON allows, cannot be stored
        schema_cost.check_size(text)
        schema_cost.check_shape(_load(text))
        if kind == "AVRO":
            avro_compatibility.check_namespaces(schema.avro())
        else:
            schema.json()
    except ValueError as error:
        raise _invalid(f"invalid {kind} schema: {error}") from None
    return schema


def _invalid(message: str, hint: str = "") -> Exception:
    return api_error(RegistryCode.INVALID_SCHEMA, message, hint)


def is_quick_to_parse(text: Any, kind: Any = None) -> bool:
    """Whether `parse_schema` is quick for a text: it is small, and has no patterns to compile."""
    if not isinstance(text, str):
        return True
    if kind != "JSON" or len(text) > schema_cost.SMALL:
        return len(text) <= schema_cost.SMALL
    try:
        return schema_cost.json_cost(_load(text)) is not None
    except ValueError:
        return True


def unreadable(reader: Schema, writer: Schema) -> list[str]:
    """List why data of one schema cannot always be read with another of the same kind."""
    return _compare(reader, writer, avro_compatibility.MAX_STEPS, json_compatibility.MAX_STEPS)


def unreadable_if_quick(reader: Schema, writer: Schema) -> list[str] | None:
    """Do the same as `unreadable` if that takes few steps; else return None."""
    if reader.cost is None or writer.cost is None:
        return None
    try:
        return _compare(reader, writer, _QUICK_STEPS, _QUICK_STEPS)
    except TooManySteps:
        return None


def _compare(reader: Schema, writer: Schema, avro_steps: int, json_steps: int) -> list[str]:
    if reader.references() or writer.references():
        return ["it refers to other schemas, which is not supported here"]
    try:
        if reader.kind == "AVRO":
            return avro_compatibility.unreadable(reader.avro(), writer.avro(), avro_steps)
        return json_compatibility.uncovered(reader.json(), writer.json(), json_steps)
    except ValueError as error:  # only another registry can have written such a schema
        return [f"invalid schema: {error}"]


@functools.lru_cache(4096)
def _cost(kind: str, text: str) -> int | None:
    if len(text) > schema_cost.SMALL:
        return None
    try:
        if kind == "AVRO":
            return schema_cost.avro_cost(_avro(text))
        return schema_cost.json_cost(_load(text)) if kind == "JSON" else None
    except ValueError:
        return None


@functools.lru_cache(1024)
def _references(foreign: str) -> tuple[tuple[str, int], ...]:
    listed = _load(foreign).get("references") or ()
    return tuple((str(one.get("subject")), one.get("version", 0)) for one in listed if isinstance(one, dict))


@functools.lru_cache(1024)
def _avro(text: str) -> avro.AvroSchema:
    return avro.parse_schema(_load(text))


@functools.lru_cache(1024)
def _json(text: str) -> Any:
    return json_compatibility.read(_load(text))


@functools.lru_cache(4096)
def _identity(kind: str, text: str) -> str:
    return f"{kind} {json.dumps(_canonical(kind, text), sort_keys=True, ensure_ascii=False)}"


def _canonical(kind: str, text: str) -> Any:
    try:
        document = _load(text)
        return (
            canonical_form(document) if kind == "AVRO" else json.loads(json.dumps(document, sort_keys=True))
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text  # an invalid schema of another registry is equal only to itself


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at line {error.lineno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
