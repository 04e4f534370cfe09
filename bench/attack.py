"""``python -m bench.attack SPEC``: one user with a valid token who uses one path as fast as it can.

SPEC is JSON: ``addresses`` (websocket, http, control, gateway), ``users`` and ``tokens`` by path, ``feed``,
``topic`` and ``view``. It prints one line when it is ready. Each line on standard input is a path of `PATHS`
to begin with, or ``stop``; the answer to that says how often the path was used and what came of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import quote

import aiohttp
import uvloop

WORKERS = 16
"""Things that it does at the same time."""
_SECONDS = 5.0

EVIL = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "definitions": {
        **{f"d{n}": {"anyOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(20)},
        "d20": {"pattern": "^(a+)+$"},
    },
    "$ref": "#/definitions/d0",
}
"""Doubles at every level, and has a pattern at the end that never gives up."""


class Attacker:
    """One user's sessions."""

    def __init__(self, spec: dict[str, Any], path: str, http: aiohttp.ClientSession) -> None:
        self._at = spec["addresses"]
        self._token = spec["tokens"][path]
        self._use = PATHS[path]
        self._user = spec["users"][path]
        self._feed, self._topic, self._view = spec["feed"], spec["topic"], spec["view"]
        self._http = http
        self._numbers = itertools.count()
        self.results: Counter[str] = Counter()
        self.stopped = False
        self._following = asyncio.Lock()

    async def run(self) -> None:
        """Use the path until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._repeat())

    async def _repeat(self) -> None:
        while not self.stopped:  # a cancellation may be lost where a time-out is over at the same moment
            try:
                async with asyncio.timeout(None if self._use is Attacker.follow else _SECONDS):
                    self.results[await self._use(self)] += 1
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                self.results[type(error).__name__] += 1
                await asyncio.sleep(0.01)  # a client that was closed has to connect again

    def _filter(self) -> str:
        """One that nobody asked before, and that no index can help."""
        n = next(self._numbers)
        return f"id like '%z{n}%' or id not like '%y{n}_q%'"

    async def _call(self, method: str, url: str, **more: Any) -> str:
        headers = {"Authorization": f"Bearer {self._token}", **more.pop("headers", {})}
        async with self._http.request(method, url, headers=headers, **more) as reply:
            await reply.read()
            return str(reply.status)

    @contextlib.asynccontextmanager
    async def _socket(self) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        async with self._http.ws_connect(self._at["websocket"]) as socket:
            await socket.send_str(json.dumps({"id": 1, "connect": {"token": self._token}}))
            await socket.receive()
            yield socket

    async def _said(self, socket: aiohttp.ClientWebSocketResponse) -> str:
        """Wait for the reply to a command; what else comes is passed over."""
        while True:
            message = await socket.receive()
            if message.type is not aiohttp.WSMsgType.TEXT:
                raise ConnectionError
            for line in message.data.split("\n"):
                found = json.loads(line)
                if "error" in found:
                    return f"error {found['error']['code']}"
                if found.get("id", 0) > 1:
                    return "ok"

    async def connect(self) -> str:
        """Connect, and go."""
        async with self._socket() as socket:
            return "ok" if not socket.closed else "closed"

    async def subscribe(self) -> str:
        """Subscribe to ever new queries that no index can help, and hold them for a moment."""
        async with self._socket() as socket:
            for n in range(2, 50):
                channel = f"{self._view}?where={quote(self._filter())}"
                await socket.send_str(json.dumps({"id": n, "subscribe": {"channel": channel}}))
                self.results[await self._said(socket)] += 1
        return "ok"

    async def follow(self) -> str:
        """Hold as many queries as it gets, each of which matches every change, and read all that comes."""
        async with self._following, self._socket() as socket:
            said = "ok"
            for n in range(2, 100):
                channel = f"{self._view}?where={quote(f'price >= -{next(self._numbers)}')}"
                await socket.send_str(json.dumps({"id": n, "subscribe": {"channel": channel}}))
                said = await self._said(socket)
                self.results[said] += 1
                if said != "ok":
                    break
            while (await socket.receive()).type is aiohttp.WSMsgType.TEXT:
                self.results["messages"] += 1
        return "closed"

    async def call(self) -> str:
        """Ask small things over and over, without waiting for answers."""
        async with self._socket() as socket:
            ask = {"method": "position", "data": {"view": self._view}}
            for n in range(2, 200):
                await socket.send_str(json.dumps({"id": n, "rpc": ask}))
            return await self._said(socket)

    async def history(self) -> str:
        """Have the changes of a query read from the log over and over, without waiting for answers."""
        async with self._socket() as socket:
            channel = f"{self._view}?where={quote('price >= 0')}"
            await socket.send_str(json.dumps({"id": 2, "subscribe": {"channel": channel}}))
            said = await self._said(socket)
            for n in range(3, 100):
                await socket.send_str(json.dumps({"id": n, "history": {"channel": channel, "limit": -1}}))
            return await self._said(socket) if said == "ok" else said

    async def publish(self) -> str:
        """Publish to a feed of its own over WebSocket, without waiting for answers."""
        async with self._socket() as socket:
            for n in range(2, 200):
                message = {"channel": f"feed:{self._feed}", "data": {"n": n, "text": "x" * 1000}}
                await socket.send_str(json.dumps({"id": n, "publish": message}))
            return await self._said(socket)

    async def rows(self) -> str:
        """Have all rows read for a filter that nobody asked before."""
        return await self._call(
            "GET", f"{self._at['control']}/v1/views/{self._view}", params={"where": self._filter()}
        )

    async def register(self) -> str:
        """Register ever new queries by REST."""
        body = {"view": self._view, "where": self._filter()}
        return await self._call("POST", f"{self._at['control']}/v1/subscriptions", json=body)

    async def stream(self) -> str:
        """Open a stream of a new query, and go."""
        return await self._call(
            "GET",
            f"{self._at['http']}/v1/views/{self._view}/events",
            params={"where": self._filter()},
            headers={"Accept": "application/x-ndjson"},
            timeout=aiohttp.ClientTimeout(total=0.2),
        )

    async def produce(self) -> str:
        """Produce records to a topic of its own."""
        records = [{"value": {"n": n, "text": "x" * 1000}} for n in range(100)]
        return await self._call(
            "POST",
            f"{self._at['gateway']}/topics/{self._topic}",
            data=json.dumps({"records": records}),
            headers={"Content-Type": "application/vnd.kafka.json.v2+json"},
        )

    async def consume(self) -> str:
        """Have a consumer made that reads a topic from its beginning, and leave it behind."""
        group = f"{self._user}.{next(self._numbers)}"
        kind = {"Content-Type": "application/vnd.kafka.v2+json"}
        made = f"{self._at['gateway']}/consumers/{group}"
        body: dict[str, Any] = {"name": "one", "format": "json", "auto.offset.reset": "earliest"}
        if (status := await self._call("POST", made, data=json.dumps(body), headers=kind)) != "200":
            return status
        body = {"topics": [self._topic]}
        await self._call("POST", f"{made}/instances/one/subscription", data=json.dumps(body), headers=kind)
        return await self._call(
            "GET",
            f"{made}/instances/one/records",
            headers={"Accept": "application/vnd.kafka.json.v2+json"},
        )

    async def tail(self) -> str:
        """Have a topic pushed from its beginning, and go."""
        return await self._call(
            "GET",
            f"{self._at['gateway']}/v1/topics/{self._topic}/stream",
            params={"from": "earliest"},
            timeout=aiohttp.ClientTimeout(total=0.2),
        )

    async def drain(self) -> str:
        """Read a topic from its beginning by as many streams as it gets, and begin again."""
        headers = {"Authorization": f"Bearer {self._token}"}
        url = f"{self._at['gateway']}/v1/topics/{self._topic}/stream"
        async with self._http.get(url, headers=headers, params={"from": "earliest"}) as reply:
            if reply.status == 200:
                for _ in range(100):
                    await reply.content.readany()
            return str(reply.status)

    async def schema(self) -> str:
        """Have values checked by a schema that takes for ever."""
        body = {"value_schema": json.dumps(EVIL), "records": [{"value": "a" * 40 + "!"}]}
        return await self._call(
            "POST",
            f"{self._at['gateway']}/topics/{self._topic}",
            data=json.dumps(body),
            headers={"Content-Type": "application/vnd.kafka.jsonschema.v2+json"},
        )


PATHS: dict[str, Callable[[Attacker], Awaitable[str]]] = {
    "connect": Attacker.connect,
    "subscribe": Attacker.subscribe,
    "follow": Attacker.follow,
    "call": Attacker.call,
    "history": Attacker.history,
    "publish": Attacker.publish,
    "rows": Attacker.rows,
    "register": Attacker.register,
    "stream": Attacker.stream,
    "produce": Attacker.produce,
    "consume": Attacker.consume,
    "tail": Attacker.tail,
    "drain": Attacker.drain,
    "schema": Attacker.schema,
}
"""What one user may do, by name."""


async def attack(spec: dict[str, Any]) -> None:
    """Do as the lines on standard input say."""
    loop = asyncio.get_running_loop()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as http:
        print(json.dumps({"ready": True}), flush=True)
        running: asyncio.Task[None] | None = None
        attacker: Attacker | None = None
        while line := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            if running is not None and attacker is not None:
                attacker.stopped = True
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                running = None
            if line == "stop":
                print(json.dumps({"used": dict(attacker.results) if attacker else {}}), flush=True)
                continue
            attacker = Attacker(spec, line, http)
            running = asyncio.create_task(attacker.run())


def main() -> int:
    """Run until standard input ends."""
    uvloop.run(attack(json.loads(sys.argv[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
