"""Gateways of one test, in its event loop, on the shared Kafka."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.integration.gateway.rest_proxy.gateway_client import GatewayClient
from tests.support.stack import RunningStack

from distributary.config import Config
from distributary.gateway.__main__ import listen
from distributary.gateway.gateway_app import make_app
from distributary.httpd.listener import Listener
from distributary.store.memory_store import MemoryStore

Start = Callable[..., Awaitable[str]]


@pytest.fixture
def settings(stack: RunningStack) -> Config:
    """A configuration with a separate schemas topic, and groups that rebalance quickly."""
    GatewayClient.stack_token = stack.own
    gateway = replace(
        stack.config.gateway, schemas_topic=f"schemas-{uuid.uuid4().hex[:10]}", poll_timeout=0.5
    )
    # Members of a group learn of a rebalance at their next heartbeat, by default every 3 s.
    kafka = replace(
        stack.config.kafka, properties={"heartbeat.interval.ms": "200", "fetch.max.wait.ms": "100"}
    )
    return replace(stack.config, gateway=gateway, kafka=kafka)


@pytest.fixture
async def start(settings: Config) -> AsyncIterator[Start]:
    """Start a gateway (settings of ``[gateway]`` as keywords) and return its address."""
    listeners: list[Listener] = []

    async def one(config: Config | None = None, **more: Any) -> str:
        chosen = config or settings
        chosen = replace(chosen, gateway=replace(chosen.gateway, **more))
        listener = await listen(make_app(chosen, MemoryStore().reader), chosen, 0)
        listeners.append(listener)
        return f"http://127.0.0.1:{listener.port}"

    yield one
    for listener in listeners:
        await listener.stop()


@pytest.fixture
async def url(start: Start) -> str:
    """One gateway."""
    return await start()
