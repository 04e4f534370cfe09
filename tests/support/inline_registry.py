"""The schema registry without Kafka, and with its checks in the calling process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from distributary.deadline import DeadlinePool
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.schema_catalog import SchemaCatalog, Verdict
from distributary.gateway.registry.schema_checker import SchemaChecker
from distributary.gateway.registry.schemas_topic_records import Record

T = TypeVar("T")


class InlineDeadline:
    """Calls functions at once, however long they take."""

    async def run(self, function: Callable[..., T], *args: Any, what: str, owner: str = "") -> T:
        return function(*args)


class InlineSchemaLog:
    """The registry's log without a topic: what is decided is in the catalog at once."""

    def __init__(self) -> None:
        self.catalog = SchemaCatalog()

    async def caught_up(self) -> SchemaCatalog:
        return self.catalog

    async def change(self, decide: Callable[[SchemaCatalog], tuple[Any, list[Record]]]) -> Any:
        found, records = decide(self.catalog)
        self.write(records)
        return found

    def write(self, records: list[Record]) -> None:
        for key, value in records:
            self.catalog.apply(key, value)

    async def close(self) -> None: ...


def incompatibilities(level: str, new: Schema, older: Sequence[Schema]) -> list[str]:
    """Compare schemas as `SchemaChecker` does."""
    checker = SchemaChecker(cast(DeadlinePool, InlineDeadline()), "")
    return _run(checker.incompatibilities(level, new, older))


def register(catalog: SchemaCatalog, subject: str, schema: Schema) -> tuple[int, list[Record]]:
    """Register a schema by a verdict that is made now."""
    level, older = catalog.compatibility_basis(subject)
    return catalog.register(subject, schema, Verdict(level, older, incompatibilities(level, schema, older)))


def _run(call: Coroutine[Any, Any, T]) -> T:
    """Run a call that waits for nothing, also within an event loop."""
    try:
        call.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise AssertionError("it waits")
