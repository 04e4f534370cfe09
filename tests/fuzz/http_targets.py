"""Targets: whole HTTP requests to the control API, the gateway and the publisher, as bytes.

An input is a request: ``METHOD PATH``, headers, an empty line, the body. There is no Kafka: calls to it fail
at once, as when no broker responds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from distributary.auth.token_issuer import create_stack_token
from distributary.config import Config, Gateway, Kafka
from distributary.config.server_sections import Publisher
from distributary.control.app_context import Context
from distributary.control.control_app import make_app as control_app
from distributary.control.monitor import Monitor
from distributary.errors import KafkaUnavailable
from distributary.gateway.gateway_app import make_app as gateway_app
from distributary.gateway.registry.registry_requests import SCHEMA_LOG
from distributary.gateway.registry.schemas_topic_records import Record
from distributary.gateway.rest_proxy.proxy_requests import CONSUMERS, METADATA, WRITER
from distributary.model.build import Build, Definition
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.publisher.http.http_server import HttpServer
from distributary.publisher.hub.hub import Hub
from distributary.publisher.metrics import Counters
from distributary.store.memory_store import MemoryStore
from tests.fuzz.engine import Run, Target
from tests.fuzz.mutations import any_json, any_text
from tests.support.inline_registry import InlineSchemaLog

FEED, VIEW = Feed("odds", "odds"), View("odds", "odds", key="market_id")
STREAM_TIMEOUT = 10.0
"""Seconds after which an endless response is abandoned."""


class NoKafka:
    """Replaces everything that connects to Kafka: no broker responds."""

    def __getattr__(self, name: str) -> Any:
        def call(*args: object, **more: object) -> Any:
            raise KafkaUnavailable("no broker responds")

        return call

    @contextlib.asynccontextmanager
    async def use(self, *args: object) -> AsyncIterator[None]:
        self.call()
        yield

    slot = use

    def stop_waiting(self) -> None: ...

    async def maintain(self) -> None: ...

    async def close(self) -> None: ...


class BoundedSchemaLog(InlineSchemaLog):
    """The registry's log without Kafka; it stops growing, so that memory that grows is a leak."""

    def write(self, records: list[Record]) -> None:
        if len(self.catalog.subjects(deleted=True)) < 50:
            super().write(records)


class NoCommands:
    """Discards commands."""

    async def send(self, command: object) -> None: ...


def _control(folder: Path) -> web.Application:
    store = MemoryStore()
    config = Config(feeds=(FEED,), views=(VIEW,), data_dir=folder)
    definition = Definition(VIEW, FEED)
    store.writer.define("odds", definition.build, definition.text)
    store.writer.go_live(Build("odds", definition.build))
    monitor = Monitor(config, store.reader, max_age=3600.0)
    return control_app(Context(config, store.reader, store.writer, NoCommands(), monitor))


def _gateway(folder: Path) -> web.Application:
    config = Config(
        feeds=(FEED,), data_dir=folder, kafka=Kafka(bootstrap_servers="127.0.0.1:1"), gateway=Gateway()
    )
    app = gateway_app(config, MemoryStore().reader)
    for key in (SCHEMA_LOG, METADATA, WRITER, CONSUMERS):
        app[key] = BoundedSchemaLog() if key is SCHEMA_LOG else NoKafka()  # type: ignore[misc]
    return app


def _publisher(folder: Path) -> web.Application:
    store = MemoryStore()
    definition = Definition(VIEW, FEED)
    store.writer.define("odds", definition.build, definition.text)
    store.writer.go_live(Build("odds", definition.build))
    hub = Hub(store.reader, ttl=60, buffer_bytes=1 << 20, stats=Counters())
    return HttpServer(hub, Publisher(), Counters(), "p").app()


