"""What the integration tests share: the stack's own store, and a server apart for those that kill it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from tests.support.servers import StoreServer
from tests.support.stack import RunningStack

from distributary.setup.valkey import bundled


@dataclass(frozen=True)
class Database:
    """A database of its own on the shared server: empty at first."""

    url: str


@pytest.fixture
def database(stack: RunningStack) -> Iterator[Database]:
    """Where a test may write as it likes without a stack's parts looking on."""
    found = Database(f"{stack.config.store.url.rsplit('/', 1)[0]}/1")
    with redis.Redis.from_url(found.url) as admin:
        admin.flushdb()
        yield found
        admin.flushdb()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreServer]:
    """A Valkey of a test's own, to be killed."""
    folder = tmp_path / "store"
    folder.mkdir()
    binary = bundled()
    assert binary is not None
    server = StoreServer(binary, folder)
    server.start()
    yield server
    server.stop()
