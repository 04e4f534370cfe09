"""Cases that prove the effect of each parameter, field and setting of the gateway.

Most are two requests whose responses differ; ``{…}`` in them is replaced by the `GatewayUnderTest`.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from confluent_kafka import Message, TopicPartition
from tests.integration.gateway.rest_proxy.gateway_client import JSON, GatewayClient, Reply, media
from tests.support.clock import LIMIT
from tests.support.stack import RunningStack

from distributary.kafka import librdkafka

V2 = "application/vnd.kafka.v2+json"
AVRO, PLAIN = media("avro"), media("json")
ODDS = json.dumps({"type": "record", "name": "Odds", "namespace": "book", "fields": []})
V3 = "/v3/clusters/{cluster}/topics/{written}/records"


@dataclass
class GatewayUnderTest:
    """A gateway, topics and subjects.

    ``{topic}`` has two partitions, with five records in the first; cases write to ``{written}``, whose
    subjects have long for values and int for keys. The subject ``a`` has the versions int, string (deleted)
    and bytes, and is referred to; ``b`` and ``h`` (int) are deleted; ``strict`` has int and BACKWARD; ``rec``
    a record.
    """

    call: GatewayClient
    http: aiohttp.ClientSession
    stack: RunningStack
    names: dict[str, str] = field(default_factory=dict)

    def fill(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace("{" + name + "}", value)
        return text.replace("{new}", uuid.uuid4().hex[:8])

    async def request(
        self, method: str, path: str, body: Any = None, type: str = JSON, accept: str = "*/*"
    ) -> Reply:
        sent = body if body is None else json.loads(self.fill(json.dumps(body)))
        return await self.call(method, self.fill(path), sent, type=type, accept=accept)

    async def instance(self, group: str = "{new}", assign: int | None = 0, **settings: Any) -> str:
        """Create an instance, assigned to a partition of the topic."""
        base = await self.call.create_instance(self.fill(group), **settings)
        if assign is not None:
            target = {"topic": "{topic}", "partition": assign}
            assert (
                await self.request("POST", f"{base}/assignments", {"partitions": [target]}, V2)
            ).status == 204
        return base

    async def read(self, base: str, query: str = "timeout=20000", format: str = "json") -> list[Any]:
        """Read once, and return the values."""
        got = await self.request("GET", f"{base}/records?{query}", accept=media(format))
        assert got.status == 200, got
        return [one["value"] for one in got.body]

    async def written(self, **body: Any) -> Message:
        """Write a record by version 3 and return it as it is in Kafka."""
        reply = await self.request("POST", V3, body)
        assert reply.status == 200, reply
        consumer = librdkafka.consumer(self.stack.config.kafka, "cases")
        try:
            consumer.assign(
                [TopicPartition(self.names["written"], reply.body["partition_id"], reply.body["offset"])]
            )
            found = await asyncio.to_thread(consumer.poll, 20 * LIMIT)
            assert found is not None
            return found
        finally:
            consumer.close()

    async def positions(self, query: str) -> Any:
        """Return the positions at which a stream starts."""
        path = self.fill(f"/v1/topics/{{topic}}/stream?{query}")
        async with self.http.ws_connect(self.call.url + path) as socket:
            return (await socket.receive_json())["positions"]


Case = Callable[[GatewayUnderTest], Awaitable[None]]
Request = tuple[Any, ...]


def differ(*requests: Request | list[Request], pick: Callable[[Any], Any] | None = None) -> Case:
    """Create a case of two requests, or lists of them, whose (last) responses must differ as picked."""

    async def run(gateway: GatewayUnderTest) -> None:
        found = []
        for one in requests:
            for request in one if isinstance(one, list) else [one]:
                reply = await gateway.request(*request)
            assert pick is None or reply.status == 200, reply
            found.append((reply.status, reply.body) if pick is None else pick(reply.body))
        assert found[0] != found[1], found

    return run
