"""What waits to be sent to one socket.io client, with its size: the queue that engine.io reads from."""

from __future__ import annotations

import asyncio
from typing import Any


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
