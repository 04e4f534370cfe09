from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.control_api import Api


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    api = Api(tmp_path)
    async with api.client:
        yield api
