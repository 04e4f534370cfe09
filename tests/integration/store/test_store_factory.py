"""Several servers as one store: where views are, the effect of a server that is down, and of a new list."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.exceptions import RedisError
from tests.support.clock import LIMIT
from tests.support.servers import StoreServer, free_port
from tests.support.store_groups import change, group

from distributary.errors import StoreUnavailable, StoreUnsuitable
from distributary.model.build import Build
from distributary.model.sharding import shard_of
from distributary.setup.store_server import bundled
from distributary.store.contract import ReaderStore, WriterStore
from distributary.store.embedded_server import wait_for_stores
from distributary.store.store_factory import move_views, open_reader, open_writer

Servers = list[StoreServer]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    binary = bundled()
    assert binary is not None
    running = []
    for name in "abc":
        (tmp_path / name).mkdir()
        running.append(StoreServer(binary, tmp_path / name, fsync="always"))
        running[-1].start()
    yield running
    for server in running:
        server.stop()


def urls(servers: Servers) -> list[str]:
    return [server.url for server in servers]


def name_on(server: StoreServer, servers: Servers, but: tuple[str, ...] = ()) -> str:
    """A view's name that the list places on this server."""
    names = (f"view-{n}" for n in range(1_000))
    return next(name for name in names if shard_of(name, urls(servers)) == server.url and name not in but)


def live(writer: WriterStore, view: str) -> Build:
    """Define a view with one row, and let it be live."""
    build = Build(view, "b1")
    writer.define(view, "b1", '{"view":{}}')
    claimed = writer.claim(build, "topic", 1)
    opened = writer.open(build, 0, claimed.claim)
    writer.write(group(build, opened, claimed.claim.generation, 1, 10, [change("a", {"n": 1})]))
    writer.go_live(build)
    return build


async def test_server_that_is_down_affects_only_its_own_views(
    servers: Servers,
) -> None:
    two = servers[:2]
    here, there = (name_on(server, two) for server in two)
    writer, reader = open_writer(urls(two)), open_reader(urls(two))
    try:
        builds = [live(writer, here), live(writer, there)]
        for view in (here, there):
            await reader.register(
                view, query_id="q1", text="text", subscription=f"s-{view}", ttl_ms=60_000, begun=True
            )
        for server, mine, other in ((two[0], here, there), (two[1], there, here)):
            keys = server.names()
            assert any(f"{{{mine}}}" in key for key in keys)
            assert not any(f"{{{other}}}" in key for key in keys)
        assert await reader.views() == sorted([here, there])
        assert sorted(writer.views()) == sorted([here, there])
        assert await reader.find_subscription(f"s-{there}") == there
        revoked_at = await reader.revoke("ann")
        assert await reader.revoked(["ann"]) == {"ann": revoked_at}
        await reader.heartbeat("publisher", "p1", "{}")

        two[1].kill()
        assert await reader.views() == [here]
        assert [(s.answers, s.views) for s in await reader.servers()] == [(True, [here]), (False, [there])]
        assert [key for key, _ in (await reader.page(builds[0], 0, 10)).rows] == ["a"]
        assert await reader.find_subscription(f"s-{here}") == here
        with pytest.raises((RedisError, OSError)):
            await reader.page(builds[1], 0, 10)
        with pytest.raises(OSError, match="not every server"):
            await reader.find_subscription(f"s-{there}")
        await reader.ping()
        await reader.heartbeat("publisher", "p1", "{}")
        assert [(beat.component, beat.id) for beat in await reader.heartbeats()] == [("publisher", "p1")]
        assert await reader.revoked(["ann", "bob"]) == {"ann": revoked_at}
        with pytest.raises((RedisError, OSError)):
            await reader.revoke("bob")
        assert list(await reader.revoked(["bob"])) == ["bob"], "a revocation takes effect where it was stored"

        two[0].kill()
        with pytest.raises((RedisError, OSError)):
            await reader.revoked(["ann"])
        assert [s.answers for s in await reader.servers()] == [False, False]
    finally:
        writer.close()
        await reader.close()
        two[0].start()
        two[1].start()


async def answer(reader: ReaderStore, user: str) -> dict[str, int]:
    """What is said of a user once all servers are asked again; one that failed is left out for a while."""
    async with asyncio.timeout(30 * LIMIT):
        while True:
            with contextlib.suppress(OSError, RedisError):
                return await reader.revoked([user])
            await asyncio.sleep(0.05)


