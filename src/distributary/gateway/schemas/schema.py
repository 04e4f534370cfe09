"""A schema as it was registered, and what a new one must get along with. Pure."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distributary.gateway.refuse import BAD_SCHEMA, refuse
from distributary.gateway.schemas import jsons
from distributary.gateway.schemas.avro import unreadable
from distributary.kafka import avro

KINDS = ("AVRO", "JSON")
MODES = (
    "NONE",
    *(word + more for word in ("BACKWARD", "FORWARD", "FULL") for more in ("", "_TRANSITIVE")),
)
"""What a new version must get along with: BACKWARD, it reads older data; FORWARD, older readers read its."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text and kind. Equal ones (however their JSON is ordered and spaced) have one identity."""

    kind: str
    text: str

    @property
    def identity(self) -> str:
        """What two equal schemas have in common."""
        return _identity(self.kind, self.text)

    def avro(self) -> avro.Avro:
        """Give it as Avro, read once."""
        return _avro(self.text)

    def json(self) -> Any:
        """Give it as a JSON Schema."""
        return _json(self.text)


def parse(text: Any, kind: Any = None, references: Any = None) -> Schema:
    """Read what was sent to be registered or looked up; raises GatewayError (422)."""
    kind = "AVRO" if kind is None else kind
    if kind not in KINDS:
        raise refuse(BAD_SCHEMA, f"schemaType {str(kind)[:40]!r} is not known", f"it is {' or '.join(KINDS)}")
    if references:
        raise refuse(BAD_SCHEMA, "schemas cannot refer to others here", "write what they share into each")
    if not isinstance(text, str) or not text.strip():
        raise refuse(BAD_SCHEMA, "the schema is missing", 'send it as a text: {"schema": "…"}')
    schema = Schema(kind, text)
    try:
        schema.avro() if kind == "AVRO" else schema.json()
    except ValueError as error:
        raise refuse(BAD_SCHEMA, f"the {kind} schema cannot be read: {error}") from None
    return schema


def incompatible(mode: str, new: Schema, older: Sequence[Schema]) -> list[str]:
    """Say why a new schema may not follow the older ones (oldest first) of its subject."""
    if mode == "NONE" or not older:
        return []
    problems = []
    for old in older if mode.endswith("_TRANSITIVE") else older[-1:]:
        if old.kind != new.kind:
            problems.append(f"it is {new.kind}, and an older version is {old.kind}")
            continue
        if not mode.startswith("FORWARD"):
            problems += [f"it cannot read older data: {why}" for why in _unreadable(new, old)]
        if not mode.startswith("BACKWARD"):
            problems += [f"older readers cannot read it: {why}" for why in _unreadable(old, new)]
    return list(dict.fromkeys(problems))


def _unreadable(reader: Schema, writer: Schema) -> list[str]:
    if reader.kind == "AVRO":
        return unreadable(reader.avro(), writer.avro())
    return jsons.uncovered(reader.json(), writer.json())


@functools.lru_cache(1024)
def _avro(text: str) -> avro.Avro:
    return avro.read(_loaded(text))


@functools.lru_cache(1024)
def _json(text: str) -> Any:
    return jsons.read(_loaded(text))


@functools.lru_cache(4096)
def _identity(kind: str, text: str) -> str:
    return f"{kind} {json.dumps(_loaded(text), sort_keys=True, separators=(',', ':'), ensure_ascii=False)}"


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at line {error.lineno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
