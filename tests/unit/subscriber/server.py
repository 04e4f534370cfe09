"""A publisher of a few lines: enough of the protocol for the Python subscriber, and ways to be unkind."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer


class TinyPublisher:
    """Serves one set of rows under any channel; ``unknown`` is refused."""

    def __init__(self) -> None:
        self.epoch = "e1"
        self.log: list[tuple[int, dict[str, Any]]] = []
        self.rows: dict[str, Any] = {}
        self.requests: list[dict[str, Any]] = []
        self.sockets: set[web.WebSocketResponse] = set()
        self.subscribed = asyncio.Event()
        app = web.Application()
        app.add_routes([web.get("/connection/websocket", self._serve)])
        self.server = TestServer(app)

    @property
    def url(self) -> str:
        return str(self.server.make_url("/connection/websocket")).replace("http://", "ws://")

    @property
    def seq(self) -> int:
        return self.log[-1][0] if self.log else 0

    async def start(self) -> TinyPublisher:
        await self.server.start_server()
        return self

    async def stop(self) -> None:
        await self.drop()
        await self.server.close()

    async def write(self, key: str, row: dict[str, Any] | None) -> None:
        if row is None:
            del self.rows[key]
            data: dict[str, Any] = {"op": "remove", "key": key, "time": 1}
        else:
            self.rows[key] = row
            data = {"op": "add", "key": key, "time": 1, "row": row}
        self.log.append((self.seq + 1, data))
        await self.say({"data": data, "offset": self.seq})

    async def say(self, pub: dict[str, Any]) -> None:
        channel = self.requests[-1]["channel"] if self.requests else ""
        for socket in list(self.sockets):
            await socket.send_json({"push": {"channel": channel, "pub": pub}})

    async def drop(self, code: int = 1012, message: bytes = b"") -> None:
        for socket in list(self.sockets):
            await socket.close(code=code, message=message)

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        try:
            async for message in socket:
                if message.type != WSMsgType.TEXT:
                    break
                for line in message.data.split("\n"):
                    await self._command(socket, json.loads(line))
        finally:
            self.sockets.discard(socket)
        return socket

    async def _command(self, socket: web.WebSocketResponse, command: dict[str, Any]) -> None:
        if "connect" in command:
            await socket.send_json(
                {"id": command["id"], "connect": {"client": "c", "ping": 25, "pong": True}}
            )
        elif "subscribe" in command:
            params = command["subscribe"]
            self.requests.append(params)
            self.subscribed.set()
            if params["channel"].startswith("unknown"):
                error = {"code": 102, "message": "unknown channel"}
                await socket.send_json({"id": command["id"], "error": error})
                return
            reply: dict[str, Any] = {"epoch": self.epoch, "offset": self.seq, "recoverable": True}
            if params.get("recover") and params["epoch"] == self.epoch:
                reply["recovered"] = True
                reply["publications"] = [
                    {"data": d, "offset": n} for n, d in self.log if n > params["offset"]
                ]
            else:
                reply["data"] = {"op": "snapshot", "rows": list(map(list, self.rows.items())), "stale": False}
            await socket.send_json({"id": command["id"], "subscribe": reply})
            self.sockets.add(socket)
