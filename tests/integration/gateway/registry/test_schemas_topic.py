"""The schemas topic: gateways that write at the same time, failures, and a topic that was created again."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.support.clock import LIMIT
from tests.support.inline_registry import register
from tests.support.stack import RunningStack
from tests.support.wait import eventually

from distributary.config import Config
from distributary.errors import KafkaUnavailable, TopicError
from distributary.gateway.registry import schemas_topic
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.schema_catalog import SchemaCatalog
from distributary.gateway.registry.schemas_topic import SchemaLog
from distributary.gateway.registry.schemas_topic_records import Record
from distributary.kafka import librdkafka
from distributary.kafka.topics import delete_topic, ensure_topic, find_topic

INT, LONG = Schema("AVRO", '"int"'), Schema("AVRO", '"long"')


async def test_decision_on_outdated_catalog_is_not_written(settings: Config) -> None:
    topic = settings.gateway.schemas_topic
    one, other = SchemaLog(settings.kafka, topic), SchemaLog(settings.kafka, topic)
    calls: list[int] = []

    def decide(catalog: SchemaCatalog) -> tuple[int, list[Record]]:
        found = register(catalog, "a", INT)
        calls.append(found[0])
        if len(calls) == 1:
            # Between the decision and its writing, the other gateway takes over and assigns the same id.
            other._write(other._take_over(), register(SchemaCatalog(), "b", LONG)[1])
        return found

    try:
        assert await one.change(decide) == 2
        assert calls == [1, 2]
        catalog = await other.caught_up()
        assert [(version.subject, version.schema) for version in catalog.versions_of_id(1)] == [("b", LONG)]
        assert [(version.subject, version.schema) for version in catalog.versions_of_id(2)] == [("a", INT)]
    finally:
        await one.close()
        await other.close()


async def test_topic_that_would_lose_schemas_is_rejected(settings: Config, stack: RunningStack) -> None:
    topic = settings.gateway.schemas_topic
    ensure_topic(stack.admin(), topic, 1, {"cleanup.policy": "compact,delete"})
    with pytest.raises(TopicError, match="would be lost"):
        await SchemaLog(settings.kafka, topic).caught_up()


async def test_decision_that_raises_writes_nothing(settings: Config) -> None:
    log = SchemaLog(settings.kafka, settings.gateway.schemas_topic)

    def decide(catalog: SchemaCatalog) -> tuple[int, list[Record]]:
        raise LookupError("no")

    try:
        with pytest.raises(LookupError):
            await log.change(decide)
        assert (await log.caught_up()).subjects() == []
    finally:
        await log.close()


class Breaking:
    """A real consumer whose next poll fails once it is ``broken``."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.broken = False

    def poll(self, seconds: float) -> Any:
        if self.broken:
            raise KafkaException(KafkaError(KafkaError._FATAL, "broken by the test"))
        return self._real.poll(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


async def test_reading_restarts_after_a_failure(settings: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    consumers: list[Breaking] = []

    def consumer(*args: Any, **more: Any) -> Any:
        consumers.append(Breaking(librdkafka.consumer(*args, **more)))
        return consumers[-1]

    monkeypatch.setattr(
        schemas_topic, "librdkafka", SimpleNamespace(**{**vars(librdkafka), "consumer": consumer})
    )
    log = SchemaLog(settings.kafka, settings.gateway.schemas_topic)
    try:
        assert await log.change(lambda catalog: register(catalog, "a", INT)) == 1
        consumers[0].broken = True
        # Callers that wait when it fails get the error at once, and the next one succeeds.
        before = time.monotonic()
        results = [await _try_register(log, f"s{at}") for at in range(3)]
        assert time.monotonic() - before < 10 * LIMIT
        assert results[-1] == 1
        assert len(consumers) == 2
        assert (await log.caught_up()).subjects() == sorted(
            {"a", *(f"s{at}" for at in range(3) if results[at])}
        )
    finally:
        await log.close()


async def _try_register(log: SchemaLog, subject: str) -> int:
    """Return the id of the registered schema; 0 if that failed with a retriable error."""
    try:
        return await log.change(lambda catalog: register(catalog, subject, INT))
    except KafkaUnavailable:
        return 0


async def test_recreated_topic_is_read_from_the_start(settings: Config, stack: RunningStack) -> None:
    topic = settings.gateway.schemas_topic
    log, other = SchemaLog(settings.kafka, topic), SchemaLog(settings.kafka, topic)
    try:
        assert await log.change(lambda catalog: register(catalog, "old", INT)) == 1
        delete_topic(stack.admin(), topic)
        await eventually(_is_deleted(stack, topic), bool)
        for name in ("b", "c", "d"):
            await other.change(partial(register, subject=name, schema=LONG))
        catalog = await log.caught_up()
        assert (catalog.subjects(), catalog.schema(1)) == (["b", "c", "d"], LONG)
    finally:
        await log.close()
        await other.close()


def _is_deleted(stack: RunningStack, topic: str) -> Callable[[], Awaitable[bool]]:
    async def is_deleted() -> bool:
        return find_topic(stack.admin(), topic) is None

    return is_deleted
