"""Waiting for a condition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.support.clock import LIMIT

T = TypeVar("T")


async def eventually(ask: Callable[[], Awaitable[T]], ready: Callable[[T], object], limit: float = 20.0) -> T:
    """Call ``ask`` until its result is ``ready``, and return it; after ``limit`` seconds fail."""
    deadline = time.monotonic() + limit * LIMIT
    while not ready(found := await ask()):
        if time.monotonic() > deadline:
            raise AssertionError(f"it stayed at: {found}")
        await asyncio.sleep(0.05)
    return found
