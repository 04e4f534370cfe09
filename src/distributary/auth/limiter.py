"""The limits of users, from the configuration and from their tokens: what servers check requests against.

Callers without a user (programs of an open stack) and the stack's own token are not limited.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from distributary.auth import reservations
from distributary.auth.addresses import client_name
from distributary.auth.grant import STACK, Grant
from distributary.auth.metering import REQUEST, metered
from distributary.auth.rate_budgets import MAX_WAIT, RateBudgets
from distributary.auth.rate_budgets import Store as Budgets
from distributary.auth.reservations import Reservation, Reservations
from distributary.config import Config
from distributary.errors import StoreUnavailable

# No user's name has a control character in it.
_ADDRESS, _ALL = "\x1faddress:", "\x1fall"


class Store(reservations.Store, Budgets, Protocol):
    """What is needed of the store."""


class Limiter:
    """The limits that one process applies; its `reservations` must be running."""

    def __init__(self, config: Config, store: Store, *, max_wait: float = MAX_WAIT) -> None:
        self._limits = config.limits
        self._on = config.auth.on
        self.reservations = Reservations(store)
        self._requests = RateBudgets(store, "requests", "requests", max_wait=max_wait)
        self._bytes = RateBudgets(store, "bytes", "bytes", max_wait=max_wait)
        self._cpu = RateBudgets(store, "cpu", "milliseconds of processor time", max_wait=max_wait)
        self._address_requests = RateBudgets(store, "requests", "requests of one address", max_wait=max_wait)
        self._address_bytes = RateBudgets(store, "bytes", "bytes of one address", max_wait=max_wait)
        self._all_requests = RateBudgets(store, "requests", "requests of all", max_wait=max_wait)
        self._all_bytes = RateBudgets(store, "bytes", "bytes of all", max_wait=max_wait)

    async def count_arrival(self, address: str, size: int = 0) -> None:
        """Count a request and its bytes for its address and for all callers.

        This is done before the token is checked, so invalid ones count too. Raises TooManyRequests. If the
        store does not respond, nothing is refused here: no token can be accepted then, and requests that
        need none are served.
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
        """Count a request and its bytes for its user; raises TooManyRequests or StoreUnavailable.

        It waits for a short time if the user is over its budget.
        """
        if not _is_limited(grant):
            return
        own = grant.limits.requests
        limit = self._limits.requests_per_user if own is None else own
        await self._cpu.spend(grant.user, REQUEST * 1000, self._cpu_rate(grant))
        await self._requests.spend(grant.user, 1, limit)
        if size:
            await self._bytes.spend(grant.user, size, self._limits.bytes_per_user)

    def charge(self, grant: Grant, seconds: float) -> None:
        """Charge a user for processor time that was used; its next request waits until it is paid for."""
        if _is_limited(grant):
            self._cpu.charge(grant.user, seconds * 1000, self._cpu_rate(grant))

    def metered(self, grant: Grant) -> AbstractContextManager[None]:
        """Charge a user for everything that is charged in a block."""
        if not _is_limited(grant):
            return nullcontext()
        return metered(lambda seconds: self.charge(grant, seconds))

    def is_in_debt(self, grant: Grant) -> bool:
        """True if a user has used more processor time than it may, and has to wait."""
        return _is_limited(grant) and self._cpu.is_in_debt(grant.user, self._cpu_rate(grant))

    async def wait_until_paid(self, grant: Grant) -> None:
        """Wait until a user is not in debt. Raises StoreUnavailable."""
        await self._cpu.wait_until_paid(grant.user, self._cpu_rate(grant))

    def _cpu_rate(self, grant: Grant) -> float:
        own = grant.limits.cpu_ms
        return self._limits.cpu_ms_per_user if own is None else own

    def connection_reservations(self, grant: Grant, address: str) -> list[Reservation]:
        """List what a connection reserves."""
        if not _is_limited(grant):
            return []
        limits, own = self._limits, grant.limits.connections
        limit = limits.connections_per_user if own is None else own
        reservations = [
            _reservation("connections:all", 1, limits.connections, "connections of all"),
            _reservation(f"connections:user:{grant.user}", 1, limit, "connections of one user", exact=own),
        ]
        if name := client_name(address):
            each = limits.connections_per_address
            reservations.append(
                _reservation(f"connections:address:{name}", 1, each, "connections of one address")
            )
        return reservations

    def consumer_reservations(self, grant: Grant) -> list[Reservation]:
        """List what a consumer instance or a topic stream reserves."""
        if not _is_limited(grant):
            return []
        own = grant.limits.consumers
        limit = self._limits.consumers_per_user if own is None else own
        unit = "consumer instances and topic streams of one user"
        return [_reservation(f"consumers:user:{grant.user}", 1, limit, unit, exact=own)]

    def query_reservations(self, grant: Grant, address: str, *, expensive: bool) -> list[Reservation]:
        """List what a subscription reserves, first for its user; ``expensive``: no index can help it."""
        if not _is_limited(grant):
            return []
        own = grant.limits.queries
        limit = self._limits.queries_per_user if own is None else own
        cost = self._limits.expensive_query_cost if expensive else 1
        detail = "at a time" + (f", of which one without an index counts as {cost}" if expensive else "")
        user = f"queries of one user {detail}"
        reservations = [_reservation(f"queries:user:{grant.user}", cost, limit, user, exact=own)]
        if name := client_name(address):
            each = self._limits.queries_per_address
            reservations.append(
                _reservation(f"queries:address:{name}", cost, each, f"queries of one address {detail}")
            )
        return reservations


def _is_limited(grant: Grant) -> bool:
    return bool(grant.user) and grant is not STACK


def _reservation(name: str, amount: int, limit: int, unit: str, *, exact: int | None = None) -> Reservation:
    """Create a reservation; a limit of 0 is no limit in the configuration, but allows nothing in a token."""
    return Reservation(name, amount, limit if limit or exact is not None else None, f"{limit:,} {unit}")
