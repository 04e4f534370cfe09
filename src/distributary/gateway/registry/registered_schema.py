"""A schema as it was registered, and what a new one must get along with. Pure."""

from __future__ import annotations

import functools
import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.registry import avro_compatibility as avro_pairs
from distributary.gateway.registry import json_compatibility
from distributary.gateway.registry.avro_canonical_form import normal
from distributary.kafka import avro, schema_cost

KINDS = ("AVRO", "JSON")
MORE = ("references", "metadata", "ruleSet")
MODES = (
    "NONE",
    *(word + more for word in ("BACKWARD", "FORWARD", "FULL") for more in ("", "_TRANSITIVE")),
)
"""What a new version must get along with: BACKWARD, it reads older data; FORWARD, older readers read its."""

_QUICK = 500
"""Steps of a comparison that is made at once; one that takes more has a deadline."""


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

    @property
    def cost(self) -> int | None:
        """What it may cost to check a value by it, or to compare it (`schema_cost`); None: it may be slow."""
        return _cost(self.kind, self.text)

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
        raise api_error(
            RegistryCode.INVALID_SCHEMA,
            f"schemaType {str(kind)[:40]!r} is not known",
            f"it is {' or '.join(KINDS)}",
        )
    if references:
        raise api_error(
            RegistryCode.INVALID_SCHEMA,
            "schemas cannot refer to others here",
            "write what they share into each",
        )
    if not isinstance(text, str) or not text.strip():
        raise api_error(
            RegistryCode.INVALID_SCHEMA, "the schema is missing", 'send it as a text: {"schema": "…"}'
        )
    schema = Schema(kind, text)
    try:
        text.encode()  # half of a surrogate pair, which JSON lets pass, cannot be kept
        schema_cost.check_size(text)
        schema_cost.check_shape(_loaded(text))
        if kind == "AVRO":
            avro_pairs.check_namespaces(schema.avro())
        else:
            schema.json()
    except ValueError as error:
        raise api_error(RegistryCode.INVALID_SCHEMA, f"the {kind} schema cannot be read: {error}") from None
    return schema


def is_quick_to_parse(text: Any, kind: Any = None) -> bool:
    """Say whether `parse` takes no longer than it should: it is small, and has no patterns to compile."""
    if not isinstance(text, str):
        return True
    if kind != "JSON" or len(text) > schema_cost.SMALL:
        return len(text) <= schema_cost.SMALL
    try:
        return schema_cost.json_cost(_loaded(text)) is not None
    except ValueError:
        return True


def incompatible(mode: str, new: Schema, older: Sequence[Schema]) -> list[str]:
    """Say why a new schema may not follow the older ones (oldest first) of its subject."""
    asking = comparing(mode, new, older)
    try:
        pair = next(asking)
        while True:
            pair = asking.send(unreadable_by(*pair))
    except StopIteration as end:
        return list(end.value)


def comparing(
    mode: str, new: Schema, older: Sequence[Schema]
) -> Generator[tuple[Schema, Schema], list[str], list[str]]:
    """Do as `incompatible`: asks for a reader and a writer at a time what `unreadable_by` says of them."""
    problems: list[str] = []
    if mode == "NONE" or not older:
        return problems
    for old in older if mode.endswith("_TRANSITIVE") else older[-1:]:
        if old.kind != new.kind:
            problems.append(f"it is {new.kind}, and an older version is {old.kind}")
            continue
        if not mode.startswith("FORWARD"):
            problems += [f"it cannot read older data: {why}" for why in (yield new, old)]
        if not mode.startswith("BACKWARD"):
            problems += [f"older readers cannot read it: {why}" for why in (yield old, new)]
    return list(dict.fromkeys(problems))


def unreadable_by(reader: Schema, writer: Schema) -> list[str]:
    """Say why what one schema writes cannot all be read with another of its kind."""
    return _unreadable(reader, writer, avro_pairs.MAX_STEPS, json_compatibility.MAX_STEPS)


def quickly_unreadable_by(reader: Schema, writer: Schema) -> list[str] | None:
    """Say the same where it takes few steps; None where it may not."""
    if reader.cost is None or writer.cost is None:
        return None
    try:
        return _unreadable(reader, writer, _QUICK, _QUICK)
    except avro_pairs.TooManySteps:
        return None


def _unreadable(reader: Schema, writer: Schema, avro_steps: int, json_steps: int) -> list[str]:
    if reader.references() or writer.references():
        return ["it refers to other schemas, which are not looked into here"]
    try:
        if reader.kind == "AVRO":
            return avro_pairs.unreadable(reader.avro(), writer.avro(), avro_steps)
        return json_compatibility.uncovered(reader.json(), writer.json(), json_steps)
    except ValueError as error:  # only another registry has written such a one
        return [f"a schema cannot be read: {error}"]


@functools.lru_cache(4096)
def _cost(kind: str, text: str) -> int | None:
    if len(text) > schema_cost.SMALL:
        return None
    try:
        if kind == "AVRO":
            return schema_cost.avro_cost(_avro(text))
        return schema_cost.json_cost(_loaded(text)) if kind == "JSON" else None
    except ValueError:
        return None


@functools.lru_cache(1024)
def _references(more: str) -> tuple[tuple[str, int], ...]:
    found = _loaded(more).get("references") or ()
    return tuple((str(one.get("subject")), one.get("version", 0)) for one in found if isinstance(one, dict))


@functools.lru_cache(1024)
def _avro(text: str) -> avro.Avro:
    return avro.read(_loaded(text))


@functools.lru_cache(1024)
def _json(text: str) -> Any:
    return json_compatibility.read(_loaded(text))


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
