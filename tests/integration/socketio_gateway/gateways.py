"""A gateway in front of a publisher of the tests, and the npm client as a process that prints its events."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.clock import LIMIT

from distributary.config.server_sections import Publisher, Socketio
from distributary.socketio_gateway.socketio_server import SocketioGateway

NODE = Path(__file__).parents[2] / "node"
WAIT = 20 * LIMIT

needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (NODE / "node_modules" / "socket.io-client").is_dir(),
    reason="needs node and tests/node/node_modules (make test installs them)",
)


@asynccontextmanager
async def gateway(
    publishers: Sequence[str], *, stall: float = 10.0, **limits: Any
) -> AsyncIterator[SocketioGateway]:
    """Run a gateway on a free port."""
    one = SocketioGateway(Socketio(), Publisher(**limits), publishers, stall=stall)
    await one.start(port=0)
    try:
        yield one
    finally:
        await one.stop()


class Node:
    """The client under way."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.received: list[dict[str, Any]] = []

    async def next(self, event: str) -> Any:
        """Read on to the next line that tells of this event."""
        assert self._process.stdout is not None
        async with asyncio.timeout(WAIT):
            while True:
                line = await self._process.stdout.readline()
                assert line, f"it ended; before {event} it said: {self.received}"
                message = json.loads(line)
                self.received.append(message)
                if message["event"] == event:
                    return message.get("body", message)

    async def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()

    async def ask(self, event: str, payload: Any = None) -> Any:
        """Emit an event and give its acknowledgement."""
        await self.say(event if payload is None else f"{event} {json.dumps(payload)}")
        return await self.next("ack")


@asynccontextmanager
async def node(port: int, *words: str) -> AsyncIterator[Node]:
    """Run the npm client against a gateway."""
    process = await asyncio.create_subprocess_exec(
        "node",
        str(NODE / "socketio.mjs"),
        f"http://127.0.0.1:{port}",
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 27,
    )
    try:
        yield Node(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