def served(make: Callable[[Path], web.Application]) -> Callable[[], contextlib.AbstractContextManager[Run]]:
    """Serve an application in this process; a response with status 500 is a crash."""

    @contextlib.contextmanager
    def opened() -> Iterator[Run]:
        caught: list[BaseException] = []
        handler = _ErrorCollector(caught)
        logging.getLogger().addHandler(handler)
        loop = asyncio.new_event_loop()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            own = create_stack_token(folder)

            async def build() -> tuple[TestServer, aiohttp.ClientSession]:
                server: TestServer = TestServer(make(folder))
                await server.start_server(access_log=None)
                return server, aiohttp.ClientSession()

            server, http = loop.run_until_complete(build())

            def run(data: bytes) -> bool:
                caught.clear()
                status = loop.run_until_complete(_ask(http, server, own, data))
                if status == 500:
                    raise AssertionError(f"HTTP 500 {caught[-1:]}") from (caught[-1] if caught else None)
                return 0 < status < 400 or status == 503

            yield run

            async def close() -> None:
                await http.close()
                await server.close()

            loop.run_until_complete(close())
            loop.close()
        logging.getLogger().removeHandler(handler)

    return opened


class _ErrorCollector(logging.Handler):
    """Collects the exceptions that servers log, instead of printing them."""

    def __init__(self, caught: list[BaseException]) -> None:
        super().__init__()
        self._caught = caught

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._caught.append(record.exc_info[1])


