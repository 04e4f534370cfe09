"""What the integration tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.servers import StoreServer

from distributary.setup.valkey import bundled


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreServer]:
    """A Valkey of a test's own."""
    folder = tmp_path / "store"
    folder.mkdir()
    binary = bundled()
    assert binary is not None
    server = StoreServer(binary, folder)
    server.start()
    yield server
    server.stop()
