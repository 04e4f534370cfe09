"""Scenario 6: what a plain subscriber notices of others that have a pace of their own and hardly read."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from array import array
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench import child, fanout, stacks
from bench.child import BenchError, Child
from bench.figures import Say, percentile, summary
from bench.spec import Pace
from distributary.reducers.record_codec import Packed
from distributary.reducers.reducer import Reducer

OPTIONS = ({"conflate": "500ms"}, {"slow": "conflate"})
SIP, SIP_EVERY = 1_024, 0.25


class Writer:
    """Writes changes that carry the time of their writing."""

    def __init__(self, reducer: Reducer, spec: Pace) -> None:
        self._reducer = reducer
        self._spec = spec
        self.written = 0

    def write(self) -> None:
        n, self.written = self.written, self.written + 1
        now = int(time.time() * 1000)
        value = b'{"n":%d,"t":%d,"pad":"%b"}' % (n, time.monotonic_ns(), b"x" * self._spec.value_bytes)
        record = Packed(
            partition=0,
            offset=n,
            time=now,
            event_time=now,
            key=b"k%d" % (n % self._spec.keys),
            value=value,
            unparsed=False,
        )
        if self._reducer.fold([record]) != 1:
            raise BenchError("a record made no change")

    async def run(self, seconds: float) -> None:
        """Write at the rate; a write blocks for a moment, and nothing else is to be done here."""
        began = time.monotonic()
        for n in range(round(seconds * self._spec.rate)):
            await asyncio.sleep(max(0.0, began + n / self._spec.rate - time.monotonic()))
            self.write()


async def measure(spec: Pace, folder: Path, say: Say) -> dict[str, Any]:
    """Take turns with and without the others."""
    folder.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as exits:
        say("starting the store and a publisher")
        _, url, reducer = await fanout.serve(exits, folder)
        writer = Writer(reducer, spec)
        for _ in range(spec.keys):
            writer.write()
        asked = json.dumps({"url": url, "channels": [stacks.VIEW], "stamps": True})
        listener = await exits.enter_async_context(
            child.run("listen", child.module("bench.listen", asked), folder)
        )
        if not (await listener.line(30))["ready"]:
            raise BenchError("the plain subscriber did not come to its rows")
        await writer.run(spec.warm_up)
        alone: list[float] = []
        beside: list[float] = []
        for round_ in range(spec.rounds):
            alone += await _turn(writer, listener, spec, folder)
            with await asyncio.to_thread(Others, url, spec.readers) as others:
                sipping = asyncio.create_task(others.sip())
                await writer.run(spec.warm_up)  # until what may wait for them does
                beside += await _turn(writer, listener, spec, folder)
                sipping.cancel()
            say(f"round {round_ + 1}: p99 {_p99(alone):.1f} ms alone, {_p99(beside):.1f} ms beside them")
    return {
        **summary("pace_alone", alone),
        **summary("pace", beside),
        "pace_p99_ratio": round(_p99(beside) / _p99(alone), 3),
        "pace_readers": spec.readers,
    }


def _p99(delays: Sequence[float]) -> float:
    return percentile(sorted(delays), 0.99)


async def _turn(writer: Writer, listener: Child, spec: Pace, folder: Path) -> list[float]:
    """Write for a while; returns the delays (ms) of all of it."""
    before = await _all(writer, listener, spec)
    await writer.run(spec.seconds)
    after = await _all(writer, listener, spec)
    file = folder / "stamps"
    await listener.ask(f"save {file}".encode(), 10)
    pairs = array("q", file.read_bytes())
    return [delay / 1e6 for delay in pairs[2 * before + 1 : 2 * after : 2]]


async def _all(writer: Writer, listener: Child, spec: Pace) -> int:
    """Wait until the plain subscriber has everything; returns how much that is."""
    wanted = writer.written - spec.keys
    deadline = time.monotonic() + 10
    while True:
        said = await listener.ask(b"count", 10)
        if said["publications"] == wanted:
            return wanted
        if said["publications"] > wanted or said["trouble"] or time.monotonic() > deadline:
            raise BenchError(f"{said['publications']:,} of {wanted:,} publications came: {said['trouble']}")
        await asyncio.sleep(0.02)


class Others:
    """Connections that subscribe with a pace; half of them never read, the others take a sip now and then."""

    def __init__(self, url: str, count: int, view: str = stacks.VIEW) -> None:
        self._url = urlsplit(url)
        self._view = view
        self._sockets: list[socket.socket] = []
        for n in range(count):
            self._subscribe(OPTIONS[n % 2])

    def __enter__(self) -> Others:
        return self

    def __exit__(self, *error: object) -> None:
        for one in self._sockets:
            one.close()

    async def sip(self) -> None:
        """Read a little of every other one, for ever."""
        while True:
            await asyncio.sleep(SIP_EVERY)
            for one in self._sockets[1::2]:
                try:
                    if not one.recv(SIP):
                        raise BenchError("a subscriber with a pace was closed")
                except BlockingIOError:
                    continue

    def _subscribe(self, options: dict[str, str]) -> None:
        made = socket.socket()
        self._sockets.append(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.settimeout(10)
        made.connect((self._url.hostname, self._url.port))
        made.sendall(
            f"GET {self._url.path} HTTP/1.1\r\nHost: {self._url.netloc}\r\nConnection: Upgrade\r\n"
            "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        hello = {"id": 1, "connect": {}}
        asked = {"id": 2, "subscribe": {"channel": self._view, "data": options}}
        made.sendall(frame(f"{json.dumps(hello)}\n{json.dumps(asked)}".encode()))
        reply = b""
        while b'"subscribe":{' not in reply:  # the rest of it stays where it is
            more = made.recv(4_096)
            if not more or b'"error":{' in more:
                self.__exit__()
                raise BenchError(f"a subscriber with a pace was refused: {more.decode(errors='replace')}")
            reply += more
        made.setblocking(False)


def frame(payload: bytes) -> bytes:
    """A text frame as a client sends it, masked with zeros; up to 65,535 bytes."""
    size = len(payload)
    length = bytes((0x80 | size,)) if size < 126 else bytes((0x80 | 126,)) + size.to_bytes(2, "big")
    return b"\x81" + length + bytes(4) + payload
