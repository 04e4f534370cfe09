"""A hub over the store in memory, and a reader whose calls can be blocked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from distributary.model.query import Query
from distributary.model.query_params import ChannelQuery, parse_channel
from distributary.publisher import metrics
from distributary.publisher.hub.hub import Hub
from distributary.publisher.hub.subscription import SubscribeRequest
from distributary.publisher.metrics import Counters
from tests.support.fake_view import VIEW, FakeView

WHOLE_VIEW = parse_channel(VIEW)
FILTERED = parse_channel(f"{VIEW}?where=s%20%3D%20'f'")


class LatchedReader:
    """A reader whose calls can be blocked, counted, or made to fail."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.blocked: dict[str, asyncio.Event] = {}
        self.calls: dict[str, int] = {}
        self.broken: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._reader, name)
        if name == "tail":
            return inner

        async def call(*args: Any, **more: Any) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            if name in self.broken:
                raise ConnectionError("the store does not respond")
            result = await inner(*args, **more)
            if name in self.blocked:
                await self.blocked[name].wait()
            return result

        return call


@asynccontextmanager
async def hub_of(fake_view: FakeView, *, store: Any = None, **more: Any) -> AsyncIterator[Hub]:
    hub = Hub(
        store or fake_view.reader, ttl=more.pop("ttl", 60), buffer_bytes=1 << 20, stats=Counters(), **more
    )
    try:
        yield hub
    finally:
        await hub.close()


def sizes(hub: Hub) -> tuple[int, int, int]:
    described = metrics.describe(hub, hub.stats, "x")
    return described["queries"], described["channels"], described["subscribers"]


async def register(fake_view: FakeView, id: str, *, begun: bool = False) -> str:
    query = Query.parse(VIEW, "s = 'f'")
    await fake_view.reader.register(
        VIEW, query_id=query.id, text=query.text, subscription=id, ttl_ms=60_000, begun=begun
    )
    return query.channel


def request(query: ChannelQuery, **more: Any) -> SubscribeRequest:
    return SubscribeRequest(query=query, **more)
