"""What the handlers of the API share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote, urlsplit

from aiohttp import web
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from distributary.config import Config
from distributary.control.monitor import Monitor
from distributary.httpd.connection_limits import Connections
from distributary.httpd.error_responses import ErrorResponses
from distributary.model.command import Command
from distributary.model.endpoints import WEBSOCKET_PATH, websocket_url
from distributary.store.contract import ReaderStore, WriterStore

ANYWHERE = ("0.0.0.0", "::", "")
MAX_BODY = 1024 * 1024


class Announcer(Protocol):
    """Writes commands to the commands topic (``distributary.kafka.commands_topic.CommandsProducer`` does)."""

    async def send(self, command: Command) -> None:
        """Write one and wait until Kafka has acknowledged it; raises DistributaryError if it does not."""


@dataclass
class Context:
    """What requests are served from; ``writing`` is locked while the blocking writer is used.

    The default ``monitor`` observes the store, but no Kafka.
    """

    config: Config
    reader: ReaderStore
    writer: WriterStore
    announcer: Announcer
    monitor: Monitor = None  # type: ignore[assignment]  # set after construction
    connections: Connections = None  # type: ignore[assignment]  # the same
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    sending: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Create what was not passed."""
        self.monitor = self.monitor or Monitor(self.config, self.reader)
        self.connections = self.connections or Connections(self.config.control)

    @property
    def ttl_ms(self) -> int:
        """How long a subscription lives without being renewed."""
        return int(self.config.store.subscription_ttl * 1000)

    async def write(self, call: Callable[..., None], *args: str) -> None:
        """Call the blocking writer; all of its calls that are used here are idempotent."""
        async with self.writing:
            try:
                await asyncio.to_thread(call, *args)
            except (RedisConnectionError, OSError):
                # A connection that was lost since the writer's last use fails once; then it reconnects.
                await asyncio.to_thread(call, *args)


CONTEXT: web.AppKey[Context] = web.AppKey("context", Context)

ERRORS = ErrorResponses(
    "the control API",
    see="see GET /v1 for the routes",
    body_limit=f"at most {MAX_BODY} bytes",
    unavailable=(RedisError, ConnectionError),
)


def websocket_address(config: Config, host: str) -> str:
    """Return the URL for WebSocket clients; ``host`` is the name by which the caller reached this machine."""
    publisher = config.publisher
    if publisher.advertised_url:
        return websocket_url(publisher.advertised_url)
    endpoint = f"{_host(publisher.host, host)}:{publisher.port}"
    return f"{publisher.websocket_scheme}://{endpoint}{WEBSOCKET_PATH}"


def http_address(config: Config, host: str) -> str:
    """Return the URL of the publisher's HTTP side: SSE, static files and metrics."""
    publisher = config.publisher
    if publisher.advertised_url:
        parts = urlsplit(publisher.advertised_url)
        return f"{'https' if parts.scheme in ('wss', 'https') else 'http'}://{parts.netloc}"
    return f"{publisher.http_scheme}://{_host(publisher.host, host)}:{publisher.http_port}"


def events_address(config: Config, host: str, view: str, subscription: str) -> str:
    """Return the URL of a subscription's changes as SSE."""
    return f"{http_address(config, host)}/v1/views/{quote(view, safe='')}/events?subscription={subscription}"


def _host(listens: str, requested: str) -> str:
    if listens not in ANYWHERE:
        return f"[{listens}]" if ":" in listens else listens
    return (
        requested.rpartition(":")[0] if not requested.endswith("]") and ":" in requested else requested
    ) or "127.0.0.1"
