"""A page in a real browser, in front of a publisher that says what the test wants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.browser.publisher import Publisher
from tests.browser.webdriver import Browser, browser, chromium


@pytest.fixture
async def publisher() -> AsyncIterator[Publisher]:
    async with Publisher() as running:
        yield running


@pytest.fixture
async def window(tmp_path: Path) -> AsyncIterator[Browser]:
    if chromium() is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium chromium-driver)")
    async with browser(tmp_path / "profile") as found:
        yield found
