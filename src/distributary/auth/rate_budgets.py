"""How much users may do per second, counted by all processes together through the store.

A process takes a tenth of a second's worth of a user's budget from the store at a time, and spends that
locally: so most requests need no round trip, and all processes together exceed the rate by little. A user
over its budget waits before it is served or refused. So a client that does not slow down costs next to
nothing: it is refused once a second for each request in flight, not as fast as it can send them.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from redis.exceptions import RedisError

from distributary.errors import StoreUnavailable, TooManyRequests

BURST = 10.0
"""Seconds' worth that a user may spend at once after a pause, by default."""
AT_ONCE = 0.1
"""Seconds' worth that is taken from the store at a time."""
MAX_DEBT = 30.0
"""Seconds' worth of debt that a user may have: for work whose cost was known only afterwards."""
MAX_WAIT, MAX_CROWDED_WAIT = 1.0, 10.0
"""Seconds that a request waits before it is refused: if few of its user wait, and if many do."""
REFUSALS = 50
"""Refusals of one user per second, about, once more requests than that wait."""
MAX_USERS = 10_000


class Store(Protocol):
    """What is needed of the store; see `distributary.store.contract.ReaderStore`."""

    async def spend(self, what: str, cost: float, rate: float, burst: float) -> float:
        """Spend; else return in how many seconds that is possible."""


class Account:
    """What one process has of one user's budget. Below 0 is debt: what was charged afterwards."""

    __slots__ = ("empty_until", "left", "turn", "waiting")

    def __init__(self) -> None:
        self.left = 0.0
        self.empty_until = 0.0  # the store has reported that there is nothing before
        self.waiting = 0
        self.turn = asyncio.Lock()


class RateBudgets:
    """The budgets of one kind, such as requests; ``unit`` is its name in errors."""

    def __init__(
        self,
        store: Store,
        kind: str,
        unit: str,
        *,
        burst: float = BURST,
        max_wait: float = MAX_WAIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._kind = kind
        self._unit = unit
        self._burst = burst
        self._max_wait = max_wait
        self._clock = clock
        self._accounts: OrderedDict[str, Account] = OrderedDict()

    async def spend(self, user: str, cost: float, rate: float) -> None:
        """Spend from a user's budget of ``rate`` per second; raises TooManyRequests or StoreUnavailable.

        It waits for a short time if the budget is empty. A rate of 0 is no limit. A cost over a whole budget
        counts as a whole budget.
        """
        if not rate:
            return
        account = self._account(user)
        cost = min(cost, rate * self._burst)
        if account.left < cost or account.waiting:
            max_wait = min(MAX_CROWDED_WAIT, max(self._max_wait, account.waiting / REFUSALS))
            account.waiting += 1
            try:
                await self._wait(account, user, cost, rate, max_wait)
            finally:
                account.waiting -= 1
        account.left -= cost

    def charge(self, user: str, cost: float, rate: float) -> None:
        """Take a cost that is known only now from a user's budget; the user's next request pays for it."""
        if rate:
            account = self._account(user)
            account.left = max(account.left - cost, -rate * MAX_DEBT)

    def is_in_debt(self, user: str, rate: float) -> bool:
        """True if a user owes more than is taken from the store at a time."""
        account = self._accounts.get(user)
        return account is not None and account.left < -rate * AT_ONCE

    async def wait_until_paid(self, user: str, rate: float) -> None:
        """Wait until a user is not in debt. Raises StoreUnavailable."""
        account = self._account(user)
        while account.left < 0:
            with contextlib.suppress(TooManyRequests):
                await self._wait(account, user, 0.0, rate, MAX_CROWDED_WAIT)

    def _account(self, user: str) -> Account:
        account = self._accounts.get(user)
        if account is None:
            account = self._accounts[user] = Account()
            while len(self._accounts) > MAX_USERS:
                self._accounts.popitem(last=False)
        self._accounts.move_to_end(user)
        return account

    async def _wait(self, account: Account, user: str, cost: float, rate: float, max_wait: float) -> None:
        """Wait for the other requests of the user, and until there is enough to spend."""
        until = self._clock() + max_wait
        try:
            async with asyncio.timeout(max_wait):
                await account.turn.acquire()
        except TimeoutError:
            raise self._too_many(rate, (account.waiting * cost - account.left) / rate) from None
        try:
            # A second's worth at a time: the debt may be more than a whole budget.
            while missing := max(0.0, min(cost - account.left, rate * min(1.0, self._burst))):
                now = self._clock()
                if now >= account.empty_until:
                    wait = await self._more(account, user, missing, rate)
                    if not wait:
                        continue
                    now = self._clock()
                    account.empty_until = now + wait
                await asyncio.sleep(max(0.0, min(account.empty_until, until) - now))
                if account.empty_until > until:
                    raise self._too_many(rate, account.empty_until - until)
        finally:
            account.turn.release()

    async def _more(self, account: Account, user: str, least: float, rate: float) -> float:
        """Take a batch from the store, or ``least`` if that is too much; else return how long to wait (s)."""
        wait = 0.0
        for amount in (max(least, rate * AT_ONCE), least):
            try:
                wait = await self._store.spend(f"{self._kind}:{user}", amount, rate, rate * self._burst)
            except (RedisError, OSError):
                raise StoreUnavailable(
                    f"{self._unit} cannot be counted: the store does not respond", hint="retry in a moment"
                ) from None
            if not wait:
                account.left += amount
                return 0.0
        return wait

    def _too_many(self, rate: float, after: float) -> TooManyRequests:
        after = max(after, 0.001)
        error = TooManyRequests(
            f"too many {self._unit}: at most {rate:g} per second",
            hint=f"retry in {math.ceil(after)} s",
        )
        error.after = after
        return error
