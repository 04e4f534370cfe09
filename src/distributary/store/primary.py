"""Connections to the primary alone.

An address may lead elsewhere after a failover, and a primary that is demoted in place keeps its clients. What
a replica has may be old, of another history, or nothing at all while it is being filled.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError


async def to_primary(connection: AbstractConnection) -> None:
    """Begin a connection; raises ConnectionError when it is not to a primary. For ``redis_connect_func``."""
    await connection.on_connect()
    await connection.send_command("INFO", "replication", check_health=False)
    if b"role:slave" in bytes(await connection.read_response()):
        raise ConnectionError("this server is a replica, and its primary is elsewhere")


async def connect_anew(pool: Any) -> None:
    """Give up all connections: those in use when they come back."""
    await pool.update_active_connections_for_reconnect()
    await pool.disconnect(inuse_connections=False)
