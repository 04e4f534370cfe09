"""The API over a store in memory on a thread, for tests of code that blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from tests.support.clock import LIMIT
from tests.support.control_api import Api

T = TypeVar("T")


class ThreadedApi:
    """Runs an ``Api``; ``url`` is where it answers."""

    def __init__(self, data_dir: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.api = self._call(self._start(data_dir))
        self.url = str(self.api.client.make_url("")).rstrip("/")

    async def _start(self, data_dir: Path) -> Api:
        api = Api(data_dir)
        await api.client.start_server()
        return api

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10 * LIMIT)

    def observe(self) -> None:
        """Have the API look at the stack now, and not within a second."""
        self._call(self.api.context.monitor.observe())

    def stop(self) -> None:
        self._call(self.api.client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
