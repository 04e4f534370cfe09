"""How much of something users have reserved, counted by all processes together through the store.

A process stores what it has reserved under each name, and renews that while it runs; what a dead process had
reserved is free again after `TTL`. Names are those of users, of addresses, and of all together.
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
"""Seconds for which a reservation is valid without being renewed."""


class Store(Protocol):
    """What is needed of the store; see `distributary.store.contract.ReaderStore`."""

    async def reserve(self, what: str, holder: str, change: int, limit: int | None, ttl_ms: int) -> bool:
        """Reserve more or less."""

    async def renew_reservations(self, holder: str, amounts: Mapping[str, int], ttl_ms: int) -> None:
        """Renew everything."""


class Reservation(NamedTuple):
    """What to reserve: its name, how much, the limit (None: none), and how errors describe the limit."""

    name: str
    amount: int
    limit: int | None
    description: str


class Reservations:
    """What this process has reserved. All calls are for one event loop; `run` must be running."""

    def __init__(self, store: Store, *, ttl: float = TTL, holder: str = "") -> None:
        self._store = store
        self._ttl_ms = int(ttl * 1000)
        self._holder = holder or uuid.uuid4().hex
        self._reserved: Counter[str] = Counter()
        self._released: Counter[str] = Counter()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._reserved)

    def count_of(self, name: str) -> int:
        """Return how much this process has reserved of a name."""
        return self._reserved[name]

    async def take(self, reservations: Sequence[Reservation]) -> None:
        """Reserve all of these or none; raises LimitExceeded, or StoreUnavailable if it cannot count."""
        taken: list[Reservation] = []
        try:
            for reservation in reservations:
                name, amount, limit, description = reservation
                if not await self._store.reserve(name, self._holder, amount, limit, self._ttl_ms):
                    raise LimitExceeded(
                        f"limit exceeded: {description}", hint="end some first, or request a higher limit"
                    )
                self._reserved[name] += amount
                taken.append(reservation)
        except (RedisError, OSError):
            self.release(taken)
            raise StoreUnavailable(
                "the limits of users cannot be checked: the store does not respond", hint="retry in a moment"
            ) from None
        except BaseException:
            self.release(taken)
            raise

    def release(self, reservations: Sequence[Reservation]) -> None:
        """Release what was taken; the store is updated soon after."""
        for reservation in reservations:
            self._drop(reservation)
            self._released[reservation.name] += reservation.amount
        if reservations:
            self._wake.set()

    @contextlib.asynccontextmanager
    async def holding(self, reservations: Sequence[Reservation]) -> AsyncIterator[None]:
        """Reserve these during the block; raises as `take` does."""
        await self.take(reservations)
        try:
            yield
        finally:
            self.release(reservations)

    async def run(self) -> None:
        """Send releases to the store and renew what is reserved, until cancelled."""
        clock = asyncio.get_running_loop().time
        renewed = clock()
        while True:
            left = renewed + self._ttl_ms / 3000 - clock()
            # Not wait_for: it loses a cancellation that happens at the same time as the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, left)):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._send_releases()
                if clock() - renewed >= self._ttl_ms / 3000:
                    renewed = clock()
                    await self._store.renew_reservations(self._holder, dict(self._reserved), self._ttl_ms)
            except (RedisError, OSError) as error:
                # What was not sent is corrected by the next renewal, which has everything.
                log.warning("cannot store what users have reserved (%s)", error or type(error).__name__)
                renewed = clock()

    async def _send_releases(self) -> None:
        released, self._released = self._released, Counter()
        for name, amount in released.items():
            await self._store.reserve(name, self._holder, -amount, None, self._ttl_ms)

    def _drop(self, reservation: Reservation) -> None:
        self._reserved[reservation.name] -= reservation.amount
        if not self._reserved[reservation.name]:
            del self._reserved[reservation.name]
