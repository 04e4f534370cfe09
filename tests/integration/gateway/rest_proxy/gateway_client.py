"""Plain requests to a gateway, as a script would make them."""

from __future__ import annotations

import base64
import io
import json
from typing import Any, ClassVar, NamedTuple

import aiohttp

V2 = "application/vnd.kafka.v2+json"
JSON = "application/json"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def media(format: str, version: int = 2) -> str:
    return f"application/vnd.kafka.{format}.v{version}+json"


class Reply(NamedTuple):
    """A response; ``body`` is its JSON, None for none."""

    status: int
    body: Any
    type: str

    @property
    def code(self) -> int:
        """The code of an error."""
        assert set(self.body) == {"error_code", "message"}, self.body
        return int(self.body["error_code"])


class GatewayClient:
    """One HTTP session; addresses are paths or URLs.

    Requests that change schemas have the stack's own token (``stack_token``), all others none.
    """

    stack_token: ClassVar[dict[str, str]] = {}

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url = url
        self._http = http

    async def __call__(
        self, method: str, path: str, body: Any = None, *, type: str = V2, accept: str = "*/*", **headers: str
    ) -> Reply:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent_headers = {
            "Accept": accept,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        if data is not None:
            sent_headers["Content-Type"] = type
        if method in ("PUT", "DELETE") and path.startswith(("/config", "/subjects")):
            sent_headers = {**self.stack_token, **sent_headers}
        address = path if "://" in path else self.url + path
        sent = None if data is None else io.BytesIO(data)  # aiohttp warns of large bodies in one piece
        async with self._http.request(method, address, data=sent, headers=sent_headers) as reply:
            raw = await reply.read()
            return Reply(reply.status, json.loads(raw) if raw else None, reply.content_type)

    async def produce(self, topic: str, *values: Any, format: str = "json", **more: Any) -> Reply:
        """Write values without keys."""
        body = {"records": [{"value": value} for value in values], **more}
        return await self("POST", f"/topics/{topic}", body, type=media(format))

    async def create_instance(self, group: str, **settings: Any) -> str:
        """Create an instance of version 2 and return its address."""
        body = {"format": "json", "auto.offset.reset": "earliest", **settings}
        made = await self("POST", f"/consumers/{group}", body)
        assert made.status == 200, made
        found: str = made.body["base_uri"]
        return found

    async def read(self, base: str, count: int, *, format: str = "json", tries: int = 40) -> list[Any]:
        """Read until there are that many records."""
        found: list[Any] = []
        for _ in range(tries):
            got = await self("GET", f"{base}/records", accept=media(format))
            assert got.status == 200, got
            found += got.body
            if len(found) >= count:
                return found
        raise AssertionError(f"only {found}")
