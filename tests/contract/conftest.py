"""Every store under one suite: in memory, on Valkey, on Redis, and on several servers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from distributary.setup.store_server import bundled
from distributary.store import redis_reader as reader_module
from distributary.store.memory_store import MemoryStore
from distributary.store.store_factory import open_reader, open_writer
from tests.support.clock import LIMIT
from tests.support.servers import StoreServer
from tests.support.store_acl import documented_acl

KINDS = ("memory", "valkey", "redis", "shards", "limited")
"""``limited``: a user with exactly the documented permissions."""


@dataclass
class Faces:
    """A store as its two kinds of users see it."""

    writer: Any
    reader: Any
    another_writer: Callable[[], Any]
    restart: Callable[[], None]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], StoreServer]]:
    running: dict[str, StoreServer] = {}

    def get(kind: str) -> StoreServer:
        if kind not in running:
            acl = documented_acl() if kind == "limited" else ()
            binary = shutil.which("redis-server") if kind in ("redis", "limited") else str(bundled())
            if binary is None:
                pytest.skip("redis-server is not installed (make test installs it on Debian as root)")
            running[kind] = StoreServer(Path(binary), tmp_path_factory.mktemp(kind), fsync="always", acl=acl)
            running[kind].start()
        return running[kind]

    yield get
    for server in running.values():
        server.stop()


@pytest.fixture(params=KINDS)
async def store(
    request: pytest.FixtureRequest,
    servers: Callable[[str], StoreServer],
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    if request.param == "memory":
        memory = MemoryStore(log_length=50)
        yield Faces(memory.writer, memory.reader, lambda: memory.writer, memory.restart)
        return
    names = ("valkey", "another") if request.param == "shards" else (request.param,)
    behind = [servers(name) for name in names]
    addresses = [server.url for server in behind]
    for server in behind:
        server.flush()
    writers = [open_writer(addresses, log_length=50)]
    # These tests give way to others: a time-out may be over before the process has looked at its sockets.
    monkeypatch.setattr(reader_module, "CONNECT_TIMEOUT", reader_module.CONNECT_TIMEOUT * LIMIT)
    reader = open_reader(addresses)

    def another() -> Any:
        writers.append(open_writer(addresses, log_length=50))
        return writers[-1]

    def restart() -> None:
        for server in behind:
            server.kill()
            server.start()

    yield Faces(writers[0], reader, another, restart)
    for writer in writers:
        writer.close()
    await reader.close()
