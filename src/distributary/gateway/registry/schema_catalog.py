"""The schema registry's state: subjects with their versions, ids and compatibility levels. Pure.

The state is a fold over the records of the schemas topic. No record depends on one that compaction may have
removed: each contains the whole state of its key. One record is added to what Confluent's registry writes:
the highest id ever assigned, written when a schema is deleted for good. If an id were assigned again, old
data would be read with the wrong schema.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.registry.registered_schema import COMPATIBILITY_LEVELS, Schema
from distributary.gateway.registry.schemas_topic_records import (
    GLOBAL_SUBJECT,
    Entry,
    ForeignEntry,
    LastId,
    Record,
    SchemaVersion,
    Setting,
    SubjectCleared,
    SubjectHidden,
    VersionRemoved,
    config_record,
    last_id_record,
    local_subject,
    parse_record,
    tombstone,
    version_record,
)

log = logging.getLogger(__name__)

DEFAULT_COMPATIBILITY = "BACKWARD"
READWRITE = "READWRITE"
LATEST = ("latest", "-1")
"""What the newest version is called in paths."""


class OutdatedVerdict(Exception):
    """The versions that a verdict is about have changed since."""


class Verdict(NamedTuple):
    """What keeps a schema from being compatible with the ``older`` ones at a ``level``; nothing if it is."""

    level: str
    older: list[Schema]
    problems: list[str]


class SchemaCatalog:
    """The registry's state. Only `apply` changes it; other methods read it or return records to write.

    Methods that read raise GatewayError with a `RegistryCode`.
    """

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, SchemaVersion]] = {}
        self._configs: dict[str, Mapping[str, Any]] = {}
        self._modes: dict[str, str] = {}
        self._by_id: dict[int, Schema] = {}
        self._ids: dict[str, int] = {}
        """The id of each schema by its identity."""
        self._last_id = 0
        self._warned: set[str] = set()
        """What is not supported, by the text of its warning: each is logged once."""

    # --- the fold ---

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record; an invalid one is logged and skipped, since others may write to the topic too."""
        try:
            self._apply(parse_record(key, value))
        except (ValueError, TypeError, KeyError) as error:
            log.warning("skipped an invalid record of the schemas topic: %s", error)

    def _apply(self, entry: Entry) -> None:
        match entry:
            case SchemaVersion():
                self._put(entry)
            case VersionRemoved(subject, number):
                self._remove(subject, number)
            case SubjectHidden(subject, last):
                for version in self._versions(subject):
                    if version.number <= last:
                        self._subjects[subject][version.number] = replace(version, deleted=True)
            case SubjectCleared(subject):
                for name in [subject] if subject else list(self._subjects):
                    for version in self._versions(name, deleted=True):
                        if version.deleted:
                            self._remove(name, version.number)
            case Setting("CONFIG", subject, config):
                self._configure(subject, config)
            case Setting(_, subject, mode):
                self._modes.pop(subject, None)
                if mode and mode.get("mode"):
                    self._modes[subject] = str(mode["mode"])
            case LastId(id):
                self._last_id = max(self._last_id, id)
            case ForeignEntry(what, id):
                self._last_id = max(self._last_id, id)
                self._warn_unsupported(what)

    def _put(self, new: SchemaVersion) -> None:
        self._last_id = max(self._last_id, new.id)
        known = self._by_id.get(new.id)
        if known is not None and known.identity != new.schema.identity:
            # An id means one schema forever: that of its first record.
            return self._warn_unsupported(
                f"version {new.number} of {new.subject!r}: its id {new.id} is taken"
            )
        self._remove(new.subject, new.number)
        self._subjects.setdefault(new.subject, {})[new.number] = new
        self._by_id[new.id] = new.schema
        self._ids.setdefault(new.schema.identity, new.id)

    def _remove(self, subject: str, number: int) -> None:
        versions = self._subjects.get(subject, {})
        removed = versions.pop(number, None)
        if not versions:
            self._subjects.pop(subject, None)
        if removed is not None and not any(self.versions_of_id(removed.id, deleted=True)):
            self._by_id.pop(removed.id, None)
            self._ids.pop(removed.schema.identity, None)

    def _configure(self, subject: str, config: Mapping[str, Any] | None) -> None:
        self._configs.pop(subject, None)
        if config:
            self._configs[subject] = config
            known = ("subject", "compatibilityLevel")
            unsupported = sorted(name for name in config if name not in known and config[name])
            if unsupported:
                names = ", ".join(map(repr, unsupported))
                self._warn_unsupported(f"{names} in the config of {subject or 'all subjects'!r}")

    def _warn_unsupported(self, what: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            log.warning("ignored an entry of the schemas topic that is not supported: %s", what)

    # --- reading ---

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """List the subjects that have a version (``deleted``: also those with deleted ones only)."""
        return sorted(name for name in self._subjects if self._versions(name, deleted=deleted))

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        """List a subject's versions, oldest first."""
        found = self._versions(subject, deleted=deleted)
        if not found:
            raise api_error(
                RegistryCode.SUBJECT_NOT_FOUND,
                f"subject {subject!r} not found",
                "GET /subjects lists all subjects",
            )
        return found

    def version(self, subject: str, number: str, *, deleted: bool = False) -> SchemaVersion:
        """Find a version by its number, ``latest`` or ``-1``."""
        return _select(self.versions(subject, deleted=deleted), subject, number)

    def versions_to_test(self, subject: str, number: str) -> list[SchemaVersion]:
        """Find the version that a schema is tested against: none for the latest of a new subject."""
        found = self._versions(subject)
        return [] if not found and number in LATEST else [_select(found, subject, number)]

    def schema(self, id: int) -> Schema | None:
        """Find a schema by its id."""
        return self._by_id.get(id)

    def versions_of_id(self, id: int, *, deleted: bool = False) -> Iterable[SchemaVersion]:
        """Iterate over the versions that have a schema id."""
        for subject in sorted(self._subjects):
            for version in self._versions(subject, deleted=deleted):
                if version.id == id:
                    yield version

    def referrers(self, version: SchemaVersion, *, deleted: bool = False) -> list[int]:
        """List the ids of the schemas that refer to a version."""
        target = (version.subject, version.number)
        found = {
            one.id
            for subject in self._subjects
            for one in self._versions(subject, deleted=deleted)
            if target in one.schema.references()
        }
        return sorted(found)

    def look_up(self, subject: str, schema: Schema, *, deleted: bool = False) -> SchemaVersion:
        """Find the version under which a subject has a schema."""
        self.versions(subject, deleted=deleted)
        found = self.find_version(subject, schema, deleted=deleted)
        if found is None:
            raise api_error(
                RegistryCode.SCHEMA_NOT_FOUND, f"the subject {subject!r} does not have this schema"
            )
        return found

    def find_version(self, subject: str, schema: Schema, *, deleted: bool = False) -> SchemaVersion | None:
        """Return the last version of a subject with that schema; None if there is none."""
        for version in reversed(self._versions(subject, deleted=deleted)):
            if version.schema.identity == schema.identity:
                return version
        return None

    def compatibility(self, subject: str = "", *, exact: bool = False) -> str:
        """Return a subject's effective compatibility level; ``exact``: only if set for the subject itself."""
        levels = {name: config.get("compatibilityLevel") for name, config in self._configs.items()}
        if subject and exact and levels.get(subject) not in COMPATIBILITY_LEVELS:
            raise api_error(
                RegistryCode.SUBJECT_COMPATIBILITY_NOT_CONFIGURED,
                f"no compatibility level is set for the subject {subject!r}",
                "the global one applies: GET /config",
            )
        found = (levels.get(name) for name in (subject, "", GLOBAL_SUBJECT))
        return next((level for level in found if level in COMPATIBILITY_LEVELS), DEFAULT_COMPATIBILITY)

    def mode(self, subject: str = "", *, exact: bool = False) -> str:
        """Return whether a subject can be written; ``exact``: only if set for the subject itself."""
        if subject and exact and subject not in self._modes:
            raise api_error(
                RegistryCode.SUBJECT_MODE_NOT_CONFIGURED,
                f"no mode is set for the subject {subject!r}",
                "the global one applies: GET /mode",
            )
        found = (self._modes.get(name) for name in (subject, "", GLOBAL_SUBJECT))
        return next((mode for mode in found if mode), READWRITE)

    def compatibility_basis(
        self, subject: str, against: Iterable[SchemaVersion] | None = None
    ) -> tuple[str, list[Schema]]:
        """Return the level and the older schemas (or those ``against``) that a subject's next must suit."""
        older = self._versions(subject) if against is None else against
        return self.compatibility(subject), [version.schema for version in older]

    def _versions(self, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        found = sorted(self._subjects.get(subject, {}).items())
        return [version for _, version in found if deleted or not version.deleted]

    # --- records to write ---

    def register(self, subject: str, schema: Schema, verdict: Verdict) -> tuple[int, list[Record]]:
        """Return the id of a schema under a subject, and the records to write to register it.

        ``verdict`` was made before, since a comparison may take long; raises OutdatedVerdict if it was made
        with other versions than the subject has now.
        """
        local_subject(subject)
        registered = self.find_version(subject, schema)
        if registered is not None:
            return registered.id, []
        self._check_writable(subject, registering=True)
        level, older = self.compatibility_basis(subject)
        if (verdict.level, verdict.older) != (level, older):
            raise OutdatedVerdict
        if verdict.problems:
            raise api_error(
                RegistryCode.INCOMPATIBLE_SCHEMA,
                f"the schema is not compatible with the versions of the subject {subject!r} "
                f"({level}): {'; '.join(verdict.problems[:5])}",
                "change the schema, or the subject's compatibility level",
            )
        number = max(self._subjects.get(subject, {0: None})) + 1
        id = self._ids.get(schema.identity, self._last_id + 1)
        return id, [version_record(SchemaVersion(subject, number, id, schema))]

    def delete(self, versions: Iterable[SchemaVersion], *, permanent: bool) -> list[Record]:
        """Return the records that hide versions (which keep their ids) or delete them for good."""
        chosen = list(versions)
        for version in chosen:
            self._check_writable(version.subject)
            referrers = self.referrers(version)
            if referrers:
                raise api_error(
                    RegistryCode.REFERENCE_EXISTS,
                    f"the schema {referrers[0]} refers to version {version.number} of {version.subject!r}",
                    "delete that schema first",
                )
        if not permanent:
            return [version_record(replace(version, deleted=True)) for version in chosen]
        return [*map(tombstone, chosen), last_id_record(self._last_id)]

    def set_compatibility(self, subject: str, level: str | None) -> list[Record]:
        """Return the records that set a compatibility level ("" for the global one), or reset it (None)."""
        self._check_writable(subject)
        config = {**self._configs.get(subject, {}), "compatibilityLevel": level}
        return [config_record(subject, config if level else None)]

    def _check_writable(self, subject: str, *, registering: bool = False) -> None:
        """Raise if another registry set a mode, or wrote what a new version would lose."""
        mode = self.mode(subject)
        if mode.startswith("READONLY") or (registering and mode != READWRITE):
            raise api_error(
                RegistryCode.OPERATION_NOT_PERMITTED,
                f"the subject {subject!r} is in the mode {mode}",
                "change it with the registry that set it",
            )
        last = self._versions(subject)[-1:]
        lost = [name for name in ("metadata", "ruleSet") if last and last[0].rest.get(name)]
        if registering and lost:
            raise api_error(
                RegistryCode.OPERATION_NOT_PERMITTED,
                f"the latest version of {subject!r} has {' and '.join(lost)}, which a new one would lose",
                "register it with the registry that wrote them",
            )


def _select(versions: list[SchemaVersion], subject: str, number: str) -> SchemaVersion:
    if number in LATEST:
        return versions[-1]
    if not (number.isascii() and number.isdigit() and 0 < int(number[:12]) < 2**31):
        raise api_error(
            RegistryCode.INVALID_VERSION, f"invalid version {number[:40]!r}", 'send a number, or "latest"'
        )
    for version in versions:
        if version.number == int(number):
            return version
    raise api_error(
        RegistryCode.VERSION_NOT_FOUND,
        f"version {number} of the subject {subject!r} not found",
        f"GET /subjects/{subject}/versions lists its versions",
    )
