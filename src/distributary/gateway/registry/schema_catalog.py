"""What the schemas topic says, folded: subjects with their versions, ids, and compatibility. Pure.

The state is a fold over the topic's records, and no record depends on one that compaction may have taken:
each says the whole truth of its key. One thing is added to what Confluent's registry writes: a record of the
highest id ever given, written when a schema is deleted for good, because an id that came to mean another
schema would make old data unreadable.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.registry import schemas_topic_records
from distributary.gateway.registry.registered_schema import MODES, Schema, incompatible
from distributary.gateway.registry.schemas_topic_records import EVERYWHERE, Entry, Record, Version

log = logging.getLogger(__name__)

USUAL = "BACKWARD"
WRITABLE = "READWRITE"
LATEST = ("latest", "-1")
"""What the newest version is called in addresses."""


class Outdated(Exception):
    """What a verdict was about has changed since."""


class Verdict(NamedTuple):
    """Why a schema may not follow others (nothing: it may), under the mode that it was compared by."""

    mode: str
    older: list[Schema]
    problems: list[str]


class Book:
    """The registry's state. `apply` changes it; the other calls read it, or say what to write.

    Reading calls raise GatewayError with the registry's error_codes.
    """

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, Version]] = {}
        self._configs: dict[str, Mapping[str, Any]] = {}
        self._write_modes: dict[str, str] = {}
        self._by_id: dict[int, Schema] = {}
        self._ids: dict[str, int] = {}
        self._top = 0
        self._left: set[str] = set()

    # --- the fold ---

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take one record; what cannot be kept is left alone, since others may write there too."""
        try:
            self._apply(schemas_topic_records.read(key, value))
        except (ValueError, TypeError, KeyError) as error:
            log.warning("a record of the schemas topic cannot be read: %s", error)

    def _apply(self, entry: Entry) -> None:
        match entry:
            case schemas_topic_records.Version():
                self._put(entry)
            case schemas_topic_records.Gone(subject, number):
                self._drop(subject, number)
            case schemas_topic_records.Hidden(subject, last):
                for one in self._versions(subject):
                    if one.number <= last:
                        self._subjects[subject][one.number] = replace(one, deleted=True)
            case schemas_topic_records.Cleared(subject):
                for name in [subject] if subject else list(self._subjects):
                    for one in self._versions(name, deleted=True):
                        if one.deleted:
                            self._drop(name, one.number)
            case schemas_topic_records.Setting("CONFIG", subject, said):
                self._configure(subject, said)
            case schemas_topic_records.Setting(_, subject, said):
                self._write_modes.pop(subject, None)
                if said and said.get("mode"):
                    self._write_modes[subject] = str(said["mode"])
            case schemas_topic_records.LastId(id):
                self._top = max(self._top, id)
            case schemas_topic_records.Foreign(what, id):
                self._top = max(self._top, id)
                self._leave(what)

    def _put(self, new: Version) -> None:
        self._top = max(self._top, new.id)
        known = self._by_id.get(new.id)
        if known is not None and known.identity != new.schema.identity:
            # An id means one schema, and it is the first one's.
            return self._leave(f"version {new.number} of {new.subject!r}: its id {new.id} is taken")
        self._drop(new.subject, new.number)
        self._subjects.setdefault(new.subject, {})[new.number] = new
        self._by_id[new.id] = new.schema
        self._ids.setdefault(new.schema.identity, new.id)

    def _drop(self, subject: str, number: int) -> None:
        versions = self._subjects.get(subject, {})
        before = versions.pop(number, None)
        if not versions:
            self._subjects.pop(subject, None)
        if before is not None and not any(self.users(before.id, deleted=True)):
            self._by_id.pop(before.id, None)
            self._ids.pop(before.schema.identity, None)

    def _configure(self, subject: str, said: Mapping[str, Any] | None) -> None:
        self._configs.pop(subject, None)
        if said:
            self._configs[subject] = said
            other = [name for name in said if name not in ("subject", "compatibilityLevel") and said[name]]
            if other:
                self._leave(
                    f"{', '.join(map(repr, sorted(other)))} of the config of {subject or 'all subjects'!r}"
                )

    def _leave(self, what: str) -> None:
        if what not in self._left:
            self._left.add(what)
            log.warning("the schemas topic has what is not supported here, and is left alone: %s", what)

    # --- what is there ---

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """Name the subjects that have a version (``deleted``: or had)."""
        return sorted(name for name in self._subjects if self._versions(name, deleted=deleted))

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """List a subject's versions, oldest first."""
        found = self._versions(subject, deleted=deleted)
        if not found:
            raise api_error(
                RegistryCode.SUBJECT_NOT_FOUND, f"there is no subject {subject!r}", "GET /subjects lists them"
            )
        return found

    def version(self, subject: str, number: str, *, deleted: bool = False) -> Version:
        """Find a version by its number, ``latest`` or ``-1``."""
        return _chosen(self.versions(subject, deleted=deleted), subject, number)

    def tested(self, subject: str, number: str) -> list[Version]:
        """Find the version that a schema is tested against: none for a new subject's latest."""
        found = self._versions(subject)
        return [] if not found and number in LATEST else [_chosen(found, subject, number)]

    def schema(self, number: int) -> Schema | None:
        """Find a schema by its id."""
        return self._by_id.get(number)

    def users(self, number: int, *, deleted: bool = False) -> Iterable[Version]:
        """List the versions that have a schema's id."""
        for name in sorted(self._subjects):
            for one in self._versions(name, deleted=deleted):
                if one.id == number:
                    yield one

    def referrers(self, version: Version, *, deleted: bool = False) -> list[int]:
        """List the ids of the schemas that refer to a version."""
        pair = (version.subject, version.number)
        found = {
            one.id
            for name in self._subjects
            for one in self._versions(name, deleted=deleted)
            if pair in one.schema.references()
        }
        return sorted(found)

    def lookup(self, subject: str, schema: Schema, *, deleted: bool = False) -> Version:
        """Find the version under which a subject has a schema."""
        self.versions(subject, deleted=deleted)
        found = self.has(subject, schema, deleted=deleted)
        if found is None:
            raise api_error(
                RegistryCode.SCHEMA_NOT_FOUND, f"the subject {subject!r} does not have this schema"
            )
        return found

    def has(self, subject: str, schema: Schema, *, deleted: bool = False) -> Version | None:
        """Give the last version of a subject with that schema; None where it has none."""
        for one in reversed(self._versions(subject, deleted=deleted)):
            if one.schema.identity == schema.identity:
                return one
        return None

    def mode(self, subject: str = "", *, exact: bool = False) -> str:
        """Say what new versions of a subject must get along with; ``exact``: only if it was said for it."""
        levels = {name: said.get("compatibilityLevel") for name, said in self._configs.items()}
        if subject and exact and levels.get(subject) not in MODES:
            raise api_error(
                RegistryCode.SUBJECT_COMPATIBILITY_NOT_CONFIGURED,
                f"no compatibility is set for the subject {subject!r}",
                "the global one counts: GET /config",
            )
        found = (levels.get(name) for name in (subject, "", EVERYWHERE))
        return next((level for level in found if level in MODES), USUAL)

    def write_mode(self, subject: str = "", *, exact: bool = False) -> str:
        """Say whether a subject can be written; ``exact``: only if it was said for it."""
        if subject and exact and subject not in self._write_modes:
            raise api_error(
                RegistryCode.SUBJECT_MODE_NOT_CONFIGURED,
                f"no mode is set for the subject {subject!r}",
                "the global one counts: GET /mode",
            )
        found = (self._write_modes.get(name) for name in (subject, "", EVERYWHERE))
        return next((mode for mode in found if mode), WRITABLE)

    def compared(self, subject: str, against: Iterable[Version] | None = None) -> tuple[str, list[Schema]]:
        """Give the mode and the older schemas (``against``: or these) that a subject's next must suit."""
        older = self._versions(subject) if against is None else against
        return self.mode(subject), [one.schema for one in older]

    def _versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        found = sorted(self._subjects.get(subject, {}).items())
        return [one for _, one in found if deleted or not one.deleted]

    # --- what to write ---

    def register(
        self, subject: str, schema: Schema, verdict: Verdict | None = None
    ) -> tuple[int, list[Record]]:
        """Give the id of a schema under a subject, and what to write for it to be there.

        ``verdict`` is of a comparison that was made before, since it may take long; raises Outdated where it
        was made with others than the subject has.
        """
        schemas_topic_records.local_name(subject)
        there = self.has(subject, schema)
        if there is not None:
            return there.id, []
        self._check_writable(subject, registering=True)
        mode, older = self.compared(subject)
        if verdict is None:
            verdict = Verdict(mode, older, incompatible(mode, schema, older))
        if verdict[:2] != (mode, older):
            raise Outdated
        if verdict.problems:
            raise api_error(
                RegistryCode.INCOMPATIBLE_SCHEMA,
                f"the schema does not get along with what the subject {subject!r} has "
                f"({mode}): {'; '.join(verdict.problems[:5])}",
                "change the schema, or the subject's compatibility",
            )
        number = max(self._subjects.get(subject, {0: None})) + 1
        found = self._ids.get(schema.identity, self._top + 1)
        return found, [schemas_topic_records.schema(Version(subject, number, found, schema))]

    def delete(self, versions: Iterable[Version], *, permanent: bool) -> list[Record]:
        """Say what to write so that versions are hidden (they keep their ids) or, after that, gone."""
        chosen = list(versions)
        for one in chosen:
            self._check_writable(one.subject)
            users = self.referrers(one)
            if users:
                raise api_error(
                    RegistryCode.REFERENCE_EXISTS,
                    f"version {one.number} of {one.subject!r} is referred to by the schema {users[0]}",
                    "delete that one first",
                )
        if not permanent:
            return [schemas_topic_records.schema(replace(one, deleted=True)) for one in chosen]
        return [*map(schemas_topic_records.gone, chosen), schemas_topic_records.last_id(self._top)]

    def set_mode(self, subject: str, mode: str | None) -> list[Record]:
        """Say what to write so that a compatibility counts ("" for all subjects; None: no longer)."""
        self._check_writable(subject)
        said = {**self._configs.get(subject, {}), "compatibilityLevel": mode}
        return [schemas_topic_records.setting(subject, said if mode else None)]

    def _check_writable(self, subject: str, *, registering: bool = False) -> None:
        """Raise where another registry has set a mode, or written what a new version would lose."""
        mode = self.write_mode(subject)
        if mode.startswith("READONLY") or (registering and mode != WRITABLE):
            raise api_error(
                RegistryCode.OPERATION_NOT_PERMITTED,
                f"the subject {subject!r} is in the mode {mode}",
                "the registry that set it can change it",
            )
        last = self._versions(subject)[-1:]
        ruled = [name for name in ("metadata", "ruleSet") if last and last[0].rest.get(name)]
        if registering and ruled:
            raise api_error(
                RegistryCode.OPERATION_NOT_PERMITTED,
                f"the latest version of {subject!r} has {' and '.join(ruled)}, which a new one would lose",
                "register it with the registry that wrote them",
            )


def _chosen(versions: list[Version], subject: str, number: str) -> Version:
    if number in LATEST:
        return versions[-1]
    if not (number.isascii() and number.isdigit() and 0 < int(number[:12]) < 2**31):
        raise api_error(
            RegistryCode.INVALID_VERSION, f"{number[:40]!r} is no version", 'give a number, or "latest"'
        )
    for one in versions:
        if one.number == int(number):
            return one
    raise api_error(
        RegistryCode.VERSION_NOT_FOUND,
        f"the subject {subject!r} has no version {number}",
        f"GET /subjects/{subject}/versions lists them",
    )
