"""python-socketio and engine.io adapted: packets with exact numbers, and a send queue that knows its size."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from socketio import packet


class ExactJson:
    """The two functions of ``json`` that python-socketio calls."""

    @staticmethod
    def dumps(value: Any, **how: Any) -> str:
        """Write a value; what came from the publisher is in it as it came (``msgspec.Raw``)."""
        return msgspec.json.encode(value).decode()

    @staticmethod
    def loads(text: str) -> Any:
        """Read a value; integers are int and other numbers Decimal. Raises ValueError for anything else."""
        try:
            return json.loads(text, parse_float=Decimal, parse_constant=_refuse)
        except RecursionError:
            raise ValueError("nested too deep") from None
        except InvalidOperation:
            raise ValueError("a number is beyond all bounds") from None


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


class Packet(packet.Packet):  # type: ignore[misc]  # it has no types
    """A packet with exact numbers. An event that has no name is a ValueError, as other bad packets are.

    So is one that announces binary attachments: what is said here is JSON, and all of them would be kept
    until the last has come.
    """

    json = ExactJson

    def decode(self, encoded_packet: Any) -> int:
        """Read a packet; say how many attachments follow it: none."""
        attachments: int = super().decode(encoded_packet)
        if attachments:
            raise ValueError("binary attachments are not served")
        if self.packet_type in (packet.EVENT, packet.BINARY_EVENT):
            named = isinstance(self.data, list) and self.data and isinstance(self.data[0], str)
            if not named or self.data[0] in ("connect", "disconnect", "*"):
                raise ValueError("an event has a name that is not one of socket.io's own")
        return attachments


class Outbox(asyncio.Queue[Any]):
    """A queue that knows how much is under way. ``None`` in it ends its reader.

    engine.io takes all that is there, sends it, and asks again. So what it took counts as waiting until it
    asks for more.
    """

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._queued = self._taken = 0
        self._moved = asyncio.Event()

    def _put(self, item: Any) -> None:
        super()._put(item)
        self._queued += _size(item)

    def _get(self) -> Any:
        item = super()._get()
        self._queued -= _size(item)
        self._taken += _size(item)
        return item

    async def get(self) -> Any:
        """Take the next; what was taken before has been sent."""
        self._taken = 0
        self._moved.set()
        return await super().get()

    @property
    def waiting(self) -> int:
        """Characters that are not sent yet."""
        return self._queued + self._taken

    async def room(self, limit: int) -> None:
        """Wait until no more than ``limit`` waits."""
        while self.waiting > limit:
            self._moved.clear()
            await self._moved.wait()

    def drop(self) -> None:
        """Forget all that nobody has taken: its reader is too slow to be told."""
        while not self.empty():
            self.get_nowait()
            self.task_done()


def _size(item: Any) -> int:
    data = getattr(item, "data", None)
    return len(data) if isinstance(data, str | bytes) else 0
