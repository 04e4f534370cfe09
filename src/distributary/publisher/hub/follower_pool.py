"""The views that are followed: each is started when it is first needed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import Context

from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.hub.log_follower import Follower
from distributary.publisher.metrics import Stats
from distributary.store.contract import ReaderStore

ATTACH_TIMEOUT = 5.0
MOVE_TIMEOUT = 0.5


class Followers:
    """One follower a view, each in a task of its own."""

    def __init__(self, store: ReaderStore, stats: Stats, on_begun: Callable[[Follower, str], None]) -> None:
        self.all: dict[str, Follower] = {}
        self._store = store
        self._stats = stats
        self._on_begun = on_begun
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    async def need(self, view: str) -> Follower:
        """Find a view's follower, or start it, and wait until it is attached. Raises Refused."""
        follower = self.all.get(view)
        if follower is None or follower.gone:
            info = await self._store.view(view)
            if info is None or not info.live:
                raise Refused(codes.unknown(f"there is no view {view[:200]}"))
            follower = self.all.get(view)  # another join may have been faster
            if follower is None or follower.gone:
                follower = self.all[view] = Follower(self._store, view, self._stats, self._on_begun)
                follower.learn(info)
                # In a context of its own: whoever came first does not pay for what the others ask.
                self._tasks[view] = asyncio.create_task(
                    follower.run(), name=f"follow {view}", context=Context()
                )
        if not follower.attachments:
            await follower.moved(0, ATTACH_TIMEOUT)
        if follower.gone:
            raise Refused(codes.unknown(f"there is no view {view[:200]}"))
        return follower

    async def catch_up(self, follower: Follower, attachments: int) -> None:
        """Wait until a follower stands on new ground, or a moment. Raises Refused when the view is gone."""
        if follower.attachments == attachments:
            with contextlib.suppress(TimeoutError):
                await follower.moved(attachments, MOVE_TIMEOUT)
        if follower.gone:
            raise Refused(codes.unknown(f"there is no view {follower.view}"))

    def stop(self, view: str) -> None:
        """Stop following a view; nothing may listen to it any more."""
        self.all.pop(view, None)
        task = self._tasks.pop(view, None)
        if task is not None:
            stopping = asyncio.create_task(cancelled(task))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    async def close(self) -> None:
        """Stop following everything."""
        for view in list(self.all):
            self.stop(view)
        await asyncio.gather(*self._stopping)


async def cancelled(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks until they are done: a wait that ends at the same moment can swallow a cancellation."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.1)
