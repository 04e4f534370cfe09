"""How much users do in a second, agreed upon by all processes through the store.

A process spends of a user's budget in the store a tenth of a second's worth at a time, and then of that by
itself: so most requests ask nobody, and all processes together overshoot by little. Whoever is over its
budget waits for its turn before it is served or refused. A client that does not slow down costs next to
nothing then: it is refused once a second for each request that it has under way, not as fast as it can ask.
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
"""Seconds' worth that a user who was quiet may spend at once, unless said otherwise."""
AT_ONCE = 0.1
"""Seconds' worth that is spent in the store at a time."""
MAX_DEBT = 30.0
"""Seconds' worth that a user may owe: work that was under way when its price became known."""
PATIENCE, MAX_PATIENCE = 1.0, 10.0
"""Seconds that a request waits for its turn before it is refused: few, or many who wait."""
REFUSALS = 50
"""Refusals of one user in a second, about, once that many wait."""
MAX_USERS = 10_000


class Store(Protocol):
    """What is asked of the store; see `distributary.store.contract.ReaderStore`."""

    async def spend(self, what: str, cost: float, rate: float, burst: float) -> float:
        """Spend, or say in how many seconds that can be done."""


class Account:
    """What one process has of one user's budget. Below 0 it owes: what was charged afterwards."""

    __slots__ = ("empty_until", "left", "turn", "waiting")

    def __init__(self) -> None:
        self.left = 0.0
        self.empty_until = 0.0  # the store has said that there is nothing before
        self.waiting = 0
        self.turn = asyncio.Lock()


class RateBudgets:
    """The budgets of one kind, such as requests; ``said`` names it in errors."""

    def __init__(
        self,
        store: Store,
        kind: str,
        said: str,
        *,
        burst: float = BURST,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._kind = kind
        self._said = said
        self._burst = burst
        self._patience = patience
        self._clock = clock
        self._accounts: OrderedDict[str, Account] = OrderedDict()

    async def spend(self, user: str, cost: float, rate: float) -> None:
        """Spend of a user's budget of ``rate`` a second; raises TooManyRequests or StoreUnavailable.

        It waits for a moment where the budget is empty. A rate of 0 is no limit. A cost over a whole budget
        is spent as one.
        """
        if not rate:
            return
        account = self._account(user)
        cost = min(cost, rate * self._burst)
        if account.left < cost or account.waiting:
            patience = min(MAX_PATIENCE, max(self._patience, account.waiting / REFUSALS))
            account.waiting += 1
            try:
                await self._wait(account, user, cost, rate, patience)
            finally:
                account.waiting -= 1
        account.left -= cost

    def charge(self, user: str, cost: float, rate: float) -> None:
        """Take of a user's budget what something has turned out to cost; the user's next request pays it."""
        if rate:
            account = self._account(user)
            account.left = max(account.left - cost, -rate * MAX_DEBT)

    def is_in_debt(self, user: str, rate: float) -> bool:
        """Say whether a user has taken more than is spent in the store at a time, and not paid yet."""
        account = self._accounts.get(user)
        return account is not None and account.left < -rate * AT_ONCE

    async def wait_until_paid(self, user: str, rate: float) -> None:
        """Wait until a user owes nothing. Raises StoreUnavailable."""
        account = self._account(user)
        while account.left < 0:
            with contextlib.suppress(TooManyRequests):
                await self._wait(account, user, 0.0, rate, MAX_PATIENCE)

    def _account(self, user: str) -> Account:
        account = self._accounts.get(user)
        if account is None:
            account = self._accounts[user] = Account()
            while len(self._accounts) > MAX_USERS:
                self._accounts.popitem(last=False)
        self._accounts.move_to_end(user)
        return account

    async def _wait(self, account: Account, user: str, cost: float, rate: float, patience: float) -> None:
        """Wait for the user's turn, and until there is enough to spend."""
        until = self._clock() + patience
        try:
            async with asyncio.timeout(patience):
                await account.turn.acquire()
        except TimeoutError:
            raise self._too_many(rate, (account.waiting * cost - account.left) / rate) from None
        try:
            # A second's worth at a time: what is owed may be more than a budget ever holds.
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
        """Spend a batch in the store, or what is needed if that is too much; else say when it is there."""
        wait = 0.0
        for amount in (max(least, rate * AT_ONCE), least):
            try:
                wait = await self._store.spend(f"{self._kind}:{user}", amount, rate, rate * self._burst)
            except (RedisError, OSError):
                raise StoreUnavailable(
                    f"{self._said} cannot be counted: the store does not answer", hint="try again in a moment"
                ) from None
            if not wait:
                account.left += amount
                return 0.0
        return wait

    def _too_many(self, rate: float, after: float) -> TooManyRequests:
        after = max(after, 0.001)
        error = TooManyRequests(
            f"too many {self._said}: {rate:g} in a second are allowed",
            hint=f"try again in {math.ceil(after)} s",
        )
        error.after = after
        return error
