"""The embedded store server: one Valkey (or Redis) on 127.0.0.1 that keeps an append-only file.

The file is synced every second. A machine that fails loses about the last second; a killed process at most
the data of a slow sync (two seconds). Either way the store has gone back, which R2 handles.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError

from distributary.config.embedded_defaults import HOST, store_url
from distributary.config.private_files import write_private
from distributary.config.secrets import mask_text
from distributary.errors import StoreUnavailable
from distributary.store.lua_scripts import script
from distributary.store.redis_connections import cancellable
from distributary.store.redis_writer import RedisWriter


@dataclass(frozen=True)
class EmbeddedServer:
    """An embedded server; ``program`` is a valkey-server or redis-server."""

    folder: Path
    program: Path
    kind: Literal["valkey", "redis"]
    port: int
    password: str = field(repr=False)

    @property
    def url(self) -> str:
        """The URL for clients, with the password."""
        return store_url(self.port, self.password)

    def prepare(self) -> bool:
        """Write the configuration; return whether the folder contains data of an earlier run."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The password is in this file rather than on the command line, which every user can see.
        write_private(self.folder / "server.conf", self._configuration())
        return any(path.stat().st_size for path in (self.folder / "appendonlydir").glob("*.aof"))

    def command(self) -> list[str]:
        """Return the command of the server; SIGTERM stops it cleanly. It logs to standard output."""
        return [str(self.program), str(self.folder / "server.conf")]

    async def wait_ready(self, pid: int, *, restarted: bool) -> None:
        """Wait, without a time-out, until the process ``pid`` has loaded its data and responds.

        A Redis that ``restarted`` first rewrites its file (R13): version 7.0 keeps the torn end of a cut
        file on disk, and would run it at the next restart.
        """
        async with connect(self.url) as client:
            while not await _serves(client, pid):
                await asyncio.sleep(0.03)
            if restarted and self.kind == "redis":
                await _rewrite(client)

    def _configuration(self) -> str:
        rows = {
            "bind": HOST,
            "port": self.port,
            "protected-mode": "yes",
            "requirepass": _quoted(self.password),
            "daemonize": "no",
            "dir": _quoted(str(self.folder)),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "aof-load-truncated": "yes",
            "save": '""',
            "maxmemory-policy": "noeviction",
            # A title would overwrite the environment, by which a stack finds its processes.
            "set-proc-title": "no",
        }
        return "".join(f"{name} {value}\n" for name, value in rows.items())


_NO_RESPONSE = "Check that it runs, that store.url names it, and that this machine may reach it"
_TLS = "Set the file of its CA in store.url: rediss://HOST:PORT/0?ssl_ca_certs=FILE"


async def wait_for_store(url: str, limit: float, report: Callable[[str], None] = lambda line: None) -> None:
    """Wait until the server at ``url`` responds and has loaded its data.

    ``report`` is called once if it does not respond immediately. Raises `StoreUnavailable` after ``limit``
    seconds, and immediately if the server rejects the name, the password or some of the commands.
    """
    shown = mask_text(url)
    error_text = "no response"
    reported = False
    try:
        async with connect(url) as client, asyncio.timeout(limit):
            while True:
                try:
                    await client.ping()
                    if missing := [name.decode() for name in await client.eval(script("rights"), 0)]:
                        raise _no_rights(shown, f"it may not use {', '.join(missing)} on keys d:*")
                    return
                except NoPermissionError as error:
                    raise _no_rights(shown, str(error)) from None
                except AuthenticationError as error:
                    raise StoreUnavailable(
                        f"the store at {shown} rejects the connection: {_refusal(error)}",
                        hint="Correct the name and password in store.url",
                    ) from None
                except (RedisError, OSError) as error:
                    error_text = str(error) or type(error).__name__
                if not reported:
                    reported = True
                    report(f"waiting for the store at {shown}")
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise StoreUnavailable(
            f"the store at {shown} did not respond within {limit:g} s ({mask_text(error_text)})",
            hint=_TLS if "certificate verify failed" in error_text.lower() else _NO_RESPONSE,
        ) from None


async def wait_for_stores(
    addresses: Sequence[str], limit: float, report: Callable[[str], None] = lambda line: None
) -> None:
    """Wait for all servers of a store, and reject one that would lose rows.

    One of several that does not respond within ``limit`` seconds is reported and skipped: the views of the
    others need not wait for it. Raises `StoreUnavailable` if none responds.
    """
    waits = (_wait_and_check(address, limit, report) for address in addresses)
    silent = [error for error in await asyncio.gather(*waits) if error is not None]
    if len(silent) == len(addresses):
        raise silent[0]
    for error in silent:
        report(error.message)


async def _wait_and_check(
    address: str, limit: float, report: Callable[[str], None]
) -> StoreUnavailable | None:
    try:
        await wait_for_store(address, limit, report)
    except StoreUnavailable as error:
        return error
    writer = RedisWriter(address)
    try:
        await asyncio.to_thread(writer.check)
    finally:
        writer.close()
    return None


@contextlib.asynccontextmanager
async def connect(url: str) -> AsyncIterator[redis.asyncio.Redis]:
    """Open a client that tries each call once, so that the caller decides how long to wait."""
    client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(
        url, retry=Retry(NoBackoff(), 0), socket_connect_timeout=2, socket_timeout=5
    )
    cancellable(client.connection_pool)
    try:
        yield client
    finally:
        await client.aclose()


async def _serves(client: redis.asyncio.Redis, pid: int) -> bool:
    """Return whether this process responds (the port may belong to another one), with its data loaded."""
    try:
        facts: dict[str, Any] = await client.info("server")
        return int(facts["process_id"]) == pid and bool(await client.ping())
    except (RedisError, OSError):  # not listening yet, or LOADING
        return False


async def _rewrite(client: redis.asyncio.Redis) -> None:
    try:
        await client.bgrewriteaof()
    except ResponseError as error:
        if "already in progress" not in str(error):  # a driver may have started it
            raise
    while True:
        facts: dict[str, Any] = await client.info("persistence")
        if not facts["aof_rewrite_in_progress"] and not facts.get("aof_rewrite_scheduled"):
            break
        await asyncio.sleep(0.02)
    if facts["aof_last_bgrewrite_status"] != "ok":
        raise StoreUnavailable(
            "the store could not rewrite its append-only file", hint="Check the disk space, and its log"
        )


def _no_rights(shown: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"the user of the store at {shown} lacks permissions: {why}",
        hint="Grant it those of docs/how-to/use-your-kafka-and-redis.md with ACL SETUSER",
    )


def _refusal(error: RedisError) -> str:
    """Return why it rejects the connection; without a password a server describes its handshake at length."""
    text = str(error)
    return "it requires a password" if "HELLO" in text or "Authentication required" in text else text


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
