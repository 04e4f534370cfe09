"""Limits of one address hold at every server, for wrong tokens too, and behind a proxy for its clients."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.support.fake_view import VIEW, FakeView
from tests.support.serving_publisher import Raw, raw, serving
from tests.support.signed_tokens import SECRET, sign

from distributary.auth.audit import FILE
from distributary.config import Auth, Config, Control, Gateway
from distributary.config.sections import Limits
from distributary.control.app_context import Context
from distributary.control.control_app import make_app as control_app
from distributary.gateway.gateway_app import make_app as gateway_app
from distributary.httpd.listener import Listener
from distributary.store.memory_store import MemoryStore

RATE = 2
BURST = 10 * RATE
PROXY: Any = {"trusted_proxies": ("127.0.0.1",)}
LIMITS = Limits(requests_per_address=RATE, queries_per_address=3)
AUTH = Auth(hmac_secret=SECRET)


def token(user: str, **claims: Any) -> str:
    now = int(time.time())
    return sign({"sub": user, "iat": now - 1, "exp": now + 7200, "views": [VIEW], **claims})


def via(address: str) -> list[tuple[str, str]]:
    """Headers as forwarded by a proxy that adds its own line below the forged one of its client."""
    made_up = f"198.51.100.{random.randrange(256)}"
    return [("X-Forwarded-For", made_up), ("X-Forwarded-For", address)]


@asynccontextmanager
async def listening(app: web.Application, settings: Any) -> AsyncIterator[str]:
    listener = Listener(app, settings, server="x", setting="x", stop_seconds=1.0)
    await listener.start(0)
    try:
        yield f"http://127.0.0.1:{listener.port}"
    finally:
        await listener.stop()


@asynccontextmanager
async def control(folder: Path) -> AsyncIterator[str]:
    store = MemoryStore()
    config = Config(auth=AUTH, limits=LIMITS, control=Control(**PROXY), data_dir=folder)
    context: Any = Context(config, store.reader, store.writer, None, None)  # type: ignore[arg-type]
    async with listening(control_app(context), config.control) as url:
        yield f"{url}/v1/views"


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[str]:
    config = Config(auth=AUTH, limits=LIMITS, gateway=Gateway(**PROXY), data_dir=folder)
    async with listening(gateway_app(config, MemoryStore().reader), config.gateway) as url:
        yield f"{url}/topics"


@asynccontextmanager
async def publisher(folder: Path) -> AsyncIterator[str]:
    async with serving(FakeView(), auth=AUTH, limits=LIMITS, data_dir=folder, **PROXY) as found:
        yield f"{found.addresses['http']}/v1/views/{VIEW}/events"


@pytest.mark.parametrize("server", [control, gateway, publisher])
async def test_invalid_tokens_of_one_address_are_rate_limited(server: Any, tmp_path: Path) -> None:
    async with server(tmp_path) as url, aiohttp.ClientSession() as http:

        async def status(address: str) -> int:
            headers = [*via(address), ("Authorization", "Bearer no token")]
            async with http.get(url, headers=headers) as reply:
                return reply.status

        began = time.monotonic()
        found = await asyncio.gather(*(status("203.0.113.1") for _ in range(BURST + 30)))
        took = time.monotonic() - began
        assert set(found) == {401, 429}
        assert BURST <= found.count(401) <= BURST + RATE * took + 1
        assert await status("203.0.113.2") == 401, "another client of the same proxy"
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert {line["address"] for line in lines} >= {"203.0.113.1", "203.0.113.2"}


async def test_users_of_one_address_share_its_queries(tmp_path: Path) -> None:
    async with serving(FakeView(), auth=AUTH, limits=LIMITS, data_dir=tmp_path, **PROXY) as found:

        async def subscribe(client: Raw, n: int) -> dict[str, Any]:
            return await client.ask(n, subscribe={"channel": f"{VIEW}?where=n%3E{n}"})

        async with (
            raw(found, additional_headers=via("203.0.113.1")) as ann,
            raw(found, additional_headers=via("203.0.113.1")) as bob,
            raw(found, additional_headers=via("203.0.113.2")) as cid,
        ):
            for name, client in (("ann", ann), ("bob", bob), ("cid", cid)):
                await client.connect(token(name))
            for n in (2, 3):
                assert "subscribe" in await subscribe(ann, n)
            assert "subscribe" in await subscribe(bob, 4)
            error = (await subscribe(bob, 5))["error"]
            assert (error["code"], "3 queries of one address" in error["message"]) == (106, True)
            assert "subscribe" in await subscribe(cid, 5)
