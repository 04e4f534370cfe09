"""The synchronous subscriber: the asynchronous one on a thread of its own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from distributary.auth.client_security import Trust
from distributary.model.position import Position
from distributary.subscriber.async_subscriber import Changes, subscribe
from distributary.subscriber.connection_settings import GetToken
from distributary.subscriber.subscribed_change import Row, SubscribedChange, SubscribedRows

T = TypeVar("T")


def subscribe_sync(
    view: str,
    where: str | None = None,
    keys: Iterable[str] | None = None,
    *,
    fields: str | Iterable[str] | None = None,
    from_position: Position | datetime | str | int | None = None,
    rows: Mapping[str, Row] | None = None,
    order_by: str | None = None,
    limit: int | None = None,
    conflate: float | str | None = None,
    max_rate: float | None = None,
    max_bytes: int | str | None = None,
    slow: str | None = None,
    url: str | Sequence[str] | None = None,
    control: str | None = None,
    token: str | None = None,
    get_token: GetToken | None = None,
    api_key: str | None = None,
    tls: ssl.SSLContext | Trust | None = None,
    timeout: float = 10.0,
) -> SyncChanges:
    """Follow the rows of a view from code without asyncio; arguments as in ``subscribe``.

    Use it as ``with subscribe_sync("odds") as changes: for change in changes: …``.
    """
    changes = subscribe(
        view,
        where,
        keys,
        fields=fields,
        from_position=from_position,
        rows=rows,
        order_by=order_by,
        limit=limit,
        conflate=conflate,
        max_rate=max_rate,
        max_bytes=max_bytes,
        slow=slow,
        url=url,
        control=control,
        token=token,
        get_token=get_token,
        api_key=api_key,
        tls=tls,
        timeout=timeout,
    )
    return SyncChanges(changes)


class SyncChanges(SubscribedRows):
    """A subscription: a context manager and an iterator; see ``Changes``. For one thread at a time."""

    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self.channel = changes.channel
        self._changes = changes
        self._taken: deque[SubscribedChange] = deque()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="distributary-subscriber", daemon=True
        )

    @property
    def tier(self) -> str:
        """Where the rows last came from; see ``Changes``."""
        return self._changes.tier

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._call(self._changes.__aenter__())
        except BaseException:
            self._stop()
            raise
        self.rows = dict(self._changes.rows)
        self.stale, self.incomplete = self._changes.stale, self._changes.incomplete
        self.position = self._changes.position
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> SubscribedChange:
        change = self.next()
        assert change is not None
        return change

    def next(self, timeout: float | None = None) -> SubscribedChange | None:
        """Wait for the next change; None when ``timeout`` seconds pass. StopIteration once closed."""
        if not self._taken:
            if self._loop.is_closed():
                raise StopIteration
            self._taken.extend(self._call(self._waited(timeout)))
            if not self._taken:
                return None
        change = self._taken.popleft()
        self.apply(change)
        return change

    def close(self) -> None:
        """End the subscription and its thread; iterating afterwards ends at once."""
        if not self._loop.is_closed():
            try:
                self._call(self._changes.close())
            finally:
                self._taken.clear()
                self._stop()

    async def _waited(self, timeout: float | None) -> list[SubscribedChange]:
        try:
            async with asyncio.timeout(timeout):
                return await self._changes.take()
        except TimeoutError:
            return []

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
