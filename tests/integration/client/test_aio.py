"""The asyncio forms against a real broker."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.client.conftest import Configurations
from tests.support.clock import LIMIT

from distributary.client import AsyncConsumer, AsyncProducer, Record
from distributary.errors import KafkaClientError, RecordRefused, TopicMissing

pytestmark = pytest.mark.slow

WAIT = 20 * LIMIT


async def take(consumer: AsyncConsumer, count: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < count:
        records = await consumer.receive(WAIT)
        assert records
        found += records
    return found


async def test_many_sends_at_once_keep_their_order(configure: Configurations, topic: str) -> None:
    async with AsyncProducer(configure.producer()) as producer:
        sent = await asyncio.gather(
            *(producer.send_string(topic, str(n), key="k", headers={"n": str(n)}) for n in range(200))
        )
        assert sorted(one.offset for one in sent) == [one.offset for one in sent] == list(range(200))
        with pytest.raises(TopicMissing):
            await producer.send(topic + "-none", b"x")
        with pytest.raises(RecordRefused, match="'big'"):
            await producer.send(topic, b"x" * 2_000_000, key="big")
    with pytest.raises(KafkaClientError, match="closed"):
        await producer.send(topic, b"x")
    async with AsyncConsumer(configure.consumer()) as consumer:
        await consumer.subscribe(topic)
        found = await take(consumer, 200)
    assert [one.text for one in found] == [str(n) for n in range(200)]
    assert found[7].header("n") == b"7"


async def test_sends_keep_their_order_while_the_topic_is_looked_up(
    configure: Configurations, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncProducer(configure.producer()) as producer:
        answers = iter([False, False])  # the topic is known from the third call on
        monkeypatch.setattr(producer._core, "knows", lambda name: next(answers, True))
        sent = await asyncio.gather(*(producer.send_string(topic, str(n), key="k") for n in range(50)))
    assert [one.offset for one in sent] == list(range(50))


async def test_cancelled_receive_loses_nothing(configure: Configurations, topic: str) -> None:
    settings = configure.consumer(enable_auto_commit=False)
    async with AsyncConsumer(settings) as consumer, AsyncProducer(configure.producer()) as producer:
        await consumer.subscribe(topic)
        seen: list[str] = []
        for number in range(10):
            waiting = asyncio.create_task(consumer.receive())
            await producer.send_string(topic, str(number), key="k")
            await asyncio.sleep(0.01 * number)  # at any time
            waiting.cancel()
            try:
                seen += [one.text for one in await waiting]
            except asyncio.CancelledError:
                await consumer.commit()  # commits nothing that was not given
        seen += [one.text for one in await take(consumer, 10 - len(seen))] if len(seen) < 10 else []
        assert seen == [str(n) for n in range(10)]
        await consumer.commit()
        assert 10 in (await consumer.committed()).values()


async def test_loop_yields_one_record_after_another(configure: Configurations, topic: str) -> None:
    async with AsyncProducer(configure.producer()) as producer:
        for number in range(5):
            await producer.send_string(topic, str(number), key="k")
    settings = configure.consumer()
    async with AsyncConsumer(settings) as consumer:
        await consumer.subscribe(topic)
        seen = []
        async for record in consumer:
            seen.append(record.text)
            if len(seen) == 5:
                break
        assert seen == list("01234")
        (partition,) = {partition for partition, at in (await _positions(consumer)).items() if at != 0}
        await consumer.pause([partition])
        await consumer.seek(*partition, 3)
        assert await consumer.poll(100) == []
        await consumer.resume()
        assert await consumer.poll_string(20_000) == ["3", "4"]


async def _positions(consumer: AsyncConsumer) -> dict[tuple[str, int], int]:
    here = await consumer.assignment()
    await consumer.commit()
    found = await consumer.committed()
    return {partition: max(0, found[partition]) for partition in here}
