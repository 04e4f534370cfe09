"""Between the state and the first change nothing is lost and nothing repeated, whatever the timing."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.integration.conftest import Database
from tests.integration.subscriber.conftest import Start
from tests.integration.subscriber.joiners import GROUPED, KEYED, WHOLE, Joiners, wanted_at
from tests.support.clock import LIMIT
from tests.support.counted_view import COUNTED, VIEW, rows_at

from distributary.config.server_sections import Publisher
from distributary.model.build import Build
from distributary.publisher.codec.publication import Publication
from distributary.publisher.hub.join_buffer import JoinBuffer
from distributary.publisher.publisher_server import PublisherServer
from distributary.store.redis_reader import RedisReader

pytestmark = pytest.mark.slow

Stop = Callable[[], Any]


@asynccontextmanager
async def counting(database: Database, rate: int) -> AsyncIterator[Callable[[], Any]]:
    """Write the counted view in a process of its own; the call stops it and returns its last line."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.counted_view",
        database.url,
        str(rate),
        env=env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )

    async def line() -> Any:
        assert process.stdout is not None
        async with asyncio.timeout(20 * LIMIT):
            return json.loads(await process.stdout.readline())

    async def stop() -> Any:
        assert process.stdin is not None
        process.stdin.write(b"stop\n")
        return await line()

    try:
        assert (await line())["ready"]
        yield stop
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def stored(reader: RedisReader) -> tuple[int, dict[str, Any]]:
    """The view's rows as the store has them."""
    rows: dict[str, Any] = {}
    cursor = 0
    while True:
        page = await reader.page(Build(VIEW, COUNTED.build), cursor, 1_000)
        rows |= {key: json.loads(row.json) for key, row in page.rows}
        cursor = page.cursor
        if not cursor:
            return page.seq, rows


async def test_joins_under_load_lose_and_repeat_nothing(database: Database, publish: Start) -> None:
    addresses = (await asyncio.to_thread(publish, database.url)).addresses
    reader = RedisReader(database.url)
    joiners = Joiners(addresses, reader, seed=1)
    tally = joiners.tally
    end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with counting(database, 2_000) as stop, asyncio.timeout(90 * LIMIT), asyncio.TaskGroup() as group:
        stayers = []
        for asking in (WHOLE, GROUPED[0], KEYED[1]):
            joined = asyncio.Event()
            stayers.append((asking, group.create_task(joiners.stay(asking, joined, end))))
            await joined.wait()
        await joiners.run(sockets=(12, 150), steps=(6, 105), streams=(6, 105))
        message = await stop()
        end.set_result(message["seq"])
        for asking, task in stayers:
            witness = await task
            tally.count("stayed", witness)
            assert witness.rows == wanted_at(asking, message["seq"])
        assert await stored(reader) == (message["seq"], rows_at(message["seq"]))
    await reader.close()
    print(tally.joins, tally.changes, message)
    assert tally.faults == []
    assert tally.total >= 3_000
    ways = ("snapshot", "recovered", "begun", "begun early, snapshot", "stream", "stream resumed")
    assert all(tally.joins.get(way, 0) >= 50 for way in ways), tally.joins
    # The load ends with the last join, so its total depends on how fast the joins were.
    assert message["seq"] > 1_000 * message["seconds"]


def deliver_nothing_held(joining: JoinBuffer, epoch: str, seq: int) -> Sequence[Publication] | None:
    """What came while the state was read is forgotten."""
    found = flush(joining, epoch, seq)
    return None if found is None else ()


def deliver_all_held(joining: JoinBuffer, epoch: str, seq: int) -> Sequence[Publication] | None:
    """What came while the state was read is delivered, whether the state has it or not."""
    current = list(joining._buffered)
    found = flush(joining, epoch, seq)
    return None if found is None else current


flush = JoinBuffer.flush


@pytest.mark.parametrize(
    ("mutant", "fault"), [(deliver_nothing_held, "a gap"), (deliver_all_held, "a repeat")]
)
async def test_joins_without_buffering_are_detected(
    database: Database, monkeypatch: pytest.MonkeyPatch, mutant: Any, fault: str
) -> None:
    """The same subscribers on a publisher whose buffering is broken: they must detect it."""
    monkeypatch.setattr(JoinBuffer, "flush", mutant)
    reader = RedisReader(database.url)
    publisher = PublisherServer(reader, Publisher(), ttl=3)
    await publisher.start(port=0, http_port=0)
    running = asyncio.create_task(publisher.run())
    try:
        async with counting(database, 3_000), asyncio.timeout(20 * LIMIT):
            joiners = Joiners(publisher.addresses, reader, seed=1)
            await joiners.run(sockets=(12, 150), steps=(6, 105), streams=(6, 105))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await publisher.stop()
        await reader.close()
    print(joiners.tally.total, joiners.tally.faults[:3])
    assert any(fault in found for found in joiners.tally.faults), joiners.tally.faults
