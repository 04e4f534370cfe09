"""Schemas of values: JSON Schema or Avro. Each says why a value does not fit, or shows its fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

Fields = Mapping[str, msgspec.Raw]
Reader = Callable[[bytes], Fields]
"""Gives the fields of a value (none where it is no object), or raises `Unfit`."""

NO_FIELDS: Fields = {}

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_anything = msgspec.json.Decoder()
_REASON = 300

FRAME = 5
"""Bytes before a value that name its schema in a registry: a zero, and the schema's number."""


class Unfit(ValueError):
    """A value does not fit its schema; the message is the reason."""


def any_value(value: bytes) -> Fields:
    """The reader of a topic without a schema: everything fits."""
    try:
        return _object.decode(value)
    except (msgspec.MsgspecError, ValueError):
        return NO_FIELDS


def make_reader(spec: Mapping[str, Any], folder: Path) -> Reader:
    """Make a reader from ``{"Type": "JSON" or "AVRO", "Definition": …}``, or with a ``File`` in ``folder``.

    Values may be ``Framed``: five bytes before them name their schema in a registry. Raises ValueError.
    """
    unknown = set(spec) - {"Type", "Definition", "File", "Framed"}
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))} (there are Type, Definition, File, Framed)")
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
    """Read a schema's file. Raises ValueError that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None


def json_reader(definition: Any, skip: int = 0) -> Reader:
    """Make the reader of a JSON Schema; ``skip`` bytes before each value are a frame. Raises ValueError."""
    # Both take a while to import, and most producers use neither.
    from jsonschema import SchemaError
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = validator_for(definition)
    try:
        kind.check_schema(definition)
    except SchemaError as error:
        raise ValueError(f"not a JSON Schema: {error.json_path}: {error.message}"[:_REASON]) from None
    # With a registry of its own nothing is fetched from where a $ref points.
    checker = kind(definition, registry=Registry(), format_checker=kind.FORMAT_CHECKER)

    def read(value: bytes) -> Fields:
        value = _unframed(value, skip)
        try:
            found = _anything.decode(value)
        except (msgspec.MsgspecError, ValueError) as error:
            raise Unfit(f"not JSON: {error}"[:_REASON]) from None
        try:
            wrong = best_match(checker.iter_errors(found))
        except Unresolvable as error:
            raise Unfit(f"the schema's reference {error.ref} leads nowhere"[:_REASON]) from None
        if wrong is not None:
            raise Unfit(f"{wrong.json_path}: {wrong.message}"[:_REASON])
        return _object.decode(value) if isinstance(found, dict) else NO_FIELDS

    return read


def avro_reader(definition: Any, skip: int = 0) -> Reader:
    """Make the reader of an Avro schema; ``skip`` bytes before each value are a frame. Raises ValueError."""
    from distributary.kafka import avro

    try:
        schema = avro.read(definition).schema
    except ValueError as error:
        raise ValueError(f"not an Avro schema: {error}"[:_REASON]) from None

    def read(value: bytes) -> Fields:
        try:
            found = avro.decode(_unframed(value, skip), schema)
        except Unfit:
            raise
        except ValueError as error:
            raise Unfit(f"not Avro of this schema: {error}"[:_REASON]) from None
        if not isinstance(found, dict):
            return NO_FIELDS
        return {name: msgspec.Raw(msgspec.json.encode(held)) for name, held in found.items()}

    return read


def _unframed(value: bytes, skip: int) -> bytes:
    if not skip:
        return value
    if len(value) < skip or value[0] != 0:
        raise Unfit("not framed: the first byte is not 0")
    return value[skip:]
