"""Reads, compares and registers schemas for requests: at once where that is quick, else with a deadline."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from distributary.deadline import Deadline
from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.registry.registered_schema import (
    Schema,
    comparing,
    is_quick_to_parse,
    parse,
    quickly_unreadable_by,
    unreadable_by,
)
from distributary.gateway.registry.schema_catalog import Outdated, Verdict
from distributary.gateway.registry.schemas_topic import SchemaLog

DEADLINE: web.AppKey[Deadline] = web.AppKey("deadline", Deadline)

_ATTEMPTS = 5
_SCHEMA = "the schema"


class Checker:
    """Checks schemas for one user: what is slow waits for that user's other slow ones, and nobody else's.

    Every call raises CheckTooLong, CheckFailed or ChecksBusy besides what it says.
    """

    def __init__(self, deadline: Deadline, user: str) -> None:
        self._deadline = deadline
        self._user = user

    async def parse(self, text: Any, kind: Any = None, references: Any = None) -> Schema:
        """Read what was sent to be registered or looked up; raises GatewayError (422)."""
        if references or is_quick_to_parse(text, kind):
            return parse(text, kind, references)
        found = await self._deadline.run(parse_text, text, kind, what=_SCHEMA, owner=self._user)
        return Schema(found, text)

    async def incompatible(self, mode: str, new: Schema, older: Sequence[Schema]) -> list[str]:
        """Say why a new schema may not follow the older ones (oldest first) of its subject."""
        asking = comparing(mode, new, older)
        try:
            pair = next(asking)
            while True:
                pair = asking.send(await self._unreadable(*pair))
        except StopIteration as end:
            return list(end.value)

    async def register(self, log: SchemaLog, subject: str, schema: Schema) -> int:
        """Register a schema under a subject, unless it has it; gives its id. Raises GatewayError (409)."""
        for _ in range(_ATTEMPTS):
            book = await log.caught_up()
            mode, older = book.compared(subject)
            there = book.has(subject, schema) is not None
            problems = [] if there else await self.incompatible(mode, schema, older)
            verdict = Verdict(mode, older, problems)
            try:
                return await log.change(
                    functools.partial(_register, subject=subject, schema=schema, verdict=verdict)
                )
            except Outdated:
                continue
        raise api_error(
            RegistryCode.REGISTRY_BUSY,
            f"the subject {subject!r} changes all the time",
            "try again in a moment",
        )

    async def _unreadable(self, reader: Schema, writer: Schema) -> list[str]:
        found = quickly_unreadable_by(reader, writer)
        if found is None:
            parts = [part for one in (reader, writer) for part in (one.kind, one.text, one.more)]
            found = await self._deadline.run(compare_texts, *parts, what=_SCHEMA, owner=self._user)
        return list(found)


def parse_text(text: str, kind: str | None) -> str:
    """Check a schema's text and give its kind; for a process with a deadline."""
    return parse(text, kind).kind


def compare_texts(*parts: str) -> list[str]:
    """Compare a reader and a writer, by kind, text and what else is said of each; for such a process, too."""
    return unreadable_by(Schema(*parts[:3]), Schema(*parts[3:]))


def _register(book: Any, *, subject: str, schema: Schema, verdict: Verdict) -> Any:
    return book.register(subject, schema, verdict)
