"""Two gateways that write at the same time: who knew less is refused, and decides again."""

from __future__ import annotations

import pytest
from tests.support.stack import RunningStack

from distributary.config import Config
from distributary.errors import TopicError
from distributary.gateway.schemas.book import Book, Record
from distributary.gateway.schemas.log import SchemaLog
from distributary.gateway.schemas.schema import Schema
from distributary.kafka import topics

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
    topics.ensure_topic(stack.admin(), topic, 1, {"cleanup.policy": "compact,delete"})
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
