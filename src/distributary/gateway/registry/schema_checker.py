"""Parses, compares and registers schemas for requests: inline where that is quick, else with a deadline."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from distributary.deadline import DeadlinePool
from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.registry.registered_schema import (
    Schema,
    is_quick_to_parse,
    parse_schema,
    unreadable,
    unreadable_if_quick,
)
from distributary.gateway.registry.schema_catalog import OutdatedVerdict, SchemaCatalog, Verdict
from distributary.gateway.registry.schemas_topic import SchemaLog
from distributary.gateway.registry.schemas_topic_records import Record

DEADLINE: web.AppKey[DeadlinePool] = web.AppKey("deadline", DeadlinePool)

_ATTEMPTS = 5
_SCHEMA = "the schema"


class SchemaChecker:
    """Checks schemas for one user: slow checks of a user wait for that user's other slow checks only.

    Every method may also raise CheckTooLong, CheckFailed or ChecksBusy.
    """

    def __init__(self, deadline: DeadlinePool, user: str) -> None:
        self._deadline = deadline
        self._user = user

    async def parse(self, text: Any, kind: Any = None, references: Any = None) -> Schema:
        """Parse a schema that was sent to be registered or looked up; raises GatewayError (422)."""
        if references or is_quick_to_parse(text, kind):
            return parse_schema(text, kind, references)
        parsed_kind = await self._deadline.run(_parse_kind, text, kind, what=_SCHEMA, owner=self._user)
        return Schema(parsed_kind, text)

    async def incompatibilities(self, level: str, new: Schema, older: Sequence[Schema]) -> list[str]:
        """List why a new schema is not compatible with the older ones (oldest first) of its subject."""
        problems: list[str] = []
        if level == "NONE":
            return problems
        for old in older if level.endswith("_TRANSITIVE") else older[-1:]:
            if old.kind != new.kind:
                problems.append(f"it is {new.kind}, and an older version is {old.kind}")
                continue
            if not level.startswith("FORWARD"):
                reasons = await self._unreadable(reader=new, writer=old)
                problems += [f"it cannot read older data: {reason}" for reason in reasons]
            if not level.startswith("BACKWARD"):
                reasons = await self._unreadable(reader=old, writer=new)
                problems += [f"older readers cannot read it: {reason}" for reason in reasons]
        return list(dict.fromkeys(problems))

    async def register(self, log: SchemaLog, subject: str, schema: Schema) -> int:
        """Register a schema under a subject, unless it is registered; returns its id.

        Raises GatewayError (409) if it is not compatible.
        """
        for _ in range(_ATTEMPTS):
            catalog = await log.caught_up()
            level, older = catalog.compatibility_basis(subject)
            registered = catalog.find_version(subject, schema) is not None
            problems = [] if registered else await self.incompatibilities(level, schema, older)
            verdict = Verdict(level, older, problems)
            try:
                return await log.change(
                    functools.partial(_register, subject=subject, schema=schema, verdict=verdict)
                )
            except OutdatedVerdict:
                continue  # another version came while this one was compared
        raise api_error(
            RegistryCode.REGISTRY_BUSY,
            f"the subject {subject!r} is being changed by others all the time",
            "try again in a moment",
        )

    async def _unreadable(self, *, reader: Schema, writer: Schema) -> list[str]:
        problems = unreadable_if_quick(reader, writer)
        if problems is None:
            fields = [
                text for schema in (reader, writer) for text in (schema.kind, schema.text, schema.foreign)
            ]
            problems = await self._deadline.run(_compare_texts, *fields, what=_SCHEMA, owner=self._user)
        return list(problems)


def _parse_kind(text: str, kind: str | None) -> str:
    """Check a schema's text and return its kind; called in a process with a deadline."""
    return parse_schema(text, kind).kind


def _compare_texts(*fields: str) -> list[str]:
    """Compare a reader and a writer, each given as the fields of `Schema`; called in such a process, too."""
    return unreadable(Schema(*fields[:3]), Schema(*fields[3:]))


def _register(
    catalog: SchemaCatalog, *, subject: str, schema: Schema, verdict: Verdict
) -> tuple[int, list[Record]]:
    return catalog.register(subject, schema, verdict)
