"""A schema as it was registered, and what a new one must get along with. Pure."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distributary.gateway.refuse import BAD_SCHEMA, refuse
from distributary.gateway.schemas import jsons
from distributary.gateway.schemas.avro import check_namespaces, unreadable
from distributary.gateway.schemas.normal import normal
from distributary.kafka import avro

KINDS = ("AVRO", "JSON")
MORE = ("references", "metadata", "ruleSet")
MODES = (
    "NONE",
    *(word + more for word in ("BACKWARD", "FORWARD", "FULL") for more in ("", "_TRANSITIVE")),
)
"""What a new version must get along with: BACKWARD, it reads older data; FORWARD, older readers read its."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text and kind. Equal ones, in whatever words, have one identity.

    ``more`` is what else another registry said of it (`MORE`), as JSON: it is shown, and means nothing here.
    """

    kind: str
    text: str
    more: str = ""

    @property
    def identity(self) -> str:
        """What two equal schemas have in common."""
        return f"{_identity(self.kind, self.text)}{self.more}"

    def others(self) -> dict[str, Any]:
        """Give what else another registry said of it."""
        return dict(_loaded(self.more)) if self.more else {}

    def references(self) -> tuple[tuple[str, int], ...]:
        """Name the versions of subjects that it refers to."""
        return _references(self.more) if self.more else ()

    def normal(self) -> Schema:
        """Give it in the words in which all equal ones are the same."""
        document = _normal(self.kind, self.text)
        return Schema(self.kind, json.dumps(document, separators=(",", ":"), ensure_ascii=False))

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
        if kind == "AVRO":
            check_namespaces(schema.avro())
        else:
            schema.json()
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
    if reader.references() or writer.references():
        return ["it refers to other schemas, which are not looked into here"]
    try:
        if reader.kind == "AVRO":
            return unreadable(reader.avro(), writer.avro())
        return jsons.uncovered(reader.json(), writer.json())
    except ValueError as error:  # only another registry has written such a one
        return [f"a schema cannot be read: {error}"]


@functools.lru_cache(1024)
def _references(more: str) -> tuple[tuple[str, int], ...]:
    found = _loaded(more).get("references") or ()
    return tuple((str(one.get("subject")), one.get("version", 0)) for one in found if isinstance(one, dict))


@functools.lru_cache(1024)
def _avro(text: str) -> avro.Avro:
    return avro.read(_loaded(text))


@functools.lru_cache(1024)
def _json(text: str) -> Any:
    return jsons.read(_loaded(text))


@functools.lru_cache(4096)
def _identity(kind: str, text: str) -> str:
    return f"{kind} {json.dumps(_normal(kind, text), sort_keys=True, ensure_ascii=False)}"


def _normal(kind: str, text: str) -> Any:
    try:
        document = _loaded(text)
        return normal(document) if kind == "AVRO" else json.loads(json.dumps(document, sort_keys=True))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text  # what cannot be read was written by others, and is only equal to itself


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at line {error.lineno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