async def test_revocation_is_copied_to_a_server_that_missed_it(servers: Servers) -> None:
    two = servers[:2]
    reader = open_reader(urls(two))
    try:
        assert await reader.revoked(["bob"]) == {}
        two[1].kill()
        with pytest.raises((RedisError, OSError)):
            await reader.revoke("ann")
        two[1].start()
        revocation_times = [await answer(reader, "ann")]
        lone = open_reader(urls(two[1:]))
        try:
            async with asyncio.timeout(30 * LIMIT):
                while not await lone.revoked(["ann"]):
                    await reader.revoked(["bob"])
                    await asyncio.sleep(0.05)
        finally:
            await lone.close()
        two[0].kill()
        revocation_times.append(await answer(reader, "ann"))
        assert revocation_times[0] == revocation_times[1] != {}
    finally:
        await reader.close()


async def test_tokens_are_rejected_when_the_only_server_may_lack_a_revocation(servers: Servers) -> None:
    two = servers[:2]
    reader, later = open_reader(urls(two)), open_reader(urls(two))
    try:
        assert await reader.revoked(["ann"]) == {}
        two[1].kill()
        with pytest.raises((RedisError, OSError)):
            await reader.revoke("ann")
        two[0].kill()
        two[1].start()
        for one in (reader, later):
            with pytest.raises((RedisError, OSError)):
                await one.revoked(["ann"])
        async with asyncio.timeout(30 * LIMIT):
            while True:  # it responds again, and tokens are still rejected
                with pytest.raises((RedisError, OSError)) as caught:
                    await reader.revoked(["ann"])
                if "may have missed a revocation" in str(caught.value):
                    break
                await asyncio.sleep(0.05)
        two[0].start()
        for one in (reader, later):
            assert list(await answer(one, "ann")) == ["ann"]
    finally:
        await reader.close()
        await later.close()


async def test_start_does_not_wait_for_one_of_several_servers(servers: Servers) -> None:
    silent = f"redis://:hidden@127.0.0.1:{free_port()}/0"
    messages: list[str] = []
    await wait_for_stores([servers[0].url, silent], 0.3, messages.append)
    assert "did not respond within 0.3 s" in messages[-1]
    assert "hidden" not in messages[-1]
    with pytest.raises(StoreUnavailable, match=r"did not respond within 0\.3 s"):
        await wait_for_stores([silent], 0.3)
    servers[1].set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(StoreUnsuitable, match="allkeys-lru"):
        await wait_for_stores(urls(servers), 5)


async def test_the_epoch_of_a_view_follows_its_own_server(servers: Servers) -> None:
    two = servers[:2]
    writer = open_writer(urls(two))
    try:
        builds = [live(writer, name_on(server, two)) for server in two]
        before = [writer.claim(build, "topic", 1).claim.epoch for build in builds]
        two[1].kill()
        two[1].start()
        writer.close()
        after = [writer.claim(build, "topic", 1).claim.epoch for build in builds]
        assert after[0] == before[0]
        assert after[1] != before[1]
    finally:
        writer.close()


async def test_new_list_of_servers_moves_views_and_leaves_no_keys(servers: Servers) -> None:
    two = servers[:2]
    names = [f"view-{n:02}" for n in range(24)]
    writer, reader = open_writer(urls(two)), open_reader(urls(two))
    for view in names:
        live(writer, view)
    await reader.revoke("ann")
    writer.close()
    await reader.close()

    moved = [view for view in names if shard_of(view, urls(servers)) == servers[2].url]
    assert 0 < len(moved) < len(names)
    servers[0].kill()
    stayed = [view for view in names if shard_of(view, urls(two)) == two[0].url and view in moved]
    messages = move_views(urls(servers))
    assert len([line for line in messages if "is rebuilt there" in line]) == len(moved) - len(stayed)
    assert any("does not respond" in line for line in messages)
    servers[0].start()
    assert len(move_views(urls(servers))) == len(stayed)
    assert move_views(urls(servers)) == []

    writer, reader = open_writer(urls(servers)), open_reader(urls(servers))
    try:
        assert await reader.views() == names
        for view in names:
            build = writer.build(Build(view, "b1"))
            assert build is not None
            assert (build.rows, build.status) == ((0, "building") if view in moved else (1, "live"))
            assert build.generation == 1, "it goes on counting where it was"
            assert build.definition == '{"view":{}}'
        for server in two:
            left = [key for key in server.names() if any(f"{{{view}}}" in key for view in moved)]
            # The notice that it is gone stays for a minute.
            assert [key for key in left if not key.endswith(":ctl")] == []
        assert await reader.revoked(["bob"]) == {}
        two[0].kill()
        two[1].kill()
        assert list(await reader.revoked(["ann"])) == ["ann"], "the new server knows who was revoked"
        two[0].start()
        two[1].start()
    finally:
        writer.close()
        await reader.close()
