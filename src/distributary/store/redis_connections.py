"""Connections to Redis that never lose a cancellation, and only ever lead to the primary.

redis-py sends by ``asyncio.wait_for``, which in Python 3.11 swallows a cancellation that arrives together
with its result. A loop of such calls then continues after it was cancelled, and a time-out around it never
ends it.

An address may lead elsewhere after a failover, and a primary that is demoted in place keeps its clients. The
data of a replica may be old, of another history, or still loading, so it must not be served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.exceptions import ConnectionError


class _Cancellable(AbstractConnection):
    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        await super().send_packed_command(command, check_health)
        # More than before: a task that is being cancelled may still send commands to clean up.
        if task is not None and task.cancelling() > before:
            await self.disconnect(nowait=True)  # the reply must not be read as that of the next command
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
    """Make an unused pool open connections on which no cancellation is lost."""
    pool.connection_class = _CLASSES[pool.connection_class]


async def to_primary(connection: AbstractConnection) -> None:
    """Start a connection; raise ConnectionError unless it leads to a primary. For ``redis_connect_func``."""
    await connection.on_connect()
    await connection.send_command("INFO", "replication", check_health=False)
    if b"role:slave" in bytes(await connection.read_response()):
        raise ConnectionError("this server is a replica; the primary is another one")


async def reconnect(pool: Any) -> None:
    """Close all connections; those in use when they are returned to the pool."""
    await pool.update_active_connections_for_reconnect()
    await pool.disconnect(inuse_connections=False)
