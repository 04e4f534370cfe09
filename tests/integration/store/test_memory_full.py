"""A store without memory refuses whole groups, trims its log first, and continues when it can (R6)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.exceptions import OutOfMemoryError
from tests.support.servers import StoreServer
from tests.support.store_groups import change, group

from distributary.errors import StoreUnsuitable
from distributary.model.build import Build
from distributary.model.position import Mark
from distributary.setup.store_server import bundled
from distributary.store.redis_writer import RedisWriter

BUILD = Build("v", "b")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StoreServer]:
    binary = bundled()
    assert binary is not None
    one = StoreServer(binary, tmp_path)
    one.start()
    yield one
    one.stop()


def test_log_is_trimmed_before_rows_are_refused(server: StoreServer) -> None:
    admin = redis.Redis(port=server.port)
    writer = RedisWriter(server.url, log_length=10**9)
    writer.define("v", "b", "{}")
    claimed = writer.claim(BUILD, "t", 1)
    opened = writer.open(BUILD, 0, claimed.claim)

    def write(number: int, *changes: str) -> int:
        follows = Mark(number - 1) if number > 1 else None
        rows = [change(key, {"n": number, "pad": "x" * 20_000}) for key in changes]
        one = group(BUILD, opened, claimed.claim.generation, number, number, rows, follows=follows, new=False)
        return writer.write(one)

    for number in range(1, 60):
        write(number, "a")
    info = writer.build(BUILD)
    assert info is not None
    assert info.floor == 0
    admin.config_set("maxmemory", admin.info("memory")["used_memory"] + 100_000)
    number = 60
    while (found := writer.build(BUILD)) is not None and not found.floor:
        write(number, "a")
        number += 1
        assert number < 300, "the log was never trimmed"
    admin.config_set("maxmemory", 1_000_000)

    def fill() -> None:
        nonlocal number
        while True:
            write(number, f"row-{number}")
            number += 1

    with pytest.raises(OutOfMemoryError):
        fill()
    after = writer.build(BUILD)
    assert after is not None
    assert writer.rows(BUILD, [f"row-{number}"]) == [None], "nothing of a refused group is there"
    assert after.marks[0] == Mark(number - 1)
    admin.config_set("maxmemory", 0)
    write(number, f"row-{number}")
    assert writer.rows(BUILD, [f"row-{number}"]) != [None]
    writer.close()
    admin.close()


def test_server_that_would_evict_rows_is_refused(server: StoreServer) -> None:
    writer = RedisWriter(server.url)
    writer.check()
    admin = redis.Redis(port=server.port)
    admin.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(StoreUnsuitable, match="allkeys-lru"):
        writer.check()
    writer.close()
    admin.close()
