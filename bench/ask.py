"""``python -m bench.ask SPEC``: many WebSocket connections that subscribe and unsubscribe when they are told.

SPEC is JSON: ``url``, ``view`` and ``connections``. It prints one line when all are connected. Each line on
standard input is a call, and is answered by one line when it is done:

``cycle FIRST COUNT``  each connection subscribes to and leaves COUNT queries, one after the other
``hold FIRST COUNT``   each connection subscribes to COUNT queries and stays
``leave``              each connection leaves what it holds

No query is asked twice: numbers from FIRST on, and each connection has its own part of them. ``shared FIRST
COUNT`` is ``hold`` with the same queries for all.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from distributary.model.channel_name import encode_channel

LIMIT = 60.0
"""Seconds that a reply may take."""


def where(n: int) -> str:
    """The n-th filter: an equality, a range with one end, one with two, and both together, in turns."""
    return (
        f"id = 'k{n}'",
        f"n > {n}",
        f"n between {n} and {n + 10}",
        f"id = 'k{n}' and n < {n}",
    )[n % 4]


class Asker(WSListener):
    """One connection; a command at a time has a reply, pushes are not looked at."""

    def __init__(self) -> None:
        self._transport: WSTransport
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._id = 0
        self._held: list[str] = []

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            self._fail(f"closed: {frame.get_close_code()} {frame.get_close_message()!r}")
            return
        for line in frame.get_payload_as_bytes().split(b"\n"):
            if line == b"{}":
                transport.send(WSMsgType.TEXT, b"{}")
            elif not line.startswith(b'{"push"'):
                said = json.loads(line)
                waiting = self._replies.pop(said["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(said)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._fail("disconnected")

    def _fail(self, why: str) -> None:
        for waiting in self._replies.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError(why))
        self._replies.clear()

    def close(self) -> None:
        """Go without a word."""
        self._transport.disconnect()

    async def call(self, **command: Any) -> dict[str, Any]:
        """Send a command and wait for its reply; an error is a ConnectionError."""
        self._id += 1
        waiting = self._replies[self._id] = asyncio.get_running_loop().create_future()
        self._transport.send(WSMsgType.TEXT, json.dumps({"id": self._id, **command}).encode())
        async with asyncio.timeout(LIMIT):
            said: dict[str, Any] = await waiting
        if "error" in said:
            raise ConnectionError(f"{command} was refused: {said['error']}")
        return said

    async def cycle(self, channels: Sequence[str]) -> None:
        """Subscribe to each and leave it again."""
        for channel in channels:
            await self.call(subscribe={"channel": channel})
            await self.call(unsubscribe={"channel": channel})

    async def hold(self, channels: Sequence[str]) -> None:
        """Subscribe to all and stay."""
        for channel in channels:
            await self.call(subscribe={"channel": channel})
            self._held.append(channel)

    async def leave(self) -> None:
        """Leave all that is held."""
        while self._held:
            await self.call(unsubscribe={"channel": self._held.pop()})


class Swarm:
    """All connections."""

    def __init__(self, view: str, askers: Sequence[Asker]) -> None:
        self._view = view
        self._askers = askers

    async def cycle(self, first: int, count: int) -> None:
        """See the module."""
        await self._each(lambda at, one: one.cycle(self._channels(first + at * count, count)))

    async def hold(self, first: int, count: int) -> None:
        """See the module."""
        await self._each(lambda at, one: one.hold(self._channels(first + at * count, count)))

    async def shared(self, first: int, count: int) -> None:
        """See the module."""
        channels = self._channels(first, count)
        await self._each(lambda at, one: one.hold(channels))

    async def leave(self) -> None:
        """See the module."""
        await self._each(lambda at, one: one.leave())

    def close(self) -> None:
        """Close all connections."""
        for asker in self._askers:
            asker.close()

    def _channels(self, first: int, count: int) -> list[str]:
        return [encode_channel(self._view, where=where(n)) for n in range(first, first + count)]

    async def _each(self, work: Callable[[int, Asker], Awaitable[None]]) -> None:
        await asyncio.gather(*(work(at, one) for at, one in enumerate(self._askers)))


async def connect(url: str, view: str, connections: int) -> Swarm:
    """Open the connections and say who they are."""
    askers = []
    for _ in range(connections):
        _, asker = await ws_connect(Asker, url)
        assert isinstance(asker, Asker)
        await asker.call(connect={})
        askers.append(asker)
    return Swarm(view, askers)


async def serve(url: str, view: str, connections: int) -> None:
    """Do what is told until standard input ends."""
    swarm = await connect(url, view, connections)
    print(json.dumps({"ready": True}), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        word, *numbers = line.split()
        began = time.monotonic()
        try:
            await getattr(swarm, word)(*map(int, numbers))
            error = ""
        except (OSError, TimeoutError) as trouble:
            error = str(trouble) or type(trouble).__name__
        print(json.dumps({"seconds": time.monotonic() - began, "error": error}), flush=True)


if __name__ == "__main__":
    uvloop.run(serve(**json.loads(sys.argv[1])))
