"""A store that lost its last writes (its AOF is cut) causes no wrong row (R2, R13)."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError
from tests.support.servers import StoreServer

from distributary.model.build import Build
from distributary.model.view import View
from distributary.reducers.record_codec import Packed
from distributary.reducers.reduce_rules import rule_of
from distributary.reducers.reducer import Reducer, ReducerOptions
from distributary.setup.store_server import bundled
from distributary.store.errors import Fenced
from distributary.store.log_events import Attached
from distributary.store.redis_reader import RedisReader
from distributary.store.redis_writer import RedisWriter
from distributary.store.store_types import Claimed

BUILD = Build("v", "b")
SUM = View("v", "f", reduce="aggregate", aggregates={"total": "sum(n)", "count": "count()"})
RECORDS = [
    Packed(
        partition=0,
        offset=i,
        time=1,
        event_time=1,
        key=b"k%d" % (i % 3),
        value=b'{"total":1}',
        unparsed=False,
    )
    for i in range(400)
]


@pytest.fixture(params=["valkey", "redis"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreServer]:
    binary = bundled() if request.param == "valkey" else shutil.which("redis-server")
    if binary is None:
        pytest.skip(f"no {request.param}-server here (make test installs redis-server on Debian as root)")
    one = StoreServer(Path(binary), tmp_path, fsync="always")
    one.start()
    yield one
    one.stop()


def reducer(writer: RedisWriter, claimed: Claimed) -> Reducer:
    return Reducer(
        writer,
        BUILD,
        0,
        claimed.claim,
        ReducerOptions(view=SUM, rule=rule_of(SUM), write_dead_letters=lambda letters: None),
    )


async def first(tail: Any) -> Attached:
    async with asyncio.timeout(10):
        while True:
            event = await anext(tail)
            if isinstance(event, Attached):
                return event


@pytest.mark.parametrize("lost", [1, 200, 3_000])
async def test_build_is_exact_after_the_store_lost_its_last_writes(server: StoreServer, lost: int) -> None:
    writer = RedisWriter(server.url)
    writer.define("v", "b", "{}")
    one = reducer(writer, writer.claim(BUILD, "t", 1))
    one.open()
    reader = RedisReader(server.url)
    tail = reader.tail("v")
    before = await first(tail)
    for at in range(0, 300, 10):
        one.fold(RECORDS[at : at + 10])
    server.kill()
    server.lose_tail(lost)
    server.start()
    with pytest.raises(ConnectionError):
        one.fold(RECORDS[300:310])
    with pytest.raises(Fenced):
        one.open()
    # Another restart replays nothing of what was torn, and the driver starts again from the store's marks.
    server.kill()
    server.start()
    writer = RedisWriter(server.url)
    claimed = writer.claim(BUILD, "t", 1)
    assert claimed.claim.epoch != before.epoch
    one = reducer(writer, claimed)
    one.open()
    assert one.mark is not None
    assert one.mark.offset < 300
    one.fold(RECORDS[one.mark.offset :])
    after = await first(tail)
    while after.epoch == before.epoch:
        after = await first(tail)
    rows = {key: json.loads(row.json) for key, row in (await reader.page(BUILD, 0, 10)).rows}
    assert rows == {f"k{i}": {"total": n, "count": n} for i, n in ((0, 134), (1, 133), (2, 133))}
    await tail.aclose()
    await reader.close()
    writer.close()


def test_store_loses_nothing_by_a_plain_kill(server: StoreServer) -> None:
    writer = RedisWriter(server.url)
    writer.define("v", "b", "{}")
    one = reducer(writer, writer.claim(BUILD, "t", 1))
    one.open()
    one.fold(RECORDS[:100])
    server.kill()
    server.start()
    with pytest.raises(ConnectionError):
        one.fold(RECORDS[100:200])
    with pytest.raises(Fenced):
        one.open()
    one = reducer(writer, writer.claim(BUILD, "t", 1))
    one.open()
    one.fold(RECORDS[100:200])
    rows = [json.loads(row.json)["count"] for row in writer.rows(BUILD, ["k0", "k1", "k2"]) if row]
    assert sum(rows) == 200
