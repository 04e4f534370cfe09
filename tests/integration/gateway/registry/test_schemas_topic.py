"""Two gateways that write at the same time: who knew less is refused, and decides again."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.support.clock import LIMIT
from tests.support.stack import RunningStack
from tests.support.wait import eventually

from distributary.config import Config
from distributary.errors import KafkaUnavailable, TopicError
from distributary.gateway.registry import schemas_topic as log_module
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.schema_catalog import Book
from distributary.gateway.registry.schemas_topic import SchemaLog
from distributary.gateway.registry.schemas_topic_records import Record
from distributary.kafka import librdkafka, topic_offsets

INT, LONG = Schema("AVRO", '"int"'), Schema("AVRO", '"long"')


async def test_a_decision_on_less_than_the_whole_truth_is_not_written(settings: Config) -> None:
    topic = settings.gateway.schemas_topic
    one, other = SchemaLog(settings.kafka, topic), SchemaLog(settings.kafka, topic)
    calls: list[int] = []

    def decide(book: Book) -> tuple[int, list[Record]]:
        found = book.register("a", INT)
        calls.append(found[0])
        if len(calls) == 1:
            # Between the decision and its writing, the other gateway takes over and gives out the same id.
            other._write(other._take_over(), Book().register("b", LONG)[1])
        return found

    try:
        assert await one.change(decide) == 2
        assert calls == [1, 2]
        book = await other.caught_up()
        assert [(version.subject, version.schema) for version in book.users(1)] == [("b", LONG)]
        assert [(version.subject, version.schema) for version in book.users(2)] == [("a", INT)]
    finally:
        await one.close()
        await other.close()


async def test_a_topic_that_would_lose_schemas_is_refused(settings: Config, stack: RunningStack) -> None:
    topic = settings.gateway.schemas_topic
    topic_offsets.ensure_topic(stack.admin(), topic, 1, {"cleanup.policy": "compact,delete"})
    with pytest.raises(TopicError, match="would be lost"):
        await SchemaLog(settings.kafka, topic).caught_up()


async def test_a_refusal_writes_nothing(settings: Config) -> None:
    log = SchemaLog(settings.kafka, settings.gateway.schemas_topic)

    def decide(book: Book) -> tuple[int, list[Record]]:
        raise LookupError("no")

    try:
        with pytest.raises(LookupError):
            await log.change(decide)
        assert (await log.caught_up()).subjects() == []
    finally:
        await log.close()


class Breaking:
    """A real consumer that fails when it is asked the next time after ``break_now``."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.broken = False

    def poll(self, seconds: float) -> Any:
        if self.broken:
            raise KafkaException(KafkaError(KafkaError._FATAL, "broken by the test"))
        return self._real.poll(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


async def test_reading_begins_again_after_a_failure(
    settings: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Breaking] = []

    def consumer(*args: Any, **more: Any) -> Any:
        made.append(Breaking(librdkafka.consumer(*args, **more)))
        return made[-1]

    monkeypatch.setattr(log_module, "client", SimpleNamespace(**{**vars(librdkafka), "consumer": consumer}))
    log = SchemaLog(settings.kafka, settings.gateway.schemas_topic)
    try:
        assert await log.change(lambda book: book.register("a", INT)) == 1
        made[0].broken = True
        # Whoever waits when it fails is told at once, and the next one is served.
        before = time.monotonic()
        results = [await _tried(log, f"s{at}") for at in range(3)]
        assert time.monotonic() - before < 10 * LIMIT
        assert results[-1] == 1
        assert len(made) == 2
        assert (await log.caught_up()).subjects() == sorted(
            {"a", *(f"s{at}" for at in range(3) if results[at])}
        )
    finally:
        await log.close()


async def _tried(log: SchemaLog, subject: str) -> int:
    """The id of a schema that is registered; 0 where that failed as something that may pass."""
    try:
        return await log.change(lambda book: book.register(subject, INT))
    except KafkaUnavailable:
        return 0


async def test_topic_made_anew_is_read_anew(settings: Config, stack: RunningStack) -> None:
    topic = settings.gateway.schemas_topic
    log, other = SchemaLog(settings.kafka, topic), SchemaLog(settings.kafka, topic)
    try:
        assert await log.change(lambda book: book.register("old", INT)) == 1
        topic_offsets.delete_topic(stack.admin(), topic)
        await eventually(_gone(stack, topic), bool)
        for name in ("b", "c", "d"):
            await other.change(partial(Book.register, subject=name, schema=LONG))
        book = await log.caught_up()
        assert (book.subjects(), book.schema(1)) == (["b", "c", "d"], LONG)
    finally:
        await log.close()
        await other.close()


def _gone(stack: RunningStack, topic: str) -> Callable[[], Awaitable[bool]]:
    async def gone() -> bool:
        return topic_offsets.find_topic(stack.admin(), topic) is None

    return gone
