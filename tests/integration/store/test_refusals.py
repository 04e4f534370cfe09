"""A server that takes no writes: without replicas, demoted in place, or one that forbids CONFIG."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.exceptions import ConnectionError, ReadOnlyError
from tests.support.servers import StoreServer
from tests.support.store_groups import change, group
from tests.support.wait import eventually

from distributary.model.build import Build
from distributary.model.position import Mark
from distributary.setup.store_server import bundled
from distributary.store.errors import Fenced
from distributary.store.redis_writer import RedisWriter

BUILD = Build("v", "b")


def binaries() -> list[Path]:
    found = [bundled(), shutil.which("redis-server")]
    return [Path(one) for one in found if one is not None]


@pytest.fixture(params=binaries(), ids=lambda path: path.name)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[StoreServer, StoreServer]]:
    servers = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        server = StoreServer(request.param, folder, fsync="always")
        server.start()
        servers.append(server)
    yield servers[0], servers[1]
    for server in servers:
        server.stop()


def test_writer_waits_for_a_server_with_too_few_replicas(pair: tuple[StoreServer, StoreServer]) -> None:
    writer = RedisWriter(pair[0].url)
    writer.define("v", "b", "{}")
    claimed = writer.claim(BUILD, "t", 1)
    opened = writer.open(BUILD, 0, claimed.claim)
    one = group(BUILD, opened, claimed.claim.generation, 1, 1, [change("a", {"n": 1})])
    pair[0].set("min-replicas-to-write", "1")
    with pytest.raises(ConnectionError, match="NOREPLICAS"):
        writer.write(one)
    pair[0].set("min-replicas-to-write", "0")
    assert writer.write(one) == 1
    writer.close()


def test_writer_waits_for_a_server_that_rewrites_its_file(pair: tuple[StoreServer, StoreServer]) -> None:
    """As it does by itself after it was filled from a primary."""
    server = pair[0]
    writer = RedisWriter(server.url)
    writer.define("v", "b", "{}")
    writer.claim(BUILD, "t", 1)
    writer.close()
    server.kill()
    server.start()
    writer = RedisWriter(server.url)
    with redis.Redis.from_url(server.url) as admin:
        admin.mset({f"k{n}": n for n in range(500)})
        admin.config_set("rdb-key-save-delay", "1000")
        admin.bgrewriteaof()
        assert admin.info("persistence")["aof_rewrite_in_progress"]
        writer.claim(BUILD, "t", 1)
        if admin.info("server").get("server_name") != "valkey":
            assert not admin.info("persistence")["aof_rewrite_in_progress"]
        admin.config_set("rdb-key-save-delay", "0")
    writer.close()


async def test_writer_leaves_a_demoted_primary(pair: tuple[StoreServer, StoreServer]) -> None:
    """It goes on answering on the same connection, as managed services let it."""
    first, second = pair
    admin = redis.Redis.from_url(first.url)
    writer = RedisWriter(first.url)
    writer.define("v", "b", "{}")
    claimed = writer.claim(BUILD, "t", 1)
    opened = writer.open(BUILD, 0, claimed.claim)
    writer.write(group(BUILD, opened, claimed.claim.generation, 1, 1, [change("a", {"n": 1})]))
    before = {id["id"] for id in admin.client_list()}
    admin.replicaof("127.0.0.1", second.port)
    later = group(
        BUILD, opened, claimed.claim.generation, 2, 2, [change("a", {"n": 2})], follows=Mark(1), new=False
    )
    with pytest.raises(ReadOnlyError):
        writer.write(later)

    # It comes back as a primary, under the same run id, without what it had written.
    async def linked() -> str:
        return str(admin.info("replication")["master_link_status"])

    await eventually(linked, lambda status: status == "up")
    admin.replicaof("no", "one")
    with pytest.raises(Fenced):
        writer.open(BUILD, 0, claimed.claim)
    mine = {id["id"] for id in admin.client_list()}
    assert mine - before, "the writer made another connection"
    admin.close()
    writer.close()


def test_history_changes_after_a_promotion(pair: tuple[StoreServer, StoreServer]) -> None:
    first, second = pair
    writer, admin = RedisWriter(first.url), redis.Redis.from_url(first.url)
    writer.define("v", "b", "{}")
    claimed = writer.claim(BUILD, "t", 1)
    admin.replicaof("127.0.0.1", second.port)
    admin.replicaof("no", "one")
    with pytest.raises(Fenced, match="restarted or failed over"):
        writer.open(BUILD, 0, claimed.claim)
    again = writer.claim(BUILD, "t", 1)
    assert again.renewed
    assert again.claim.epoch != claimed.claim.epoch
    admin.close()
    writer.close()


def test_server_that_forbids_config_is_checked_by_info(pair: tuple[StoreServer, StoreServer]) -> None:
    admin = redis.Redis.from_url(pair[0].url)
    admin.acl_setuser("app", enabled=True, passwords=["+secret"], keys=["*"], commands=["+@all", "-config"])
    url = pair[0].url.replace("redis://", "redis://app:secret@")
    writer = RedisWriter(url)
    writer.check()
    writer.define("v", "b", "{}")
    assert writer.claim(BUILD, "t", 1).claim.generation == 1
    writer.close()
    admin.close()
