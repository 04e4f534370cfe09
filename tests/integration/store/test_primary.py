"""A primary that is demoted in place while clients are connected, as managed services do."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import ConnectionError as LinkError
from tests.support.clock import LIMIT
from tests.support.fake_hub import WHOLE_VIEW
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.folding_sink import FoldingSink
from tests.support.servers import StoreServer, free_port
from tests.support.tcp_balancer import Balancer
from tests.support.wait import eventually

from distributary.publisher.hub.hub import Hub
from distributary.publisher.hub.subscription import SubscribeRequest
from distributary.publisher.metrics import Counters
from distributary.setup.store_server import bundled
from distributary.store import lua_scripts
from distributary.store.log_events import Attached
from distributary.store.redis_reader import RedisReader
from distributary.store.redis_writer import RedisWriter

WAIT = 20 * LIMIT


@pytest.fixture(params=["valkey", "redis"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[StoreServer, StoreServer]]:
    """A primary and a replica that has all of it."""
    binary = shutil.which("redis-server") if request.param == "redis" else bundled()
    if binary is None:
        pytest.skip("redis-server is not installed (make test installs it on Debian as root)")
    servers = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        servers.append(StoreServer(Path(binary), tmp_path / name))
        servers[-1].start()
        servers[-1].set("repl-diskless-sync-delay", "0")
    follow(servers[1], servers[0])
    yield servers[0], servers[1]
    for server in servers:
        server.kill()  # one that writes its first file after it was filled does not let itself be stopped


def info(server: StoreServer) -> dict[str, Any]:
    with redis.Redis(port=server.port) as admin:
        return {**admin.info("server"), **admin.info("replication")}


def follow(server: StoreServer, primary: StoreServer) -> None:
    """Make a server the replica of another, and wait until it has all of it."""
    with redis.Redis(port=server.port) as admin:
        admin.replicaof("127.0.0.1", str(primary.port))
    catch_up(server, primary)


def promote(server: StoreServer, primary: StoreServer) -> None:
    """Make a replica a primary, once it has all of the one so far."""
    catch_up(server, primary)
    with redis.Redis(port=server.port) as admin:
        admin.replicaof("NO", "ONE")


def catch_up(server: StoreServer, primary: StoreServer) -> None:
    def synced(found: dict[str, Any]) -> bool:
        there = info(primary)["master_repl_offset"]
        return found["master_link_status"] == "up" and int(found["slave_repl_offset"]) >= int(there)

    async def ask() -> dict[str, Any]:
        return info(server)

    asyncio.run(eventually(ask, synced))


def wait_until_rewritten(server: StoreServer) -> None:
    """Wait until it has rewritten its file, as it does after a resynchronization."""

    async def ask() -> int:
        with redis.Redis(port=server.port) as admin:
            return int(admin.info("persistence")["aof_rewrite_in_progress"])

    asyncio.run(eventually(ask, lambda running: not running))


@pytest.fixture
async def address(pair: tuple[StoreServer, StoreServer]) -> AsyncIterator[Balancer]:
    """The one address that clients know; it leads to the primary."""
    async with Balancer([pair[0].port]) as balancer:
        yield balancer


def url(balancer: Balancer) -> str:
    return f"redis://127.0.0.1:{balancer.port}/0"


async def test_reader_leaves_a_demoted_primary_for_the_new_one(
    pair: tuple[StoreServer, StoreServer], address: Balancer
) -> None:
    one, two = pair
    fake_view = FakeView(writer=RedisWriter(one.url))
    fake_view.put(("a", {"n": 1}))
    reader = RedisReader(url(address))
    hub = Hub(reader, ttl=60, buffer_bytes=1 << 20, stats=Counters())
    try:
        sink = FoldingSink()
        await hub.join(SubscribeRequest(query=WHOLE_VIEW), sink)
        before = hub.followers[VIEW].history_id
        await asyncio.to_thread(promote, two, one)
        await asyncio.to_thread(follow, one, two)  # its clients stay where they are
        with pytest.raises(
            LinkError, match="replica"
        ):  # the address has not moved yet: an error, and only for now
            await reader.register(
                VIEW, query_id="q1", text="{}", subscription="s1", ttl_ms=60_000, begun=True
            )
        with pytest.raises(LinkError, match="replica"):
            await reader.heartbeat("publisher", "x", "{}")
        address.aim([two.port])
        registered = await reader.register(
            VIEW, query_id="q1", text="{}", subscription="s1", ttl_ms=60_000, begun=True
        )
        await reader.heartbeat("publisher", "x", "{}")
        assert registered.state.history_id.startswith(info(two)["run_id"])
        await until(lambda: sink.endings)
        assert hub.followers[VIEW].history_id == registered.state.history_id != before
        sink.attached = False
        await hub.join(SubscribeRequest(query=WHOLE_VIEW, position=sink.position), sink)
        assert sink.rows == {"a": {"n": 1}}
        await asyncio.to_thread(wait_until_rewritten, two)
        fake_view.reopen(RedisWriter(two.url))
        fake_view.put(("a", {"n": 2}))
        await until(lambda: sink.rows == {"a": {"n": 2}} or sink.endings[1:])
    finally:
        await hub.close()
        await reader.close()


async def test_primary_demoted_and_promoted_again_has_another_history(
    pair: tuple[StoreServer, StoreServer], address: Balancer
) -> None:
    one, two = pair
    FakeView(writer=RedisWriter(one.url)).put(("a", {"n": 1}))
    reader = RedisReader(url(address))
    try:
        async with aclosing(reader.tail(VIEW)) as tail, asyncio.timeout(WAIT):
            first = await anext(tail)
            assert isinstance(first, Attached)
            await asyncio.to_thread(promote, two, one)
            await asyncio.to_thread(follow, one, two)
            await asyncio.to_thread(promote, one, two)
            again = await anext(tail)
            assert isinstance(again, Attached)
            assert again.history_id == lua_scripts.history_id(info(one)) != first.history_id
            run = info(one)["run_id"]
            assert first.history_id.startswith(run), "the run id alone does not show it"
            assert again.history_id.startswith(run)
    finally:
        await reader.close()


async def test_reader_does_not_report_data_missing_on_a_replica(store: StoreServer) -> None:
    """While it is being filled it has nothing at all."""
    fake_view = FakeView(writer=RedisWriter(store.url))
    await asyncio.to_thread(fake_view.put, ("a", {"n": 1}))
    reader = RedisReader(store.url)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: reader.views(),
        lambda: reader.view(VIEW),
        lambda: reader.build(fake_view.build),
        lambda: reader.register(VIEW, query_id="q1", text="{}", subscription="s1", ttl_ms=60_000, begun=True),
        lambda: reader.subscription(VIEW, "s1"),
        lambda: reader.query_text(VIEW, "q1"),
        lambda: reader.begin(VIEW, "s1", 60_000),
        lambda: reader.revoked(["ann"]),
    ]
    try:
        async with aclosing(reader.tail(VIEW)) as tail:
            assert isinstance(await anext(tail), Attached)
            for call in calls:
                with redis.Redis(port=store.port) as admin:
                    admin.replicaof("NO", "ONE")
                    await reader.ping()  # a connection to a primary
                    admin.flushall()
                    admin.replicaof("127.0.0.1", str(free_port()))
                    with pytest.raises(LinkError, match="replica"):
                        await call()
            following = asyncio.create_task(anext(tail))
            done, _ = await asyncio.wait((following,), timeout=2)
            assert not done, "neither gone nor attached"
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    finally:
        await reader.close()
