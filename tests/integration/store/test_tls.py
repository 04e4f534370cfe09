"""A store that uses TLS with a certificate of a private CA."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from tests.support.clock import LIMIT
from tests.support.fake_view import VIEW, FakeView
from tests.support.servers import free_port
from tests.support.serving_publisher import serving

from distributary.errors import StoreUnavailable
from distributary.httpd import dev_certificates
from distributary.store.embedded_server import wait_for_store
from distributary.store.redis_reader import RedisReader
from distributary.store.redis_writer import RedisWriter
from distributary.subscriber.async_subscriber import subscribe

pytestmark = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="needs redis-server (make test installs it)"
)


@dataclass(frozen=True)
class Store:
    """A server that takes TLS only, and demands client certificates if configured."""

    folder: Path
    port: int

    def url(self, *options: str, host: str = "127.0.0.1") -> str:
        return f"rediss://{host}:{self.port}/0" + ("?" + "&".join(options) if options else "")

    @property
    def ca(self) -> str:
        return f"ssl_ca_certs={self.folder / 'ca.pem'}"

    @property
    def client(self) -> tuple[str, str]:
        return (
            f"ssl_certfile={self.folder / 'client-ann.pem'}",
            f"ssl_keyfile={self.folder / 'client-ann-key.pem'}",
        )


@pytest.fixture(params=["no", "yes"], ids=["server-certificate", "both-certificates"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    dev_certificates.create_ca(tmp_path)
    dev_certificates.create_server(tmp_path, ["localhost", "127.0.0.1"])
    dev_certificates.create_client(tmp_path, "ann")
    port = free_port()
    argv = ["redis-server", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "127.0.0.2"]
    argv += [
        "--tls-cert-file",
        str(tmp_path / "server.pem"),
        "--tls-key-file",
        str(tmp_path / "server-key.pem"),
    ]
    argv += ["--tls-ca-cert-file", str(tmp_path / "ca.pem"), "--tls-auth-clients", str(request.param)]
    argv += ["--dir", str(tmp_path), "--save", "", "--appendonly", "yes", "--maxmemory-policy", "noeviction"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    one = Store(tmp_path, port)
    try:
        deadline = time.monotonic() + 20 * LIMIT
        with redis.Redis.from_url(one.url(one.ca, *one.client)) as client:
            while True:
                with contextlib.suppress(redis.exceptions.RedisError):
                    client.ping()
                    break
                assert time.monotonic() < deadline
                time.sleep(0.02)
        yield one
    finally:
        process.kill()
        process.wait()


async def test_rows_are_written_read_and_followed_by_tls(store: Store) -> None:
    url = store.url(store.ca, *store.client)
    await wait_for_store(url, 5 * LIMIT)
    writer, reader = RedisWriter(url), RedisReader(url)
    try:
        fake_view = FakeView(writer=writer)
        async with (
            serving(fake_view, reader=reader) as publisher,
            subscribe(VIEW, url=publisher.addresses["websocket"]) as changes,
        ):
            assert (await anext(changes)).op == "snapshot"
            fake_view.put(("m1", {"price": 1.5}))
            assert (await anext(changes)).key == "m1"
    finally:
        await reader.close()
        writer.close()


@pytest.mark.parametrize(
    ("option", "host"), [("", "127.0.0.1"), ("ca", "127.0.0.2")], ids=["unknown-ca", "other-name"]
)
async def test_store_with_an_unverified_certificate_is_refused(store: Store, option: str, host: str) -> None:
    url = store.url(*([store.ca] if option else []), *store.client, host=host)
    with pytest.raises(StoreUnavailable, match=r"(?i)certificate verify failed") as refused:
        await wait_for_store(url, 0.5 * LIMIT)
    assert "ssl_ca_certs" in refused.value.hint
