"""Every listener by TLS, with real clients: the two ports of a publisher, control API, gateway, socket.io."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import socketio
import websockets
from tests.support.fake_view import FakeView
from tests.support.serving_http import WAIT, on_uvloop
from tests.support.serving_http import serving as listening
from tests.support.serving_publisher import serving
from tests.support.wait import eventually

from distributary.auth.client_security import Trust
from distributary.config import Config, Control, Gateway, Kafka, Publisher
from distributary.config.server_sections import Socketio
from distributary.control.__main__ import listener_of
from distributary.control.api_client import ControlClient
from distributary.control.app_context import Context
from distributary.errors import StackNotRunning
from distributary.gateway.__main__ import listen
from distributary.gateway.gateway_app import make_app
from distributary.httpd import dev_certificates
from distributary.socketio_gateway.socketio_server import SocketioGateway
from distributary.store.memory_store import MemoryStore
from distributary.subscriber.async_subscriber import subscribe

LISTENERS = ("websocket", "publisher", "control", "gateway", "socketio")


@dataclass
class Served:
    """All five, and what clients need to talk to them."""

    folder: Path
    urls: dict[str, str]

    def port(self, name: str) -> int:
        return int(self.urls[name].split(":")[2].split("/")[0])

    def context(self, *, client: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if client:
            context.load_cert_chain(self.folder / "client-ann.pem", self.folder / "client-ann-key.pem")
        return context


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    dev_certificates.create_ca(tmp_path)
    dev_certificates.create_server(tmp_path, ["localhost", "127.0.0.1"])
    dev_certificates.create_client(tmp_path, "ann")
    monkeypatch.chdir(tmp_path)
    for name in ("CA", "CERTIFICATE", "KEY"):
        monkeypatch.delenv(f"DISTRIBUTARY_TLS_{name}", raising=False)
    return tmp_path


@asynccontextmanager
async def all_served(folder: Path, *, mutual: bool = False) -> AsyncIterator[Served]:
    tls = {"tls_certificate": str(folder / "server.pem"), "tls_key": str(folder / "server-key.pem")}
    if mutual:
        tls["tls_client_ca"] = str(folder / "ca.pem")
    server: dict[str, Any] = tls
    store, fake_view = MemoryStore(), FakeView()
    config = Config(
        kafka=Kafka(bootstrap_servers="127.0.0.1:1"),
        publisher=Publisher(**server),
        control=Control(**server),
        gateway=Gateway(**server),
        socketio=Socketio(**server),
    )
    async with contextlib.AsyncExitStack() as stack:
        publisher = await stack.enter_async_context(serving(fake_view, **server))
        nobody: Any = None
        control = listener_of(Context(config, store.reader, store.writer, nobody))
        await control.start(0)
        stack.push_async_callback(control.stop)
        gateway = await listen(make_app(config, store.reader), config, 0)
        stack.push_async_callback(gateway.stop)
        env = {}
        if mutual:
            env = {
                "DISTRIBUTARY_TLS_CERTIFICATE": str(folder / "client-ann.pem"),
                "DISTRIBUTARY_TLS_KEY": str(folder / "client-ann-key.pem"),
            }
        trust = Trust(env, [folder / "server.pem"])
        relay = SocketioGateway(
            config.socketio, config.publisher, [publisher.addresses["websocket"]], trust=trust
        )
        await relay.start(0)
        stack.push_async_callback(relay.stop)
        urls = {
            "websocket": publisher.addresses["websocket"],
            "publisher": publisher.addresses["http"],
            "control": control.url,
            "gateway": gateway.url,
            "socketio": relay.url,
        }
        yield Served(folder, urls)


async def works(served: Served, name: str, context: ssl.SSLContext) -> None:
    """Use a listener as its clients do."""
    url = served.urls[name]
    async with asyncio.timeout(WAIT):
        if name == "websocket":
            async with websockets.connect(url, ssl=context, proxy=None) as socket:
                await socket.send('{"id":1,"connect":{}}')
                assert '"connect"' in str(await socket.recv())
        elif name == "socketio":
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as http:
                client = socketio.AsyncClient(http_session=http)
                await client.connect(url.removesuffix("/socket.io/"), wait_timeout=WAIT)
                assert client.connected
                await client.disconnect()
        else:
            async with aiohttp.ClientSession() as http, http.get(f"{url}/healthz", ssl=context) as reply:
                assert (reply.status, reply.url.scheme) == (200, "https")


async def handshake(served: Served, name: str, context: ssl.SSLContext) -> str:
    """Shake hands and read what comes; gives the version that was agreed on."""
    async with asyncio.timeout(WAIT):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", served.port(name), ssl=context, server_hostname="localhost"
        )
        try:
            version = writer.get_extra_info("ssl_object").version()
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert (await reader.read(100)).startswith(b"HTTP/1.1 ")
        finally:
            writer.transport.abort()
        return str(version)


def test_all_reported_urls_use_tls(folder: Path) -> None:
    @on_uvloop
    async def scenario() -> None:
        async with all_served(folder) as served:
            schemes = {name: url.partition("://")[0] for name, url in served.urls.items()}
            assert schemes == {**dict.fromkeys(LISTENERS, "https"), "websocket": "wss"}

    scenario()


@pytest.mark.parametrize("name", LISTENERS)
@on_uvloop
async def test_listener_serves_tls_and_nothing_else(folder: Path, name: str) -> None:
    async with all_served(folder) as served:
        await works(served, name, served.context())
        # Plain HTTP is closed at once, without an answer, and nobody else is harmed.
        async with asyncio.timeout(WAIT):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port(name))
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            said = b""
            with contextlib.suppress(ConnectionError):
                said = await reader.read()
            writer.transport.abort()
        assert b"HTTP/1.1 200" not in said
        await works(served, name, served.context())


@pytest.mark.parametrize("name", LISTENERS)
@on_uvloop
async def test_listener_refuses_versions_before_1_2(folder: Path, name: str) -> None:
    async with all_served(folder) as served:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            good = served.context()
            good.minimum_version = good.maximum_version = version
            assert await handshake(served, name, good) == version.name.replace("_", ".")
        old = served.context()
        old.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)) as refused:
            await handshake(served, name, old)
        assert "no protocols available" not in str(refused.value).lower()  # that would be the client's doing


@pytest.mark.parametrize("name", LISTENERS)
@on_uvloop
async def test_listener_that_asks_for_client_certificates_serves_nobody_else(
    folder: Path, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with all_served(folder, mutual=True) as served:
        await works(served, name, served.context(client=True))
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            await handshake(served, name, served.context())
        stranger = tmp_path_factory.mktemp("stranger")
        dev_certificates.create_ca(stranger)
        dev_certificates.create_client(stranger, "eve")
        other = served.context()
        other.load_cert_chain(stranger / "client-eve.pem", stranger / "client-eve-key.pem")
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            await handshake(served, name, other)


@on_uvloop
async def test_certificates_are_swapped_while_a_websocket_stays_open(folder: Path) -> None:
    async with all_served(folder) as served:

        def shown() -> dict[str, str]:
            found = {}
            for name in LISTENERS:
                address = ("127.0.0.1", served.port(name))
                found[name] = ssl.get_server_certificate(address, ca_certs=str(folder / "ca.pem"))
            return found

        async def ask() -> dict[str, str]:
            return await asyncio.to_thread(shown)

        before = (folder / "server.pem").read_text()
        assert set((await ask()).values()) == {before}
        url = served.urls["websocket"]
        async with websockets.connect(url, ssl=served.context(), proxy=None) as socket:
            await socket.send('{"id":1,"connect":{}}')
            await socket.recv()
            for name in ("server.pem", "server-key.pem"):
                (folder / name).unlink()
            dev_certificates.create_server(folder, ["localhost", "127.0.0.1"])
            after = (folder / "server.pem").read_text()
            assert after != before
            await eventually(ask, lambda found: set(found.values()) == {after})
            await socket.send('{"id":2,"rpc":{"method":"nothing"}}')
            async with asyncio.timeout(WAIT):
                assert '"id":2' in str(await socket.recv())
        for name in LISTENERS:
            await works(served, name, served.context())


# --- slow and greedy clients --------------------------------------------------------------------------------


def tls_of(folder: Path) -> dict[str, Any]:
    return {"tls_certificate": str(folder / "server.pem"), "tls_key": str(folder / "server-key.pem")}


@on_uvloop
async def test_handshake_that_never_ends_is_closed(folder: Path) -> None:
    limits = tls_of(folder) | {"header_timeout": 0.3}
    async with serving(FakeView(), **limits) as publisher, asyncio.timeout(WAIT):
        for port in (publisher.websocket.port, publisher.http.port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.transport.abort()
        assert publisher.tally.open == 0


@on_uvloop
async def test_head_that_never_ends_is_closed_by_tls_too(folder: Path) -> None:
    limits = tls_of(folder) | {"header_timeout": 0.3}
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    async with serving(FakeView(), **limits) as publisher, asyncio.timeout(WAIT):
        for port in (publisher.websocket.port, publisher.http.port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(b"GET / HTTP/1.1\r\nHost: ")
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                assert b" 200 " not in await reader.read()
            writer.transport.abort()
        assert publisher.tally.timed_out == {"head": 1}


@on_uvloop
async def test_client_that_never_reads_is_closed_by_tls_too(folder: Path) -> None:
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    async with listening(**tls_of(folder), write_timeout=0.4) as listener, asyncio.timeout(WAIT):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=context, limit=1024)
        writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.read(10)

        async def open_() -> int:
            return listener.tally.open

        await eventually(open_, lambda count: count == 0)
        assert listener.tally.timed_out == {"write": 1}
        writer.transport.abort()


@on_uvloop
async def test_websocket_that_never_reads_is_closed_by_tls_too(folder: Path) -> None:
    limits = tls_of(folder) | {"queue_bytes": 200_000}
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    async with serving(FakeView(), **limits) as publisher, asyncio.timeout(WAIT):
        url = publisher.addresses["websocket"]
        async with websockets.connect(url, ssl=context, proxy=None, max_queue=1) as socket:
            await socket.send('{"id":1,"connect":{}}')
            await socket.recv()
            (connection,) = publisher.websocket.connections
            while not publisher.stats.slow:
                connection.send(b"x" * 50_000)
                assert connection.send_buffer.waiting < 1_000_000
                await asyncio.sleep(0.001)
            socket.transport.abort()  # it does not read, so it would not see the end
        assert publisher.stats.closes == {3008: 1}


# --- our own clients ----------------------------------------------------------------------------------------


async def first_rows(url: str, **more: Any) -> None:
    async with subscribe("odds", url=url, timeout=3, **more):
        pass


@pytest.fixture
def environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_(**files: str) -> None:
        for name, file in files.items():
            monkeypatch.setenv(f"DISTRIBUTARY_TLS_{name}", str(folder / file))

    return set_


@on_uvloop
async def test_our_subscriber_verifies_the_certificate(
    folder: Path, environment: Callable[..., None]
) -> None:
    async with with_view(folder) as url:
        with pytest.raises(StackNotRunning, match=r"(?i)certificate verify failed") as refused:
            await first_rows(url)
        assert "DISTRIBUTARY_TLS_CA" in refused.value.hint
        environment(CA="ca.pem")
        await first_rows(url)
        await first_rows(url.replace("127.0.0.1", "localhost"))
        await first_rows(url, tls=ssl.create_default_context(cafile=folder / "ca.pem"))


@on_uvloop
async def test_our_subscriber_shows_its_certificate(folder: Path, environment: Callable[..., None]) -> None:
    async with with_view(folder, tls_client_ca=str(folder / "ca.pem")) as url:
        environment(CA="ca.pem")
        with pytest.raises(StackNotRunning):
            await first_rows(url)
        environment(CERTIFICATE="client-ann.pem", KEY="client-ann-key.pem")
        await first_rows(url)


@on_uvloop
async def test_stack_of_the_folder_is_trusted_by_its_certificate(folder: Path) -> None:
    """Whatever names it has; no other certificate is accepted, of any CA."""
    (folder / "server.pem").unlink()
    dev_certificates.create_server(folder, ["stream.example.com"])
    async with with_view(folder) as url:
        data = folder / ".distributary"
        data.mkdir()
        said = '{"components": [{"addresses": {"websocket": "%s"}}], "certificates": ["%s"]}'
        (data / "stack.json").write_text(said % (url, folder / "server.pem"))
        await first_rows(url)
        (data / "stack.json").write_text(said % (url, folder / "client-ann.pem"))
        with pytest.raises(StackNotRunning, match=r"(?i)certificate verify failed"):
            await first_rows(url)


@asynccontextmanager
async def with_view(folder: Path, **more: Any) -> AsyncIterator[str]:
    fake_view = FakeView()
    tls = {"tls_certificate": str(folder / "server.pem"), "tls_key": str(folder / "server-key.pem"), **more}
    async with serving(fake_view, **tls) as publisher:
        yield publisher.addresses["websocket"]


@on_uvloop
async def test_our_commands_verify_the_control_api(folder: Path) -> None:
    async with all_served(folder, mutual=True) as served:

        def get(env: dict[str, str], *pinned: Path) -> Any:
            return ControlClient(served.urls["control"], trust=Trust(env, pinned)).get("/v1")

        mine = {
            "DISTRIBUTARY_TLS_CERTIFICATE": str(folder / "client-ann.pem"),
            "DISTRIBUTARY_TLS_KEY": str(folder / "client-ann-key.pem"),
        }
        said = await asyncio.to_thread(get, {**mine, "DISTRIBUTARY_TLS_CA": str(folder / "ca.pem")})
        assert said["publisher"].startswith("wss://")
        assert await asyncio.to_thread(get, mine, folder / "server.pem") == said
        with pytest.raises(StackNotRunning, match=r"(?i)certificate verify failed") as refused:
            await asyncio.to_thread(get, mine)
        assert "DISTRIBUTARY_TLS_CA" in refused.value.hint
        with pytest.raises(StackNotRunning):
            await asyncio.to_thread(get, {}, folder / "server.pem")
