"""A stack with all security enabled: it works for clients with rights, and each component rejects others.

TLS on every port, tokens, a Kafka with SCRAM users and ACLs for each component, and a Redis with TLS only and
one user with the documented rights.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis
from confluent_kafka import KafkaException
from tests.support.clock import LIMIT
from tests.support.servers import free_port
from tests.support.store_acl import documented_acl
from tests.support.up_command import Up

from distributary.config.embedded_defaults import kafka_secret, scram_login
from distributary.config.private_files import read_secret
from distributary.config.sections import Kafka
from distributary.errors import DistributaryError, KafkaRefused, KafkaUnavailable
from distributary.httpd import dev_certificates
from distributary.kafka import librdkafka, quota_admin
from distributary.kafka.admin import Cluster, wait_for_kafka
from distributary.subscriber.async_subscriber import subscribe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240 * LIMIT),
    pytest.mark.skipif(
        shutil.which("redis-server") is None, reason="needs redis-server (make test installs it)"
    ),
]

SECRET = "everything is on, and this signs the tokens"
SERVERS = ("publisher", "control", "gateway", "socketio")
TLS = 'tls_certificate = "tls/server.pem"\ntls_key = "tls/server-key.pem"\n'
VIEWS = """
[[feeds]]
name = "odds"
topic = "odds"
create = true

