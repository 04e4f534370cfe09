"""What users may have and do, by the configuration and by their tokens: the one thing that servers ask.

Callers without a user (programs of an open stack) and the stack's own token are not counted.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from distributary.auth import reservations
from distributary.auth.addresses import client_name
from distributary.auth.grant import STACK, Grant
from distributary.auth.metering import REQUEST, metered
from distributary.auth.rate_budgets import PATIENCE, RateBudgets
from distributary.auth.rate_budgets import Store as Budgets
from distributary.auth.reservations import Reservation, Reservations
from distributary.config import Config
from distributary.errors import StoreUnavailable

# No user's name has a control character in it.
_ADDRESS, _ALL = "\x1faddress:", "\x1fall"


class Store(reservations.Store, Budgets, Protocol):
    """What is asked of the store."""


class Limiter:
    """For one process; its `usage` must be running."""

    def __init__(self, config: Config, store: Store, *, patience: float = PATIENCE) -> None:
        self._limits = config.limits
        self._on = config.auth.on
        self.reservations = Reservations(store)
        self._requests = RateBudgets(store, "requests", "requests", patience=patience)
        self._bytes = RateBudgets(store, "bytes", "bytes", patience=patience)
        said = "milliseconds of processor time"
        self._cpu = RateBudgets(store, "cpu", said, patience=patience)
        self._address_requests = RateBudgets(store, "requests", "requests of one address", patience=patience)
        self._address_bytes = RateBudgets(store, "bytes", "bytes of one address", patience=patience)
        self._all_requests = RateBudgets(store, "requests", "requests of all", patience=patience)
        self._all_bytes = RateBudgets(store, "bytes", "bytes of all", patience=patience)

    async def count_arrival(self, address: str, size: int = 0) -> None:
        """Count a request and its bytes for its address and for all, whoever it is from.

        Before its token is looked at, so wrong ones count too. Raises TooManyRequests. A store that does not
        answer refuses nobody here: no token counts then, and what needs none goes on.
        """
        if not self._on:
            return
        limits, name = self._limits, client_name(address)
        with contextlib.suppress(StoreUnavailable):
            if name:
                await self._address_requests.spend(_ADDRESS + name, 1, limits.requests_per_address)
            await self._all_requests.spend(_ALL, 1, limits.requests)
            if size and name:
                await self._address_bytes.spend(_ADDRESS + name, size, limits.bytes_per_address)
            if size:
                await self._all_bytes.spend(_ALL, size, limits.bytes)

    async def count_request(self, grant: Grant, size: int = 0) -> None:
        """Count a request, and the bytes that come with it; raises TooManyRequests or StoreUnavailable.

        It waits for a moment where its user has done too much.
        """
        if not _counted(grant):
            return
        own = grant.limits.requests
        most = self._limits.requests_per_user if own is None else own
        await self._cpu.spend(grant.user, REQUEST * 1000, self._cpu_rate(grant))
        await self._requests.spend(grant.user, 1, most)
        if size:
            await self._bytes.spend(grant.user, size, self._limits.bytes_per_user)

    def charge(self, grant: Grant, seconds: float) -> None:
        """Count processor time that was taken for a user, whose next request waits for it."""
        if _counted(grant):
            self._cpu.charge(grant.user, seconds * 1000, self._cpu_rate(grant))

    def metered(self, grant: Grant) -> AbstractContextManager[None]:
        """Charge to a user what turns out in a block to cost something."""
        if not _counted(grant):
            return nullcontext()
        return metered(lambda seconds: self.charge(grant, seconds))

    def is_in_debt(self, grant: Grant) -> bool:
        """Say whether a user has taken more processor time than it may, and is to wait."""
        return _counted(grant) and self._cpu.is_in_debt(grant.user, self._cpu_rate(grant))

    async def wait_until_paid(self, grant: Grant) -> None:
        """Wait until a user owes nothing. Raises StoreUnavailable."""
        await self._cpu.wait_until_paid(grant.user, self._cpu_rate(grant))

    def _cpu_rate(self, grant: Grant) -> float:
        own = grant.limits.cpu_ms
        return self._limits.cpu_ms_per_user if own is None else own

    def connection_reservations(self, grant: Grant, address: str) -> list[Reservation]:
        """List what a connection takes."""
        if not _counted(grant):
            return []
        limits, own = self._limits, grant.limits.connections
        most = limits.connections_per_user if own is None else own
        shares = [
            _share("connections:all", 1, limits.connections, "connections of all"),
            _share(f"connections:user:{grant.user}", 1, most, "connections of one user", exact=own),
        ]
        if name := client_name(address):
            each = limits.connections_per_address
            shares.append(_share(f"connections:address:{name}", 1, each, "connections of one address"))
        return shares

    def consumer_reservations(self, grant: Grant) -> list[Reservation]:
        """List what a consumer instance or a stream of a topic takes."""
        if not _counted(grant):
            return []
        own = grant.limits.consumers
        most = self._limits.consumers_per_user if own is None else own
        said = "consumer instances and topic streams of one user"
        return [_share(f"consumers:user:{grant.user}", 1, most, said, exact=own)]

    def query_reservations(self, grant: Grant, address: str, *, expensive: bool) -> list[Reservation]:
        """List what a subscription takes, its user's share first; ``expensive``: no index can help it."""
        if not _counted(grant):
            return []
        own = grant.limits.queries
        most = self._limits.queries_per_user if own is None else own
        cost = self._limits.expensive_query_cost if expensive else 1
        said = "at a time" + (f", of which one without an index counts as {cost}" if expensive else "")
        user = f"queries of one user {said}"
        shares = [_share(f"queries:user:{grant.user}", cost, most, user, exact=own)]
        if name := client_name(address):
            each = self._limits.queries_per_address
            shares.append(_share(f"queries:address:{name}", cost, each, f"queries of one address {said}"))
        return shares


def _counted(grant: Grant) -> bool:
    return bool(grant.user) and grant is not STACK


def _share(name: str, amount: int, most: int, said: str, *, exact: int | None = None) -> Reservation:
    """Make a share; 0 in the configuration is no limit, in a token it is none at all."""
    limit = most if most or exact is not None else None
    return Reservation(name, amount, limit, f"{most:,} {said}")
