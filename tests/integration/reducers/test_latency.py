"""How soon a record reaches a subscriber: alone in an idle stream, and while one batch becomes the next."""

from __future__ import annotations

import asyncio
import statistics
import time
from urllib.parse import urlsplit

import psutil
import pytest
import redis
from tests.support.clock import LIMIT
from tests.support.stack import Feeding

import distributary
from distributary.kafka import librdkafka
from distributary.model.build import Build
from distributary.store.redis_keys import BuildKeys

pytestmark = pytest.mark.latency

LONE = 0.050
PAUSE = 0.500
"""The longest that a batch's end holds a record up."""


class _Sender:
    """Sends numbered records at once and notes when."""

    def __init__(self, feeding: Feeding) -> None:
        self._producer = librdkafka.producer(feeding.stack.config.kafka, linger_ms=0)
        self._topic = feeding.topic
        self.sent: list[float] = []

    def send(self) -> None:
        self._producer.produce(self._topic, key="k", value=b'{"n":%d}' % len(self.sent), partition=0)
        self.sent.append(time.perf_counter())
        self._producer.poll(0)


async def test_records_reach_python_without_tcp(feeding: Feeding) -> None:
    """Spark sets no TCP_NODELAY on the sockets to its workers: a record could wait 40 ms in one."""
    view = await feeding.view(reduce="latest")
    feeding.produce([("k", {"n": 1})])
    await feeding.rows_become(view, {"k": {"n": 1}})
    config = feeding.stack.config
    theirs = {int(config.kafka.bootstrap_servers.rpartition(":")[2]), urlsplit(config.store.url).port}
    worker = psutil.Process(feeding.stack.worker(view))
    others = {link.raddr.port for link in worker.net_connections("tcp") if link.raddr} - theirs
    assert not others


@pytest.mark.slow
@pytest.mark.timeout(180 * LIMIT)
async def test_record_waits_neither_for_the_next_record_nor_for_the_end_of_a_batch(feeding: Feeding) -> None:
    """One test for two promises, because a batch of the shared stack takes a while."""
    view = await feeding.view(reduce="latest", feed={"partitions": 1})
    sender = _Sender(feeding)
    delays: list[float] = []
    store = redis.Redis.from_url(feeding.stack.config.store.url)
    writer = feeding.stack.writer()
    meta = BuildKeys(Build(view, writer.views()[view].live)).meta
    writer.close()

    async with distributary.subscribe(view, control=feeding.stack.addresses["control"]) as changes:

        async def receive() -> None:
            async for change in changes:
                if change.row is None:
                    continue  # the snapshot
                assert change.row["n"] == len(delays), "in order, none missing"
                delays.append(time.perf_counter() - sender.sent[len(delays)])

        receiving = asyncio.create_task(receive())

        async def all_received() -> None:
            async with asyncio.timeout(10 * LIMIT):
                while len(delays) < len(sender.sent):
                    if receiving.done():
                        receiving.result()
                    await asyncio.sleep(0.01)

        began = time.monotonic()
        for _ in range(15):
            sender.send()
            await all_received()
            await asyncio.sleep(0.2)
        assert statistics.median(delays[5:]) <= LONE * LIMIT, delays

        # An end is stored, for what was filtered out (R12). The first one runs code that the JVM has not run
        # before, as nothing does in a stack that has been up for minutes: the second must be short.
        batch = feeding.stack.config.spark.batch_duration
        for end in (1, 2):
            known = store.hget(meta, "e:0")
            await asyncio.sleep(max(0.0, batch * end - 5 - (time.monotonic() - began)))
            first = len(sender.sent)
            while store.hget(meta, "e:0") == known:
                sender.send()
                assert time.monotonic() - began < batch * end + 30 * LIMIT
                await asyncio.sleep(0.05)
            for _ in range(20):
                sender.send()
                await asyncio.sleep(0.05)
        await all_received()
        receiving.cancel()
    assert max(delays[first:]) <= PAUSE * LIMIT, sorted(delays[first:])[-5:]
    store.close()