[[views]]
name = "odds"
feed = "odds"
reduce = "latest"
"""


class Locked:
    """The stack, and how to connect to each of its servers."""

    def __init__(self, folder: Path, store: int) -> None:
        self.folder = folder
        self.store = store
        sections = [f"[{name}]\n{TLS}" for name in SERVERS if name != "socketio"]
        sections.append(f"[socketio]\nport = {free_port()}\n{TLS}")
        sections.append(f'[auth]\nhmac_secret = "{SECRET}"\n[kafka]\nsecure = true\n{TLS}')
        ca = folder / "tls" / "ca.pem"
        trust = f'"ssl.truststore.type" = "PEM", "ssl.truststore.location" = "{ca}"'
        sections.append(f"properties = {{ {trust} }}\n")
        user, _, password = documented_acl()[:3]
        env = {
            "DISTRIBUTARY_STORE_URL": self.store_url(user, password.removeprefix(">")),
            "DISTRIBUTARY_TLS_CA": str(ca),
        }
        self.up = Up(folder, "".join(sections) + VIEWS, env)
        (folder / "distributary.toml").chmod(0o600)
        self.trust = ssl.create_default_context(cafile=str(ca))

    def store_url(self, user: str, password: str) -> str:
        ca = self.folder / "tls" / "ca.pem"
        return f"rediss://{user}:{password}@127.0.0.1:{self.store}/0?ssl_ca_certs={ca}"

    @property
    def addresses(self) -> dict[str, str]:
        """Addresses by name; those of the control API and the gateway by the names of the components."""
        components = self.up.components()
        named = {name: at for component in components.values() for name, at in component["addresses"].items()}
        own = {name: components[name]["addresses"]["http"] for name in ("control", "gateway")}
        return {**named, "http": components["publisher"]["addresses"]["http"], **own}

    def run(self, *words: str, stdin: str = "") -> str:
        """Run a command as the user who started the stack; it gets nothing but the folder."""
        done = subprocess.run(
            [sys.executable, "-m", "distributary.cli", *words],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60 * LIMIT,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def token(self, user: str, **rights: str) -> str:
        words = [word for name, value in rights.items() for word in (f"--{name}", value)]
        return self.run("token", "create", "--user", user, *words).strip()

    async def call(self, server: str, path: str, token: str = "", **more: Any) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= more.pop("headers", {})
        method = more.pop("method", "GET")
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.trust)) as http,
            http.request(method, self.addresses[server] + path, headers=headers, **more) as reply,
        ):
            return reply.status, await reply.text()


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    folder = tmp_path_factory.mktemp("locked")
    tls = folder / "tls"
    dev_certificates.create_ca(tls)
    dev_certificates.create_server(tls, ["localhost", "127.0.0.1"])
    port = free_port()
    data = folder / "redis"
    data.mkdir()
    argv = ["redis-server", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "--dir", str(data)]
    argv += ["--tls-cert-file", str(tls / "server.pem"), "--tls-key-file", str(tls / "server-key.pem")]
    argv += ["--tls-ca-cert-file", str(tls / "ca.pem"), "--tls-auth-clients", "no"]
    argv += ["--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"]
    argv += ["--user", "default", "off", "--user", *documented_acl()]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        one = Locked(folder, port)
        one.up.start()
        yield one
    finally:
        with contextlib.suppress(NameError):
            one.up.stop()
        server.terminate()
        server.wait(20 * LIMIT)


async def live(locked: Locked) -> None:
    """Wait until the view serves rows."""
    deadline = time.monotonic() + 90 * LIMIT
    while (found := json.loads(locked.run("--json", "status")))["views"][0]["status"] != "live":
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.2)


async def test_record_reaches_the_subscribers_that_may_read_it(locked: Locked) -> None:
    await live(locked)
    writer = locked.token("shop", produce="odds")
    ann = locked.token("ann", views="odds", rows="country = 'DE'", columns="country,price")
    body = {
        "records": [
            {"key": "m1", "value": {"country": "DE", "price": 1.5, "margin": 7}},
            {"key": "m2", "value": {"country": "FR", "price": 2.5, "margin": 8}},
        ]
    }
    json_v2 = {"Content-Type": "application/vnd.kafka.json.v2+json"}
    data = json.dumps(body)
    status, text = await locked.call(
        "gateway", "/topics/odds", writer, method="POST", data=data, headers=json_v2
    )
    assert status == 200, text
    wanted = {'"m1"': {"country": "DE", "price": 1.5}}  # a key that was sent as JSON stays JSON
    socket = locked.addresses["websocket"]
    assert socket.startswith("wss://")
    async with (
        asyncio.timeout(30 * LIMIT),
        subscribe("odds", url=socket, token=ann, tls=locked.trust) as changes,
    ):
        async for _ in changes:
            if changes.rows == wanted:
                break
    status, text = await locked.call("control", "/v1/views/odds", ann)
    assert status == 200, text
    assert [row for _, row in json.loads(text)["rows"]] == list(wanted.values()), "what REST shows is no more"
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=locked.trust)) as http,
        http.get(locked.addresses["http"] + "/v1/views/odds/events", params={"token": ann}) as reply,
    ):
        assert reply.status == 200
        async with asyncio.timeout(10 * LIMIT):
            seen = b""
            while b"event: ready" not in seen:
                seen += await reply.content.readany()
        assert b"m1" in seen
        assert b"m2" not in seen
        assert b"margin" not in seen
    assert "m2" in locked.run("subscribe", "odds", "--max", "0"), "the user who started the stack sees all"


@pytest.mark.parametrize(
    ("server", "method", "path"),
    [
        ("control", "GET", "/v1/views/odds"),
        ("control", "DELETE", "/v1/views/odds"),
        ("control", "GET", "/v1/status"),
        ("http", "GET", "/v1/views/odds/events"),
        ("http", "GET", "/metrics"),
        ("gateway", "GET", "/topics/odds"),
        ("gateway", "POST", "/topics/odds"),
        ("gateway", "PUT", "/config"),
    ],
)
async def test_http_server_rejects_missing_credentials_and_missing_grants(
    locked: Locked, server: str, method: str, path: str
) -> None:
    assert (await locked.call(server, path, method=method))[0] == 401
    outsider = locked.token("nobody", views="others")
    assert (await locked.call(server, path, outsider, method=method))[0] == 403


async def test_websocket_and_socketio_reject_missing_credentials(locked: Locked) -> None:
    with pytest.raises(DistributaryError, match=r"token|refused|permission"):
        async with subscribe("odds", url=locked.addresses["websocket"], tls=locked.trust) as changes:
            await anext(changes)
    ann = locked.token("ann", views="odds")
    assert (await _socketio(locked, {})).startswith("44"), "an error, not a session"
    assert (await _socketio(locked, {"token": ann})).startswith("40")


async def _socketio(locked: Locked, auth: dict[str, str]) -> str:
    """Connect as a socket.io client does; return the response."""
    address = f"{locked.addresses['socketio'].rstrip('/')}/?EIO=4&transport=websocket"
    async with (
        asyncio.timeout(20 * LIMIT),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=locked.trust)) as http,
        http.ws_connect(address) as socket,
    ):
        under = socket.get_extra_info("socket")
        assert (await socket.receive_str()).startswith("0")
        await socket.send_str("40" + json.dumps(auth))
        response = await socket.receive_str()
    # The session of a WebSocket ends before the other side has confirmed the end of TLS.
    async with asyncio.timeout(20 * LIMIT):
        while under.fileno() >= 0:
            await asyncio.sleep(0.01)
    return response


async def test_no_port_accepts_plaintext(locked: Locked) -> None:
    for name in ("control", "http", "gateway", "socketio", "websocket"):
        host, _, port = locked.addresses[name].split("/")[2].rpartition(":")
        async with asyncio.timeout(10 * LIMIT):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert not (await reader.read(1000)).startswith(b"HTTP"), name
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


def test_kafka_rejects_missing_login_and_missing_rights(locked: Locked) -> None:
    servers = locked.addresses["kafka"]
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(locked.folder / "tls" / "ca.pem")}
    for credentials in ({}, {"security.protocol": "SSL", **trust}):
        with pytest.raises((KafkaRefused, KafkaUnavailable)):
            wait_for_kafka(Kafka(bootstrap_servers=servers, properties=credentials), 3.0, patient=False)
    password = read_secret(kafka_secret(locked.folder / ".distributary", "distributary-control"))
    assert password is not None
    login = scram_login("distributary-control", password, tls=True)
    with pytest.raises((KafkaRefused, KafkaUnavailable)):  # a CA that it does not know of
        wait_for_kafka(Kafka(bootstrap_servers=servers, properties=login), 3.0, patient=False)
    control = Kafka(bootstrap_servers=servers, properties={**login, **trust})
    admin = librdkafka.admin(control)
    with pytest.raises(KafkaException, match="uthorization failed"):
        admin.delete_topics(["odds"])["odds"].result(20 * LIMIT)
    # Requests over our own sockets are rejected, too.
    strange = "certificate of .* is not valid"
    for properties, message in ((login, strange), ({**login, **trust}, "uthorization")):
        kafka = Kafka(bootstrap_servers=servers, properties=properties)
        with pytest.raises(KafkaRefused, match=message):
            quota_admin.describe(Cluster(kafka, admin))


def test_redis_rejects_missing_login_and_missing_rights(locked: Locked) -> None:
    user, _, password = documented_acl()[:3]
    ca = f"ssl_ca_certs={locked.folder / 'tls' / 'ca.pem'}"
    with (
        redis.Redis.from_url(f"rediss://127.0.0.1:{locked.store}/0?{ca}") as stranger,
        pytest.raises(redis.exceptions.AuthenticationError),
    ):
        stranger.get("d:store")
    with redis.Redis.from_url(locked.store_url(user, password.removeprefix(">"))) as own:
        assert own.exists("d:views")
        with pytest.raises(redis.exceptions.NoPermissionError):
            own.flushall()
    with (
        redis.Redis(port=locked.store) as plain,
        pytest.raises((redis.exceptions.RedisError, OSError)),
    ):
        plain.ping()


def test_audit_log_names_rejected_users_and_no_secret(locked: Locked) -> None:
    lines = (locked.folder / ".distributary" / "audit.log").read_text().splitlines()
    refused = [one for one in map(json.loads, lines) if one["result"] == "refused"]
    assert {"nobody"} <= {one["user"] for one in refused}
    assert SECRET not in "".join(lines)
