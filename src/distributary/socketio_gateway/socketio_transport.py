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
        """Write a value; parts that came from the publisher are written as they came (``msgspec.Raw``)."""
        return msgspec.json.encode(value).decode()

    @staticmethod
    def loads(text: str) -> Any:
        """Read a value; integers are int and other numbers Decimal. Raises ValueError for anything else."""
        try:
            return json.loads(text, parse_float=Decimal, parse_constant=_refuse)
        except RecursionError:
            raise ValueError("nested too deep") from None
        except InvalidOperation:
            raise ValueError("a number is out of range") from None


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


class ExactPacket(packet.Packet):  # type: ignore[misc]  # it has no types
    """A packet with exact numbers. An event that has no name is a ValueError, as other bad packets are.

    So is one that announces binary attachments: only JSON is supported, and attachments would be buffered
    until the last has come.
    """

    json = ExactJson

    def decode(self, encoded_packet: Any) -> int:
        """Read a packet; return how many attachments follow it: none."""
        attachments: int = super().decode(encoded_packet)
        if attachments:
            raise ValueError("binary attachments are not supported")
        if self.packet_type in (packet.EVENT, packet.BINARY_EVENT):
            named = isinstance(self.data, list) and self.data and isinstance(self.data[0], str)
            if not named or self.data[0] in ("connect", "disconnect", "*"):
                raise ValueError("an event must have a name that socket.io does not use itself")
        return attachments


class SendQueue(asyncio.Queue[Any]):
    """The queue of one client that engine.io reads from; it knows how much waits. ``None`` ends its reader.

    engine.io takes everything that is there, sends it, and comes for more. So what it took counts as waiting
    until then.
    """

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._queued = self._taken = 0
        self._progress = asyncio.Event()

    def _put(self, item: Any) -> None:
        super()._put(item)
        self._queued += _size(item)

    def _get(self) -> Any:
        item = super()._get()
        self._queued -= _size(item)
        self._taken += _size(item)
        return item

    async def get(self) -> Any:
        """Take the next item; what was taken before has been sent."""
        self._taken = 0
        self._progress.set()
        return await super().get()

    @property
    def waiting(self) -> int:
        """How many characters are not sent yet."""
        return self._queued + self._taken

    async def wait_below(self, limit: int) -> None:
        """Wait until no more than ``limit`` waits."""
        while self.waiting > limit:
            self._progress.clear()
            await self._progress.wait()

    def clear(self) -> None:
        """Remove everything that was not taken: its reader is too slow to be sent it."""
        while not self.empty():
            self.get_nowait()
            self.task_done()


def _size(item: Any) -> int:
    data = getattr(item, "data", None)
    return len(data) if isinstance(data, str | bytes) else 0
