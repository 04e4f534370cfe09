"""The records of the schemas topic, which have the shape of Confluent's own: read and written. Pure.

Confluent's registry writes more than is kept here. What is said of a schema beyond its text is kept and shown
as it stands; subjects of other contexts, which have ids of their own, are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.registry.registered_schema import MORE, Schema

Record = tuple[bytes, bytes | None]
"""The key and value of a record; None deletes the key."""

DEFAULT = ":.:"
EVERYWHERE = ":.__GLOBAL:"
"""Confluent's name for the settings of all contexts, which count where nothing nearer is set."""

_OWN = ("subject", "version", "id", "schemaType", "schema", "deleted")


@dataclass(frozen=True, slots=True)
class Version:
    """A schema under a subject. ``rest`` are fields of its record that only other registries know."""

    subject: str
    number: int
    id: int
    schema: Schema
    deleted: bool = False
    rest: Mapping[str, Any] = field(default_factory=dict)


class Gone(NamedTuple):
    """A version was deleted for good."""

    subject: str
    number: int


class Hidden(NamedTuple):
    """All versions of a subject up to a number were deleted."""

    subject: str
    last: int


class Cleared(NamedTuple):
    """The deleted versions of a subject ("": of all) are gone for good."""

    subject: str


class Setting(NamedTuple):
    """What is set for a subject ("": for all): its CONFIG or its MODE. None: no longer anything."""

    kind: str
    subject: str
    said: Mapping[str, Any] | None


class LastId(NamedTuple):
    """The highest id that was ever given."""

    id: int


class Foreign(NamedTuple):
    """Something of another registry that is left alone; ``id`` is the schema id that it takes, if any."""

    what: str
    id: int = 0


Entry = Version | Gone | Hidden | Cleared | Setting | LastId | Foreign | None


def read(key: bytes | None, value: bytes | None) -> Entry:
    """Read a record; None for one that says nothing. Raises ValueError, TypeError or KeyError."""
    where = json.loads(key or b"null")
    said = json.loads(value) if value else None
    kind = where.get("keytype") if isinstance(where, dict) else None
    if kind not in ("SCHEMA", "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONFIG", "MODE", "IDS"):
        return None
    named = where.get("subject")
    if not isinstance(said, dict | None) or not isinstance(named, str | None):
        raise ValueError(f"its key is {str(where)[:120]}, and its value no object")
    if kind == "IDS":
        return LastId(int(said["last"])) if said else None
    subject = local(named or "")
    if subject is None:
        return Foreign(f"subjects of the context {context_of(str(named))!r}")
    if kind == "SCHEMA":
        return _version(subject, int(where["version"]), said)
    if kind in ("CONFIG", "MODE"):
        return Setting(kind, subject, said)
    if said is None:
        return None
    return Hidden(subject, int(said["version"])) if kind == "DELETE_SUBJECT" else Cleared(subject)


def _version(subject: str, number: int, said: Any) -> Entry:
    if said is None:
        return Gone(subject, number)
    id = int(said["id"])
    try:
        more = {name: said[name] for name in MORE if said.get(name)}
        schema = Schema(said.get("schemaType") or "AVRO", str(said["schema"]), _json(more) if more else "")
        rest = {name: value for name, value in said.items() if name not in _OWN}
        return Version(subject, number, id, schema, bool(said.get("deleted")), rest)
    except (ValueError, TypeError, KeyError) as error:
        return Foreign(f"version {number} of the subject {subject!r}, which cannot be read ({error})", id)


def local(subject: str) -> str | None:
    """Give the name that a subject has here; None for one of another context."""
    if subject == EVERYWHERE or not subject.startswith(":."):
        return subject
    return subject.removeprefix(DEFAULT) if subject.startswith(DEFAULT) else None


def local_name(subject: str) -> str:
    """Give the name that a subject has here; raises GatewayError for one of another context."""
    found = local(subject)
    if found is None or found == EVERYWHERE:
        raise api_error(
            RegistryCode.INVALID_SUBJECT,
            f"{subject[:80]!r} is a subject of the context {context_of(subject)!r}",
            "only subjects of the default context are kept here",
        )
    return found


def context_of(subject: str) -> str:
    """Name the context of a subject that has one."""
    return subject[1:].partition(":")[0]


def schema(one: Version) -> Record:
    """Write a version."""
    value = {
        "subject": one.subject,
        "version": one.number,
        "id": one.id,
        "schemaType": one.schema.kind,
        "schema": one.schema.text,
        "deleted": one.deleted,
        **one.rest,
    }
    return _key("SCHEMA", one.subject, version=one.number), _json(value).encode()


def gone(one: Version) -> Record:
    """Write that a version is deleted for good."""
    return _key("SCHEMA", one.subject, version=one.number), None


def setting(subject: str, said: Mapping[str, Any] | None) -> Record:
    """Write the CONFIG of a subject ("" for all)."""
    return _key("CONFIG", subject or None), _json(said).encode() if said else None


def last_id(id: int) -> Record:
    """Write the highest id that was ever given."""
    return _key("IDS"), _json({"last": id}).encode()


def _key(kind: str, subject: str | None = None, **more: Any) -> bytes:
    key = {"keytype": kind, "subject": subject, **more, "magic": 1 if kind == "SCHEMA" else 0}
    return _json(key).encode()


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
