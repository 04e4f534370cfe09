"""The records of the schemas topic, in the format of Confluent's registry. Pure.

Confluent's registry writes more than is supported here. What a record has beyond a schema's text is stored
and shown unchanged; subjects of other contexts, which have ids of their own, are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.registry.registered_schema import FOREIGN_FIELDS, Schema

Record = tuple[bytes, bytes | None]
"""The key and value of a record; None deletes the key."""

DEFAULT_CONTEXT = ":.:"
GLOBAL_SUBJECT = ":.__GLOBAL:"
"""Confluent's name for the settings of all contexts, which apply where nothing more specific is set."""

_KNOWN_FIELDS = ("subject", "version", "id", "schemaType", "schema", "deleted")


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A schema under a subject. ``rest`` are the fields of its record that only other registries use."""

    subject: str
    number: int
    id: int
    schema: Schema
    deleted: bool = False
    rest: Mapping[str, Any] = field(default_factory=dict)


class VersionRemoved(NamedTuple):
    """A version was deleted for good."""

    subject: str
    number: int


class SubjectHidden(NamedTuple):
    """All versions of a subject up to a number were soft-deleted."""

    subject: str
    last: int


class SubjectCleared(NamedTuple):
    """The soft-deleted versions of a subject ("": of all) were removed for good."""

    subject: str


class Setting(NamedTuple):
    """The CONFIG or MODE of a subject ("": of all). None: it is no longer set."""

    kind: str
    subject: str
    value: Mapping[str, Any] | None


class LastId(NamedTuple):
    """The highest id that was ever assigned."""

    id: int


class ForeignEntry(NamedTuple):
    """An entry of another registry that is left alone; ``id`` is the schema id that it occupies, if any."""

    what: str
    id: int = 0


Entry = (
    SchemaVersion | VersionRemoved | SubjectHidden | SubjectCleared | Setting | LastId | ForeignEntry | None
)


def parse_record(key: bytes | None, value: bytes | None) -> Entry:
    """Parse a record; None for one without meaning. Raises ValueError, TypeError or KeyError."""
    parsed_key = json.loads(key or b"null")
    parsed = json.loads(value) if value else None
    kind = parsed_key.get("keytype") if isinstance(parsed_key, dict) else None
    if kind not in ("SCHEMA", "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONFIG", "MODE", "IDS"):
        return None
    name = parsed_key.get("subject")
    if not isinstance(parsed, dict | None) or not isinstance(name, str | None):
        raise ValueError(f"its key is {str(parsed_key)[:120]}, and its value is not an object")
    if kind == "IDS":
        return LastId(int(parsed["last"])) if parsed else None
    subject = strip_context(name or "")
    if subject is None:
        return ForeignEntry(f"subjects of the context {context_of(str(name))!r}")
    if kind == "SCHEMA":
        return _version(subject, int(parsed_key["version"]), parsed)
    if kind in ("CONFIG", "MODE"):
        return Setting(kind, subject, parsed)
    if parsed is None:
        return None
    if kind == "DELETE_SUBJECT":
        return SubjectHidden(subject, int(parsed["version"]))
    return SubjectCleared(subject)


def _version(subject: str, number: int, value: Any) -> Entry:
    if value is None:
        return VersionRemoved(subject, number)
    id = int(value["id"])
    try:
        foreign = {name: value[name] for name in FOREIGN_FIELDS if value.get(name)}
        return SchemaVersion(
            subject=subject,
            number=number,
            id=id,
            schema=Schema(
                kind=value.get("schemaType") or "AVRO",
                text=str(value["schema"]),
                foreign=_json(foreign) if foreign else "",
            ),
            deleted=bool(value.get("deleted")),
            rest={name: item for name, item in value.items() if name not in _KNOWN_FIELDS},
        )
    except (ValueError, TypeError, KeyError) as error:
        return ForeignEntry(f"version {number} of the subject {subject!r}, which is not valid ({error})", id)


def strip_context(subject: str) -> str | None:
    """Return a subject's name without the default context; None for a subject of another context."""
    if subject == GLOBAL_SUBJECT or not subject.startswith(":."):
        return subject
    return subject.removeprefix(DEFAULT_CONTEXT) if subject.startswith(DEFAULT_CONTEXT) else None


def local_subject(subject: str) -> str:
    """Return a subject's name without the default context; raises GatewayError for another context."""
    name = strip_context(subject)
    if name is None or name == GLOBAL_SUBJECT:
        raise api_error(
            RegistryCode.INVALID_SUBJECT,
            f"{subject[:80]!r} is a subject of the context {context_of(subject)!r}",
            "only subjects of the default context are supported",
        )
    return name


def context_of(subject: str) -> str:
    """Return the name of the context of a qualified subject."""
    return subject[1:].partition(":")[0]


def version_record(version: SchemaVersion) -> Record:
    """Create the record of a version."""
    value = {
        "subject": version.subject,
        "version": version.number,
        "id": version.id,
        "schemaType": version.schema.kind,
        "schema": version.schema.text,
        "deleted": version.deleted,
        **version.rest,
    }
    return _key("SCHEMA", version.subject, version=version.number), _json(value).encode()


def tombstone(version: SchemaVersion) -> Record:
    """Create the record that deletes a version for good."""
    return _key("SCHEMA", version.subject, version=version.number), None


def config_record(subject: str, config: Mapping[str, Any] | None) -> Record:
    """Create the record of a subject's config ("" for the global one); None removes it."""
    return _key("CONFIG", subject or None), _json(config).encode() if config else None


def last_id_record(id: int) -> Record:
    """Create the record of the highest id that was ever assigned."""
    return _key("IDS"), _json({"last": id}).encode()


def _key(kind: str, subject: str | None = None, **more: Any) -> bytes:
    key = {"keytype": kind, "subject": subject, **more, "magic": 1 if kind == "SCHEMA" else 0}
    return _json(key).encode()


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
