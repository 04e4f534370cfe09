from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.subscriber.server import TinyPublisher


@pytest.fixture
async def publisher() -> AsyncIterator[TinyPublisher]:
    tiny = await TinyPublisher().start()
    yield tiny
    await tiny.stop()