async def _ask(http: aiohttp.ClientSession, server: TestServer, own: str, data: bytes) -> int:
    """Send a request; returns 0 if it cannot be encoded, or the server's parser closes the connection."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.decode("utf-8", "replace").split("\n")
    method, _, path = first.partition(" ")
    headers = {"Authorization": f"Bearer {own}"}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon and name.strip().lower() not in (
            "content-length",
            "transfer-encoding",
            "connection",
            "upgrade",
            "expect",
        ):
            headers[name.strip()] = value.strip()
    try:
        url = URL(
            f"http://127.0.0.1:{server.port}{path if path.startswith('/') else '/' + path}", encoded=True
        )
        async with http.request(
            method or "GET",
            url,
            data=body or None,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(STREAM_TIMEOUT),
        ) as reply:
            # A stream never ends: its first bytes are enough.
            if reply.content_type in ("text/event-stream", "application/x-ndjson"):
                return reply.status
            text = await reply.read()
            # 50002 and 50003 are how the REST proxy says that Kafka does not respond.
            return (
                503 if reply.status == 500 and re.search(rb'"error_code": ?5000[23]', text) else reply.status
            )
    except (aiohttp.ClientError, ValueError, TypeError, UnicodeError):
        return 0


def requests(
    table: Sequence[tuple[str, str]], bodies: Sequence[Any], queries: Sequence[str]
) -> Callable[[Random], bytes]:
    """Make requests of a table of routes, with names, queries and bodies that fit or do not."""

    def make(random: Random) -> bytes:
        method, path = random.choice(table)
        filled = re.sub(r"{\w+}", lambda found: _name(random), path)
        query = random.choice(("", *(f"?{name}={_name(random)}" for name in queries)))
        body = json.dumps(random.choice(bodies) if random.random() < 0.5 else any_json(random))
        kind = random.choice(
            (
                "application/json",
                "application/vnd.kafka.json.v2+json",
                "application/vnd.kafka.binary.v2+json",
                any_text(random),
            )
        )
        accept = random.choice(
            (
                "*/*",
                "text/csv",
                "application/x-ndjson",
                "application/vnd.apache.arrow.stream",
                any_text(random),
            )
        )
        return f"{method} {filled}{query}\nContent-Type: {kind}\nAccept: {accept}\n\n{body}".encode(
            "utf-8", "replace"
        )

    return make


def _name(random: Random) -> str:
    return random.choice(
        ("odds", "1", "latest", "a%2Fb", "%00", "..", "-1", "9" * 30, "x" * 300, any_text(random))
    )


def route_table(app: web.Application) -> list[tuple[str, str]]:
    """Every method and address of an application."""
    return sorted(
        {
            (route.method, re.sub(r"{(\w+):[^}]+\]\+}", r"{\1}", route.resource.canonical))
            for route in app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
    )


def _table(make: Callable[[Path], web.Application]) -> list[tuple[str, str]]:
    async def build() -> list[tuple[str, str]]:
        with tempfile.TemporaryDirectory() as folder:
            return route_table(make(Path(folder)))

    return asyncio.run(build())


_CONTROL_BODIES: tuple[dict[str, Any], ...] = (
    {"feed": "odds", "key": "market_id"},
    {"view": {"feed": "o"}, "feed": {"name": "o", "topic": "t"}},
    {"view": "odds", "where": "a = 1"},
    {"view": "odds", "keys": ["a"], "fields": "x"},
    {"view": "odds", "order": "a desc", "limit": 5},
    {},
)
_GATEWAY_BODIES: tuple[dict[str, Any], ...] = (
    {"records": [{"value": "eA=="}]},
    {"schema": '"string"'},
    {"schema": '{"type":"object"}', "schemaType": "JSON", "references": []},
    {"compatibility": "FULL"},
    {"mode": "READONLY"},
    {"name": "c", "format": "json", "auto.offset.reset": "earliest"},
    {"topics": ["odds"]},
    {"topic_pattern": "od.*"},
    {"offsets": [{"topic": "odds", "partition": 0, "offset": 1}]},
    {"partitions": [{"topic": "odds", "partition": 0}]},
    {"value": {"type": "JSON", "data": {}}},
)


def _target(
    name: str,
    make: Callable[[Path], web.Application],
    bodies: Sequence[Any],
    queries: Sequence[str],
    reads: Sequence[str],
) -> Target:
    table = _table(make)
    corpus = [
        f"{method} {re.sub('{[^}]*}', 'odds', path)}\nAccept: */*\n\n".encode()
        for method, path in table
        if method != "*"
    ]
    sent = "Content-Type: application/json"
    corpus += [
        f"{method} {re.sub('{[^}]*}', 'odds', path)}\n{sent}\n\n{json.dumps(body)}".encode()
        for method, path in table
        if method in ("POST", "PUT")
        for body in bodies
    ]
    return Target(
        name,
        served(make),
        corpus,
        reads,
        requests([one for one in table if one[0] != "*"], bodies, queries),
        0.2,
    )


TARGETS = (
    _target(
        "http-control",
        _control,
        _CONTROL_BODIES,
        ("where", "key", "keys", "fields", "limit", "page", "x"),
        (
            "control.control_app",
            "httpd.error_responses",
            "control.view_routes",
            "control.row_routes",
            "control.subscription_routes",
            "control.revocation_routes",
            "httpd.cors",
            "httpd.authorization",
            "httpd.request_body",
            "control.rows_request",
        ),
    ),
    _target(
        "http-gateway",
        _gateway,
        _GATEWAY_BODIES,
        (
            "timeout",
            "max_bytes",
            "offset",
            "deleted",
            "normalize",
            "verbose",
            "subjectPrefix",
            "from",
            "partition",
        ),
        (
            "gateway.gateway_app",
            "gateway.gateway_errors",
            "gateway.gateway_access",
            "gateway.request_fields",
            "gateway.rest_proxy.consumer_routes",
            "gateway.rest_proxy.produce_v2",
            "gateway.rest_proxy.produce_v3",
            "gateway.rest_proxy.topic_routes",
            "gateway.rest_proxy.proxy_requests",
            "gateway.rest_proxy.record_schemas",
            "gateway.rest_proxy.consumer_requests",
            "gateway.registry.registry_routes",
            "gateway.registry.compatibility_routes",
            "gateway.registry.registry_requests",
            "gateway.registry.schemas_topic_records",
            "gateway.topic_stream.topic_stream_routes",
        ),
    ),
    _target(
        "http-publisher",
        _publisher,
        ({},),
        (
            "where",
            "key",
            "keys",
            "fields",
            "from",
            "order",
            "limit",
            "conflate",
            "max_rate",
            "slow",
            "last_event_id",
            "subscription",
            "token",
        ),
        ("publisher.http.http_server", "publisher.http.event_stream", "publisher.http.stream_access"),
    ),
)
