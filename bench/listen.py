"""``python -m bench.listen SPEC``: one WebSocket connection that subscribes and notes what comes, and when.

SPEC is JSON: ``url``, ``channels``, ``stamps`` (whether to read ``t`` out of each publication) and ``token``
("" for none). It prints one line when all channels are subscribed. Each line on standard input asks for
something: ``count``, or ``save PATH``, which writes the stamps and their delays (ns, two signed 64-bit
numbers a publication).
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from array import array
from pathlib import Path
from typing import Any

import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

_STAMP = re.compile(rb'"t":(\d+)')
_PUB = b'"pub":{'


class Tally:
    """What came. Pure: payloads in, replies for the server out."""

    def __init__(self, *, stamps: bool) -> None:
        self.publications = 0
        self.frames = 0
        self.joined = 0
        self.trouble: list[str] = []
        self.pairs = array("q")
        self._stamps = stamps

    def take(self, payload: bytes, now: int) -> bytes | None:
        """Note a frame that came at ``now`` (ns); returns what to answer."""
        if payload.startswith(b'{"push"'):
            self._push(payload, now)
            return None
        answer = None
        for line in payload.split(b"\n"):
            if line == b"{}":
                answer = b"{}"
            elif line.startswith(b'{"push"'):
                self._push(line, now)
            else:
                self._reply(json.loads(line))
        return answer

    def _push(self, payload: bytes, now: int) -> None:
        found = payload.count(_PUB)
        if not found:
            self.trouble.append(payload[:200].decode(errors="replace"))
            return
        self.publications += found
        self.frames += 1
        if self._stamps:
            for stamp in map(int, _STAMP.findall(payload)):
                self.pairs.append(stamp)
                self.pairs.append(now - stamp)

    def _reply(self, reply: dict[str, Any]) -> None:
        if "error" in reply:
            self.trouble.append(json.dumps(reply["error"]))
        elif "subscribe" in reply:
            self.joined += 1

    def counts(self) -> dict[str, Any]:
        return {"publications": self.publications, "frames": self.frames, "trouble": self.trouble[:5]}


class Listener(WSListener):
    """Hands frames to the tally."""

    def __init__(self, tally: Tally, changed: asyncio.Event) -> None:
        self._tally = tally
        self._changed = changed

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        now = time.monotonic_ns()
        if frame.msg_type == WSMsgType.CLOSE:
            self._tally.trouble.append(f"closed: {frame.get_close_code()} {frame.get_close_message()!r}")
            self._changed.set()
            return
        joined, troubles = self._tally.joined, len(self._tally.trouble)
        answer = self._tally.take(frame.get_payload_as_bytes(), now)
        if answer is not None:
            transport.send(WSMsgType.TEXT, answer)
        if joined != self._tally.joined or troubles != len(self._tally.trouble):
            self._changed.set()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._tally.trouble.append("disconnected")
        self._changed.set()


async def listen(url: str, channels: list[str], *, stamps: bool, token: str = "") -> None:
    tally, changed = Tally(stamps=stamps), asyncio.Event()
    transport, _ = await ws_connect(lambda: Listener(tally, changed), url)
    hello = {"id": 1, "connect": {"token": token} if token else {}}
    transport.send(WSMsgType.TEXT, json.dumps(hello).encode())
    for id, channel in enumerate(channels, 2):
        transport.send(WSMsgType.TEXT, json.dumps({"id": id, "subscribe": {"channel": channel}}).encode())
        while tally.joined < id - 1 and not tally.trouble:
            changed.clear()
            await changed.wait()
    print(json.dumps({"ready": not tally.trouble, **tally.counts()}), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        word, _, path = line.strip().partition(" ")
        if word == "save":
            Path(path).write_bytes(tally.pairs.tobytes())
        print(json.dumps(tally.counts()), flush=True)


def main() -> int:
    uvloop.run(listen(**json.loads(sys.argv[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
