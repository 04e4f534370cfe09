"""A stack and its clients with a secret in every setting that takes one: no output contains any."""

from __future__ import annotations

import contextlib
import json
import logging
import traceback
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from confluent_kafka import KafkaException
from redis.exceptions import RedisError
from tests.support.control_api import Announced
from tests.support.fake_components import EventRecorder
from tests.support.planted_secrets import MARK, plants, property_names, whole
from tests.support.servers import free_port

from distributary.auth.api_keys import ApiKeys
from distributary.auth.authenticator import Authenticator
from distributary.auth.token_issuer import create_stack_token
from distributary.auth.verification_keys import KeySet
from distributary.config import Config, load
from distributary.config.server_sections import Socketio
from distributary.control.app_context import Context
from distributary.control.control_app import make_app
from distributary.control.kafka_monitor import KafkaMonitor
from distributary.control.monitor import Monitor
from distributary.control.offline_status import observe
from distributary.errors import DistributaryError
from distributary.kafka import librdkafka
from distributary.reducers.schema_registry import Registry
from distributary.socketio_gateway.__main__ import publishers_of
from distributary.socketio_gateway.client_session import GatewayClient
from distributary.socketio_gateway.publisher_session import PublisherSession
from distributary.socketio_gateway.socketio_transport import SendQueue
from distributary.stack.embedded_stack import Stack
from distributary.store.embedded_server import wait_for_store
from distributary.store.memory_store import MemoryStore
from distributary.store.store_factory import move_views, open_reader, open_writer

CLIENTS = ("admin", "producer", "consumer")


class Assessment:
    """Collects what is written, and says where a secret is."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self._texts: list[str] = []

    def add(self, *things: object) -> None:
        for thing in things:
            if isinstance(thing, BaseException):
                self._texts += [repr(thing), str(thing), "".join(traceback.format_exception(thing))]
            else:
                self._texts += [str(thing), repr(thing)]

    def check(self) -> None:
        formatter = logging.Formatter("%(name)s %(message)s")
        lines = [formatter.format(record) for record in self._caplog.get_records("call")]
        assert lines or self._texts, "nothing was looked at"
        found = [text[:2000] for text in (*self._texts, *lines) if MARK in text]
        assert not found, found


@pytest.fixture
def seen(caplog: pytest.LogCaptureFixture) -> Iterator[Assessment]:
    caplog.set_level(logging.DEBUG)
    found = Assessment(caplog)
    yield found
    found.check()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A secret in every setting, and servers that do not respond."""
    file = tmp_path / "distributary.toml"
    file.write_text(whole())
    env = {
        "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}",
        "DISTRIBUTARY_KAFKA_START_TIMEOUT": "200 ms",
        "DISTRIBUTARY_STORE_START_TIMEOUT": "200 ms",
        "DISTRIBUTARY_AUTH_JWKS_TIMEOUT": "1 s",
    }
    return load(file, env)


def at_once(config: Config) -> Config:
    """The same without properties with which no Kafka client can be created."""
    sasl = {name: text for name, text in config.kafka.properties.items() if name.startswith("sasl.")}
    return replace(config, kafka=replace(config.kafka, properties=sasl))


async def test_gate_and_keys_hide_secrets(config: Config, seen: Assessment) -> None:
    store = MemoryStore()
    gate = Authenticator(config, store.reader.revoked)
    keys = ApiKeys.of(config)
    seen.add(gate, vars(gate)["_auth"], keys, KeySet.of(config.auth), vars(gate)["_own"])
    secret = str(config.auth.hmac_secret)
    for headers in (
        {"Authorization": f"Bearer {secret}"},
        {"Authorization": f"Bearer {secret}.{secret}.{secret}"},
        {"Authorization": f"ApiKey {secret}"},
        {"Authorization": f"Basic {secret}"},
        {"X-API-Key": secret},
        {"Authorization": f"Bearer {secret}", "X-API-Key": secret},
    ):
        with pytest.raises(DistributaryError) as refused:
            await gate.by_headers(headers)
        seen.add(refused.value)
    with pytest.raises(DistributaryError) as unfetched:
        await KeySet.of(config.auth).keys()
    seen.add(unfetched.value)


@pytest.mark.parametrize(
    "plant", [p for p in plants() if p.setting.key == "auth.jwks_url"], ids=lambda p: p.name
)
async def test_key_set_that_cannot_be_fetched_hides_its_address(
    plant: object, config: Config, seen: Assessment
) -> None:
    url = getattr(plant, "one", "")
    with pytest.raises(DistributaryError) as refused:
        await KeySet.of(replace(config.auth, jwks_url=url)).keys()
    seen.add(refused.value)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"])
@pytest.mark.parametrize("name", [*property_names("kafka"), "all"])
def test_kafka_clients_hide_properties(config: Config, seen: Assessment, protocol: str, name: str) -> None:
    given = config.kafka.properties
    chosen = dict(given) if name == "all" else {name: given[name]}
    kafka = replace(config.kafka, properties={**chosen, "security.protocol": protocol, "debug": "all"})
    for kind in CLIENTS:
        make = getattr(librdkafka, kind)
        try:
            made = make(kafka, "group") if kind == "consumer" else make(kafka)
        except (KafkaException, DistributaryError) as error:
            seen.add(error)
        else:
            seen.add(made)
            if kind == "consumer":
                made.close()
            else:
                made.poll(0.01)


