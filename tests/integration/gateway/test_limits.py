"""Limits of one user of a gateway: consumers, processor time, and memory of what is read."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.rest_proxy.gateway_client import GatewayClient
from tests.support.fake_view import until
from tests.support.stack import Feeding, RunningStack
from tests.support.wait import eventually

from distributary.auth.token_issuer import sign_token
from distributary.config import Auth, Config
from distributary.config.sections import Limits
from distributary.gateway.rest_proxy import consumer_instance
from distributary.kafka.topics import ensure_topic

AUTH = Auth(hmac_secret="a secret of the tests, long enough for HS256")


def token_of(user: str, topic: str, **limits: int) -> str:
    return sign_token(AUTH, user, {"consume": [topic], "limits": limits}, 600)[0]


@pytest.fixture
def topic(stack: RunningStack, feeding: Feeding) -> str:
    return ensure_topic(stack.admin(), feeding.topic, 2).name


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_instances_and_streams_of_one_user_have_one_limit(
    start: Start, settings: Config, http: aiohttp.ClientSession, topic: str
) -> None:
    limits = Limits(consumers_per_user=3, connections_per_user=1)
    url = await start(replace(settings, auth=AUTH, limits=limits), instance_timeout=2.0)
    call = GatewayClient(url, http)

    def headers_of(user: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token_of(user, topic)}"}

    async def status() -> int:
        async with http.get(f"{url}/v1/topics/{topic}/stream", headers=headers_of("ann")) as reply:
            if reply.status != 200:
                assert (await reply.json())["error_code"] == 42901
            return reply.status

    async with http.get(f"{url}/v1/topics/{topic}/stream", headers=headers_of("ann")) as stream:
        assert stream.status == 200
        assert await status() == 429, "a stream is a connection, and the limit is one"
        made = [await call("POST", "/consumers/ann", {}, **headers_of("ann")) for _ in range(2)]
        refused = await call("POST", "/consumers/ann", {}, **headers_of("ann"))
        assert (refused.status, refused.code) == (429, 42901)
        assert "3 consumer instances and topic streams of one user" in refused.body["message"]
        taken = await call("POST", "/consumers/bob", {"name": "one"}, **headers_of("bob"))
        assert taken.status == 200, "users have separate limits"
        for _ in range(5):
            again = await call("POST", "/consumers/bob", {"name": "one"}, **headers_of("bob"))
            assert again.code == 40902, "a failed creation does not count"
        assert (await call("DELETE", made[0].body["base_uri"], **headers_of("ann"))).status == 204
        await eventually(
            lambda: call("POST", "/consumers/ann", {}, **headers_of("ann")), lambda made: made.status == 200
        )
    # Two instances are closed because they are unused, and the stream's client is gone.
    await eventually(status, lambda found: found == 200)
    for _ in range(2):
        assert (await call("POST", "/consumers/bob", {}, **headers_of("bob"))).status == 200


async def test_stream_of_user_over_the_cpu_limit_waits_and_others_do_not(
    start: Start, settings: Config, http: aiohttp.ClientSession, topic: str, stack: RunningStack
) -> None:
    count = 20_000
    stack.produce(topic, [(None, {"n": n, "text": "x" * 50}) for n in range(count)], partition=0)
    url = await start(replace(settings, auth=AUTH, limits=Limits(cpu_ms_per_user=0)))
    received = {"ann": 0, "bob": 0}

    async def read(user: str, **limits: int) -> None:
        headers = {"Authorization": f"Bearer {token_of(user, topic, **limits)}"}
        params = {"from": "earliest"}
        async with http.get(f"{url}/v1/topics/{topic}/stream", headers=headers, params=params) as reply:
            assert reply.status == 200
            async for line in reply.content:
                received[user] += line.startswith(b"data: ") and b'"offset"' in line
                if received[user] == count:
                    return

    slow = asyncio.create_task(read("ann", cpu_ms=10))
    await until(lambda: received["ann"])
    await read("bob")
    assert 0 < received["ann"] < count
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)


def test_instance_buffers_a_limited_number_of_bytes_and_loses_none(stack: RunningStack, topic: str) -> None:
    """Its client breaks off its reads again and again, then takes one record at a time."""
    count, large = 120, "x" * 500_000
    stack.produce(topic, [(None, {"n": n, "large": large}) for n in range(count)], partition=0)
    one = consumer_instance.ConsumerInstance(
        stack.config.kafka, topic, "one", consumer_instance.ConsumerOptions(offset_reset="earliest")
    )
    found: list[int] = []
    cancelled = threading.Event()
    try:
        one.subscribe([topic])
        most, since = 0, time.monotonic()
        # librdkafka pauses for a second when its own buffer is full.
        while not most or time.monotonic() - since < 2.5:
            one.fetch(0.2, cancelled)
            if (buffered := sum(map(consumer_instance.message_size, one.pending))) > most:
                most, since = buffered, time.monotonic()
        assert 10 << 20 <= most < 20 << 20
        while len(found) < count:
            one.fetch(5.0, cancelled)
            found += [json.loads(message.value() or b"")["n"] for message in one.peek(1)]
            one.take(1)
    finally:
        one.close()
    assert found == list(range(count))
