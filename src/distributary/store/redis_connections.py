"""Connections to Redis on which no cancellation is lost.

redis-py sends by ``asyncio.wait_for``, which in Python 3.11 swallows a cancellation that comes in the same
moment as its result. A loop of such calls then goes on after it was stopped, and a time-out around it never
ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)


class _Cancellable(AbstractConnection):
    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        await super().send_packed_command(command, check_health)
        # More than before: what a task that is being cancelled sends to clean up is not concerned.
        if task is not None and task.cancelling() > before:
            await self.disconnect(nowait=True)  # nobody reads the reply, and it is not the next one's
            raise asyncio.CancelledError


class _Plain(_Cancellable, Connection):
    pass


class _Tls(_Cancellable, SSLConnection):
    pass


class _Unix(_Cancellable, UnixDomainSocketConnection):
    pass


_CLASSES: dict[type[AbstractConnection], type[AbstractConnection]] = {
    Connection: _Plain,
    SSLConnection: _Tls,
    UnixDomainSocketConnection: _Unix,
}


def cancellable(pool: ConnectionPool) -> None:
    """Have a pool that was not used yet make connections on which no cancellation is lost."""
    pool.connection_class = _CLASSES[pool.connection_class]
