"""A reader of server-sent events."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import aiohttp

from tests.support.clock import LIMIT

WAIT = 10 * LIMIT


class Event(NamedTuple):
    name: str
    data: Any
    id: str


class Stream:
    """Reads events as an EventSource does."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> Event:
        found: dict[str, str] = {}
        async with asyncio.timeout(WAIT):
            while True:
                line = (await self.response.content.readline()).decode()
                if not line:
                    raise ConnectionError("the stream ended")
                if line == "\n":
                    if "event" in found:
                        return Event(found["event"], json.loads(found["data"]), found.get("id", ""))
                    found = {}
                elif not line.startswith(":"):
                    name, _, value = line.rstrip("\n").partition(": ")
                    found[name] = value
