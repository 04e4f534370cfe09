"""Schemas of values: JSON Schema or Avro. Each returns a value's fields, or says why it does not match."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from distributary.kafka import schema_cost

Fields = Mapping[str, msgspec.Raw]
Reader = Callable[[bytes], Fields]
"""Returns the fields of a value (none if it is not an object), or raises `SchemaMismatch`."""

NO_FIELDS: Fields = {}

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_anything = msgspec.json.Decoder()
_MAX_REASON = 300

FRAME = 5
"""Bytes before a value that name its schema in a registry: a zero, and the schema's id."""


class SchemaMismatch(ValueError):
    """A value does not match its schema; the message is the reason."""


@dataclass(frozen=True, slots=True)
class SchemaReader:
    """The reader of a schema: ``kind`` is JSON or AVRO, ``skip`` the bytes of a frame before each value.

    ``cost`` is that of the schema (`schema_cost`): None if values may take long.
    """

    kind: str
    text: str
    skip: int
    cost: int | None
    read: Reader

    def __call__(self, value: bytes) -> Fields:
        """Read a value's fields, or raise `SchemaMismatch`; how long that takes depends on the value."""
        return self.read(value)

    def is_cheap(self, value: bytes) -> bool:
        """Whether the value may be read without a deadline."""
        return schema_cost.is_cheap(self.cost, value)


def read_value(kind: str, text: str, skip: int, value: bytes) -> dict[str, bytes]:
    """Read a value by the fields of a `SchemaReader`; for a process with a deadline."""
    return {name: bytes(raw) for name, raw in _reader(kind, text, skip)(value).items()}


@functools.lru_cache(64)
def _reader(kind: str, text: str, skip: int) -> Reader:
    return (json_reader if kind == "JSON" else avro_reader)(json.loads(text), skip)


def any_value(value: bytes) -> Fields:
    """The reader of a topic without a schema: everything matches."""
    try:
        return _object.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return NO_FIELDS


def create_reader(spec: Mapping[str, Any], folder: Path) -> Reader:
    """Create a reader from ``{"Type": "JSON" or "AVRO", "Definition": …}``, or with a ``File`` in ``folder``.

    ``Framed`` values have five bytes before them that name their schema in a registry. Raises ValueError.
    """
    unknown = set(spec) - {"Type", "Definition", "File", "Framed"}
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))} (expected Type, Definition, File, Framed)")
    if ("Definition" in spec) == ("File" in spec):
        raise ValueError("expected either a Definition or a File")
    definition = spec["Definition"] if "Definition" in spec else read_definition(folder / str(spec["File"]))
    skip = FRAME if spec.get("Framed") else 0
    match spec.get("Type"):
        case "JSON":
            return json_reader(definition, skip)
        case "AVRO":
            return avro_reader(definition, skip)
        case other:
            raise ValueError(f"expected the Type JSON or AVRO, got {json.dumps(other)}")


def read_definition(path: Path) -> Any:
    """Read a schema file. Raises ValueError that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None


def json_reader(definition: Any, skip: int = 0) -> SchemaReader:
    """The reader of a JSON Schema; ``skip`` bytes before each value are a frame. Raises ValueError."""
    # It is slow to import, and most producers do not use it.
    from jsonschema.validators import Draft202012Validator

    from distributary.kafka import json_schema

    try:
        json_schema.check_schema(definition, Draft202012Validator)
    except ValueError as error:
        raise ValueError(f"not a JSON Schema: {error}"[:_MAX_REASON]) from None
    validator = json_schema.create_validator(definition, Draft202012Validator, formats=True)

    def read(value: bytes) -> Fields:
        value = _unframed(value, skip)
        try:
            found = _anything.decode(value)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise SchemaMismatch(f"not valid JSON: {error}"[:_MAX_REASON]) from None
        if wrong := json_schema.mismatch(validator, found):
            raise SchemaMismatch(wrong)
        return _object.decode(value) if isinstance(found, dict) else NO_FIELDS

    return SchemaReader("JSON", json.dumps(definition), skip, schema_cost.json_cost(definition), read)


def avro_reader(definition: Any, skip: int = 0) -> SchemaReader:
    """The reader of an Avro schema; ``skip`` bytes before each value are a frame. Raises ValueError."""
    from distributary.kafka import avro

    try:
        known = avro.parse_schema(definition)
    except ValueError as error:
        raise ValueError(f"not an Avro schema: {error}"[:_MAX_REASON]) from None

    def read(value: bytes) -> Fields:
        try:
            found = avro.decode(_unframed(value, skip), known.schema)
        except SchemaMismatch:
            raise
        except ValueError as error:
            raise SchemaMismatch(f"not valid Avro for this schema: {error}"[:_MAX_REASON]) from None
        if not isinstance(found, dict):
            return NO_FIELDS
        return {name: msgspec.Raw(msgspec.json.encode(field)) for name, field in found.items()}

    return SchemaReader("AVRO", json.dumps(definition), skip, schema_cost.avro_cost(known), read)


def _unframed(value: bytes, skip: int) -> bytes:
    if not skip:
        return value
    if len(value) < skip or value[0] != 0:
        raise SchemaMismatch("not framed: the first byte is not 0")
    return value[skip:]
