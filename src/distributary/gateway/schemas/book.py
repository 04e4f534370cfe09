"""What the schemas topic says, folded: subjects with their versions, ids, and compatibility. Pure.

The state is a fold over the topic's records, and no record depends on one that compaction may have taken:
each says the whole truth of its key. Keys and values have the shape of Confluent's own topic. One thing is
added: a record of the highest id ever given, written when a schema is deleted for good, because an id that
came to mean another schema would make old data unreadable.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from distributary.gateway import refuse as numbers
from distributary.gateway.refuse import refuse
from distributary.gateway.schemas.schema import MODES, Schema, incompatible

log = logging.getLogger(__name__)

Record = tuple[bytes, bytes | None]
"""The key and value of a record; None deletes the key."""

USUAL = "BACKWARD"


@dataclass(frozen=True, slots=True)
class Version:
    """A schema under a subject."""

    subject: str
    number: int
    id: int
    schema: Schema
    deleted: bool = False


class Book:
    """The registry's state. `apply` changes it; the other calls read it, or say what to write.

    Reading calls raise GatewayError with the registry's numbers.
    """

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, Version]] = {}
        self._modes: dict[str, str] = {}
        self._by_id: dict[int, Schema] = {}
        self._ids: dict[str, int] = {}
        self._top = 0

    # --- the fold ---

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take one record; what cannot be read is left out, since others may write there too."""
        try:
            where = json.loads(key or b"null")
            said = json.loads(value) if value else None
            match where:
                case {"keytype": "SCHEMA", "subject": str(subject), "version": int(number)}:
                    self._put(subject, number, said)
                case {"keytype": "CONFIG", "subject": str() | None as subject}:
                    self._set_mode(subject or "", said["compatibilityLevel"] if said else None)
                case {"keytype": "IDS"}:
                    self._top = max(self._top, int(said["last"]) if said else 0)
        except (ValueError, TypeError, KeyError) as error:
            log.warning("a record of the schemas topic cannot be read: %s", error)

    def _put(self, subject: str, number: int, said: Any) -> None:
        versions = self._subjects.setdefault(subject, {})
        before = versions.pop(number, None)
        if said is not None:
            schema = Schema(said.get("schemaType", "AVRO"), str(said["schema"]))
            found = Version(subject, number, int(said["id"]), schema, bool(said.get("deleted")))
            versions[number] = found
            self._by_id[found.id] = schema
            self._ids.setdefault(schema.identity, found.id)
            self._top = max(self._top, found.id)
        if not versions:
            del self._subjects[subject]
        if before is not None and not any(self.users(before.id, deleted=True)):
            self._by_id.pop(before.id, None)
            self._ids.pop(before.schema.identity, None)

    def _set_mode(self, subject: str, mode: str | None) -> None:
        if mode is None:
            self._modes.pop(subject, None)
        elif mode in MODES:
            self._modes[subject] = mode

    # --- what is there ---

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """Name the subjects that have a version (``deleted``: or had)."""
        return sorted(name for name in self._subjects if self._versions(name, deleted=deleted))

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """List a subject's versions, oldest first."""
        found = self._versions(subject, deleted=deleted)
        if not found:
            raise refuse(numbers.SUBJECT, f"there is no subject {subject!r}", "GET /subjects lists them")
        return found

    def version(self, subject: str, number: str, *, deleted: bool = False) -> Version:
        """Find a version by its number, ``latest`` or ``-1``."""
        found = self.versions(subject, deleted=deleted)
        if number in ("latest", "-1"):
            return found[-1]
        if not (number.isascii() and number.isdigit() and 0 < int(number[:12]) < 2**31):
            raise refuse(numbers.BAD_VERSION, f"{number[:40]!r} is no version", 'give a number, or "latest"')
        for one in found:
            if one.number == int(number):
                return one
        raise refuse(
            numbers.VERSION,
            f"the subject {subject!r} has no version {number}",
            f"GET /subjects/{subject}/versions lists them",
        )

    def schema(self, number: int) -> Schema | None:
        """Find a schema by its id."""
        return self._by_id.get(number)

    def users(self, number: int, *, deleted: bool = False) -> Iterable[Version]:
        """List the versions that have a schema's id."""
        for name in sorted(self._subjects):
            for one in self._versions(name, deleted=deleted):
                if one.id == number:
                    yield one

    def lookup(self, subject: str, schema: Schema, *, deleted: bool = False) -> Version:
        """Find the version under which a subject has a schema."""
        self.versions(subject, deleted=deleted)
        found = self.has(subject, schema, deleted=deleted)
        if found is None:
            raise refuse(numbers.SCHEMA, f"the subject {subject!r} does not have this schema")
        return found

    def has(self, subject: str, schema: Schema, *, deleted: bool = False) -> Version | None:
        """Give the last version of a subject with that schema; None where it has none."""
        for one in reversed(self._versions(subject, deleted=deleted)):
            if one.schema.identity == schema.identity:
                return one
        return None

    def mode(self, subject: str = "", *, exact: bool = False) -> str:
        """Say what new versions of a subject must get along with; ``exact``: only if it was said for it."""
        if subject and subject not in self._modes and exact:
            raise refuse(
                numbers.NO_SUBJECT_CONFIG,
                f"no compatibility is set for the subject {subject!r}",
                "the global one counts: GET /config",
            )
        return self._modes.get(subject) or self._modes.get("", USUAL)

    def problems(self, subject: str, schema: Schema, against: Iterable[Version] | None = None) -> list[str]:
        """Say why a schema may not become a subject's next version (``against``: or follow these ones)."""
        older = self._versions(subject) if against is None else against
        return incompatible(self.mode(subject), schema, [one.schema for one in older])

    def _versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        found = sorted(self._subjects.get(subject, {}).items())
        return [one for _, one in found if deleted or not one.deleted]

    # --- what to write ---

    def register(self, subject: str, schema: Schema) -> tuple[int, list[Record]]:
        """Give the id of a schema under a subject, and what to write for it to be there."""
        there = self.has(subject, schema)
        if there is not None:
            return there.id, []
        problems = self.problems(subject, schema)
        if problems:
            raise refuse(
                numbers.INCOMPATIBLE,
                f"the schema does not get along with what the subject {subject!r} has "
                f"({self.mode(subject)}): {'; '.join(problems[:5])}",
                "change the schema, or the subject's compatibility",
            )
        number = max(self._subjects.get(subject, {0: None})) + 1
        found = self._ids.get(schema.identity, self._top + 1)
        return found, [_schema(Version(subject, number, found, schema))]

    def delete(self, versions: Iterable[Version], *, permanent: bool) -> list[Record]:
        """Say what to write so that versions are hidden (they keep their ids) or, after that, gone."""
        if not permanent:
            return [_schema(replace(one, deleted=True)) for one in versions]
        gone: list[Record] = [(_key("SCHEMA", one.subject, version=one.number), None) for one in versions]
        return [*gone, (_key("IDS"), _json({"last": self._top}))]

    @staticmethod
    def set_mode(subject: str, mode: str | None) -> list[Record]:
        """Say what to write so that a compatibility counts ("" for all subjects; None: no longer)."""
        value = _json({"compatibilityLevel": mode}) if mode else None
        return [(_key("CONFIG", subject or None), value)]


def _schema(one: Version) -> Record:
    value = {
        "subject": one.subject,
        "version": one.number,
        "id": one.id,
        "schemaType": one.schema.kind,
        "schema": one.schema.text,
        "deleted": one.deleted,
    }
    return _key("SCHEMA", one.subject, version=one.number), _json(value)


def _key(kind: str, subject: str | None = None, **more: Any) -> bytes:
    return _json({"keytype": kind, "subject": subject, **more, "magic": 1 if kind == "SCHEMA" else 0})


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
