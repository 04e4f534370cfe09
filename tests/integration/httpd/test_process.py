"""A publisher as a process of its own that speaks TLS, on a real store."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.fake_view import VIEW, FakeView
from tests.support.servers import StoreServer, free_port
from tests.support.serving_http import WAIT

from distributary.auth.client_security import Trust
from distributary.httpd import dev_certificates
from distributary.setup.store_server import bundled
from distributary.store.redis_writer import RedisWriter
from distributary.subscriber.async_subscriber import subscribe


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreServer]:
    folder = tmp_path / "store"
    folder.mkdir()
    server = StoreServer(Path(str(bundled())), folder)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    dev_certificates.create_ca(tmp_path / "tls")
    dev_certificates.create_server(tmp_path / "tls", ["localhost", "127.0.0.1"])
    return tmp_path / "tls"


@asynccontextmanager
async def process(store: StoreServer, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a publisher whose files are named from the configuration's folder."""
    config = folder / "distributary.toml"
    config.write_text('[publisher]\ntls_certificate = "tls/server.pem"\ntls_key = "tls/server-key.pem"\n')
    env = os.environ | {
        "DISTRIBUTARY_CONFIG": str(config),
        "DISTRIBUTARY_STORE_URL": store.url,
        "DISTRIBUTARY_PUBLISHER_PORT": str(free_port()),
        "DISTRIBUTARY_PUBLISHER_HTTP_PORT": str(free_port()),
    }
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "distributary.publisher", env=env, stdout=pipe, stderr=pipe
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()


async def line(stream: asyncio.StreamReader | None, word: str) -> str:
    """Read on to the next line with a word in it."""
    assert stream is not None
    async with asyncio.timeout(3 * WAIT):
        while found := (await stream.readline()).decode():
            if word in found:
                return found
    raise AssertionError(f"it ended without {word!r}")


async def test_process_takes_up_a_new_certificate_and_survives_a_broken_one(
    store: StoreServer, files: Path, tmp_path: Path
) -> None:
    fake_view = FakeView(writer=RedisWriter(store.url))
    async with process(store, tmp_path) as running:
        addresses = json.loads(await line(running.stdout, "ready"))["addresses"]
        assert addresses["websocket"].startswith("wss://127.0.0.1:")
        assert addresses["http"].startswith("https://127.0.0.1:")
        trust = Trust({"DISTRIBUTARY_TLS_CA": str(files / "ca.pem")})
        async with subscribe(VIEW, url=addresses["websocket"], tls=trust) as changes:
            await anext(changes)
            key = (files / "server-key.pem").read_text()
            (files / "server-key.pem").write_text("broken")
            assert "keeping the old certificate" in await line(running.stderr, "ERROR")
            (files / "server-key.pem").write_text(key)
            for name in ("server.pem", "server-key.pem"):
                (files / name).unlink()
            dev_certificates.create_server(files, ["localhost", "127.0.0.1"])
            running.send_signal(signal.SIGHUP)
            await line(running.stderr, "new connections use the new one")
            port = int(addresses["http"].rpartition(":")[2])
            shown = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
            assert shown == (files / "server.pem").read_text()
            fake_view.put(("m1", {"price": 2}))
            assert (await anext(changes)).key == "m1"
        running.terminate()
        async with asyncio.timeout(WAIT):
            assert await running.wait() == 0


async def test_certificate_that_cannot_be_used_is_one_line(
    store: StoreServer, files: Path, tmp_path: Path
) -> None:
    (files / "server.pem").unlink()
    async with process(store, tmp_path) as running, asyncio.timeout(3 * WAIT):
        _, printed = await running.communicate()
    assert running.returncode == 1
    lines = [one for one in printed.decode().splitlines() if one]
    assert lines == [
        f"error: publisher.tls_certificate: {files / 'server.pem'} cannot be read: No such file or directory"
    ]
