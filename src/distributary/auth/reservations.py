"""How much of something users hold, counted by all processes together through the store.

A process notes in the store what it holds of each name, and renews that while it lives; what a dead process
held is free again after `TTL`. Names are those of users, addresses and of all together.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from redis.exceptions import RedisError

from distributary.errors import LimitExceeded, StoreUnavailable

log = logging.getLogger(__name__)

TTL = 30.0
"""Seconds for which what a process noted counts without being renewed."""


class Store(Protocol):
    """What is asked of the store; see `distributary.store.contract.ReaderStore`."""

    async def reserve(self, what: str, holder: str, change: int, limit: int | None, ttl_ms: int) -> bool:
        """Note more or less."""

    async def renew_reservations(self, holder: str, amounts: Mapping[str, int], ttl_ms: int) -> None:
        """Note everything anew."""


class Reservation(NamedTuple):
    """What somebody wants more of: its name, how much, the limit (None: none), and how an error names it."""

    name: str
    amount: int
    limit: int | None
    said: str


class Reservations:
    """What this process holds. All calls are for one event loop; `run` must be running."""

    def __init__(self, store: Store, *, ttl: float = TTL, holder: str = "") -> None:
        self._store = store
        self._ttl_ms = int(ttl * 1000)
        self._holder = holder or uuid.uuid4().hex
        self._held: Counter[str] = Counter()
        self._returned: Counter[str] = Counter()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._held)

    def count_of(self, name: str) -> int:
        """Say how much this process holds of a name."""
        return self._held[name]

    async def take(self, shares: Sequence[Reservation]) -> None:
        """Hold all of these or none; raises LimitExceeded, or StoreUnavailable when nobody can tell."""
        taken: list[Reservation] = []
        try:
            for share in shares:
                name, amount, limit, said = share
                if not await self._store.reserve(name, self._holder, amount, limit, self._ttl_ms):
                    raise LimitExceeded(
                        f"limit exceeded: {said}", hint="end some first, or ask for a higher limit"
                    )
                self._held[name] += amount
                taken.append(share)
        except (RedisError, OSError):
            self.release(taken)
            raise StoreUnavailable(
                "what users hold cannot be counted: the store does not answer", hint="try again in a moment"
            ) from None
        except BaseException:
            self.release(taken)
            raise

    def release(self, shares: Sequence[Reservation]) -> None:
        """Give back what was taken; the store hears of it in a moment."""
        for share in shares:
            self._drop(share)
            self._returned[share.name] += share.amount
        if shares:
            self._wake.set()

    @contextlib.asynccontextmanager
    async def holding(self, shares: Sequence[Reservation]) -> AsyncIterator[None]:
        """Hold these while in the block; raises as `take` does."""
        await self.take(shares)
        try:
            yield
        finally:
            self.release(shares)

    async def run(self) -> None:
        """Tell the store what was given back, and renew what is held, until cancelled."""
        clock = asyncio.get_running_loop().time
        renewed = clock()
        while True:
            left = renewed + self._ttl_ms / 3000 - clock()
            # Not wait_for: that one forgets that it was cancelled when the event is set at the same moment.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, left)):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._tell()
                if clock() - renewed >= self._ttl_ms / 3000:
                    renewed = clock()
                    await self._store.renew_reservations(self._holder, dict(self._held), self._ttl_ms)
            except (RedisError, OSError) as error:
                # What was not told is put right by the next renewal, which says everything.
                log.warning("what users hold cannot be noted (%s)", error or type(error).__name__)
                renewed = clock()

    async def _tell(self) -> None:
        returned, self._returned = self._returned, Counter()
        for name, amount in returned.items():
            await self._store.reserve(name, self._holder, -amount, None, self._ttl_ms)

    def _drop(self, share: Reservation) -> None:
        self._held[share.name] -= share.amount
        if not self._held[share.name]:
            del self._held[share.name]