async def test_store_clients_hide_addresses(config: Config, seen: Assessment) -> None:
    for plant in plants():
        if plant.setting.key not in ("store.url", "store.shards"):
            continue
        for addresses in ([plant.one], [plant.one, plant.one + "0"]):
            reader, writer = open_reader(addresses), open_writer(addresses)
            seen.add(reader, writer, await reader.servers())
            for call in (reader.views(), reader.ping()):
                try:
                    await call
                except (RedisError, OSError, DistributaryError) as error:
                    seen.add(error)
            with pytest.raises((RedisError, OSError)) as refused:
                writer.views()
            seen.add(refused.value, move_views(addresses))
            writer.close()
            await reader.close()
        with pytest.raises(DistributaryError) as waited:
            await wait_for_store(plant.one, 0.05, seen.add)
        seen.add(waited.value)


def test_schema_registry_hides_its_key_and_address(config: Config, seen: Assessment) -> None:
    for plant in plants():
        if plant.setting.key == "schemas.url":
            registry = Registry(replace(config, schemas=replace(config.schemas, url=plant.one)))
            with pytest.raises(DistributaryError) as refused:
                registry.versions("bets-value")
            seen.add(registry, refused.value)


async def relay(url: str, seen: Assessment) -> None:
    async def ignored(*args: object) -> None: ...

    relayed = GatewayClient(
        PublisherSession(max_frame=1000), [url], SendQueue(), limit=10, emit=ignored, on_end=ignored
    )
    async with aiohttp.ClientSession() as http:
        seen.add(await relayed.start(http, 0.2))
        await relayed.stop()


async def test_socketio_gateway_hides_its_publishers(
    seen: Assessment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "aiohttp.access")  # of the publisher in this test, not of ours

    def broken(*args: object, **more: object) -> None:
        raise RuntimeError("broken")

    settings = Socketio(publishers=tuple(p.one for p in plants() if p.setting.key == "socketio.publishers"))
    seen.add(settings)
    async with TestServer(web.Application()) as refusing:
        for url in publishers_of(Config(socketio=settings)):
            await relay(url, seen)
            await relay(url.replace("wss:", "ws:").replace(":1", f":{refusing.port}"), seen)
            with monkeypatch.context() as patched:
                patched.setattr(aiohttp.ClientSession, "ws_connect", broken)
                await relay(url, seen)


@contextlib.asynccontextmanager
async def served(config: Config) -> AsyncIterator[TestClient]:  # type: ignore[type-arg]
    reader, writer = open_reader(config.store.addresses), open_writer(config.store.addresses)
    monitor = Monitor(config, reader, KafkaMonitor(at_once(config).kafka), max_age=60.0)
    app = make_app(Context(config, reader, writer, Announced(), monitor))
    async with TestClient(TestServer(app)) as http:
        yield http
    monitor.close()
    writer.close()
    await reader.close()


async def test_control_api_and_its_audit_log_hide_secrets(config: Config, seen: Assessment) -> None:
    own = {"Authorization": f"Bearer {create_stack_token(config.data_dir)}"}
    others = [
        {"Authorization": f"Bearer {config.auth.hmac_secret}"},
        {"X-API-Key": config.auth.hmac_secret},
    ]
    async with served(config) as http:
        for path in (
            "/",
            "/v1",
            "/v1/status",
            "/v1/feeds",
            "/v1/views",
            "/v1/views/a",
            "/healthz",
            "/readyz",
            "/metrics",
        ):
            for headers in (own, {}, *others):
                async with http.get(path, headers=headers) as reply:
                    seen.add(await reply.text(), reply.headers)
        for headers in (own, *others):
            body = json.dumps({"token": MARK, "view": {"name": "a", "feed": "b", "password": MARK}})
            async with http.put("/v1/views/a", data=body, headers=headers) as reply:
                seen.add((await reply.text(), reply.headers) if reply.status == 401 else reply.headers)
    seen.add((config.data_dir / "audit.log").read_text())


async def test_status_without_a_control_api_hides_secrets(config: Config, seen: Assessment) -> None:
    seen.add(await observe(at_once(config), "nobody answers"))


async def test_stack_file_and_events_hide_secrets(config: Config, seen: Assessment) -> None:
    events = EventRecorder()
    for given in (
        config,
        replace(config, store=replace(config.store, url="", shards=(config.store.url,) * 2)),
    ):
        async with Stack(at_once(given), listener=events, services=[]) as running:
            with pytest.raises(DistributaryError) as failed:
                await running.wait_ready()
            seen.add(failed.value, running.state, running.addresses)
            seen.add((given.data_dir / "stack.json").read_text())
    seen.add(*events.events)
    seen.add(*(file.read_text(errors="replace") for file in config.data_dir.rglob("*") if file.is_file()))
    assert events.events
