"""The embedded store server: one Valkey (or Redis) on 127.0.0.1 that keeps an append-only file.

The file is synced every second. A lost machine loses about the last second; a killed process at most what
waited for a slow sync (two seconds). Either way the store went back, which R2 is about.
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
from distributary.store.redis_codec import script
from distributary.store.redis_connections import cancellable
from distributary.store.redis_writer import RedisWriter


@dataclass(frozen=True)
class Server:
    """What one embedded server is made of; ``program`` is a valkey-server or redis-server."""

    folder: Path
    program: Path
    kind: Literal["valkey", "redis"]
    port: int
    password: str = field(repr=False)

    @property
    def url(self) -> str:
        """Where clients connect, with the password."""
        return store_url(self.port, self.password)

    def prepare(self) -> bool:
        """Write the configuration; return whether the folder has data of an earlier run."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The password is in this file rather than on the command line, which every user can see.
        write_private(self.folder / "server.conf", self._configuration())
        return any(path.stat().st_size for path in (self.folder / "appendonlydir").glob("*.aof"))

    def command(self) -> list[str]:
        """The program that is the server; SIGTERM stops it cleanly. It logs to standard output."""
        return [str(self.program), str(self.folder / "server.conf")]

    async def wait_ready(self, pid: int, *, restarted: bool) -> None:
        """Wait until the process ``pid`` has loaded its data and answers; has no end of its own.

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
            # A title is written over the environment, and by its marks there a stack finds its processes.
            "set-proc-title": "no",
        }
        return "".join(f"{name} {value}\n" for name, value in rows.items())


_SILENT = "Check that it runs, that store.url names it, and that this machine may reach it"
_TLS = "Name the file of its CA in store.url: rediss://HOST:PORT/0?ssl_ca_certs=FILE"


async def wait_for_store(url: str, limit: float, say: Callable[[str], None] = lambda line: None) -> None:
    """Wait until the server at ``url`` answers and has loaded its data.

    ``say`` hears that we wait, once, if it does not answer at once. Raises `StoreUnavailable` after
    ``limit`` seconds, and at once when the server refuses our name or password, or some of our commands.
    """
    shown = mask_text(url)
    trouble = "no answer"
    said = False
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
                        f"the store at {shown} refuses us: {_refusal(error)}",
                        hint="Correct the name and password in store.url",
                    ) from None
                except (RedisError, OSError) as error:
                    trouble = str(error) or type(error).__name__
                if not said:
                    said = True
                    say(f"waiting for the store at {shown}")
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise StoreUnavailable(
            f"the store at {shown} did not answer within {limit:g} s ({mask_text(trouble)})",
            hint=_TLS if "certificate verify failed" in trouble.lower() else _SILENT,
        ) from None


async def wait_for_stores(
    addresses: Sequence[str], limit: float, say: Callable[[str], None] = lambda line: None
) -> None:
    """Wait for all servers of a store and refuse one that would lose rows.

    One of several that does not answer within ``limit`` seconds is said and left: the views of the others
    need not wait for it. Raises `StoreUnavailable` when none answers.
    """
    waits = (_wait_and_check(address, limit, say) for address in addresses)
    silent = [error for error in await asyncio.gather(*waits) if error is not None]
    if len(silent) == len(addresses):
        raise silent[0]
    for error in silent:
        say(error.message)


async def _wait_and_check(address: str, limit: float, say: Callable[[str], None]) -> StoreUnavailable | None:
    try:
        await wait_for_store(address, limit, say)
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
    """A client that tries each thing once, so that the caller decides how long to wait."""
    client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(
        url, retry=Retry(NoBackoff(), 0), socket_connect_timeout=2, socket_timeout=5
    )
    cancellable(client.connection_pool)
    try:
        yield client
    finally:
        await client.aclose()


async def _serves(client: redis.asyncio.Redis, pid: int) -> bool:
    """Whether it is this very process that answers (the port may be somebody else's), its data loaded."""
    try:
        facts: dict[str, Any] = await client.info("server")
        return int(facts["process_id"]) == pid and bool(await client.ping())
    except (RedisError, OSError):  # not listening yet, or LOADING
        return False


async def _rewrite(client: redis.asyncio.Redis) -> None:
    try:
        await client.bgrewriteaof()
    except ResponseError as error:
        if "already in progress" not in str(error):  # a driver may have had it begin
            raise
    while True:
        facts: dict[str, Any] = await client.info("persistence")
        if not facts["aof_rewrite_in_progress"] and not facts.get("aof_rewrite_scheduled"):
            break
        await asyncio.sleep(0.02)
    if facts["aof_last_bgrewrite_status"] != "ok":
        raise StoreUnavailable(
            "the store could not rewrite its append-only file", hint="Check the disk's space, and its log"
        )


def _no_rights(shown: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"the user of the store at {shown} lacks rights: {why}",
        hint="Give it those of docs/how-to/use-your-kafka-and-redis.md with ACL SETUSER",
    )


def _refusal(error: RedisError) -> str:
    """Why it refuses us. To one without a password a server explains its handshake at length."""
    text = str(error)
    return "it wants a password" if "HELLO" in text or "Authentication required" in text else text


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
