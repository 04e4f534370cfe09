"""Which users and tokens were revoked, read from the store and cached for a short time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence

from redis.exceptions import RedisError

from distributary.auth.grant import Grant
from distributary.errors import StoreUnavailable

MAX_USERS = 10_000

_TOKEN = "\x1f"
"""Starts the names of tokens, to tell them from users: no user's name can contain it."""

Read = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]
"""``ReaderStore.revoked``: which of these names were revoked, and when (ms)."""


def token_name(id: str) -> str:
    """Return the name under which a token is revoked, by its id (jti)."""
    return _TOKEN + id


def names_of(grant: Grant) -> list[str]:
    """List the names by which a grant may be revoked: its user's, and its token's."""
    return [grant.user, token_name(grant.id)] if grant.id else [grant.user]


def is_revoked(grant: Grant, times: Mapping[str, int | None]) -> bool:
    """True if a grant was revoked; ``times`` (ms) are those of its names' revocations."""
    if grant.revocable and grant.id and times.get(token_name(grant.id)) is not None:
        return True
    return grant.is_revoked(times.get(grant.user))


class Revocations:
    """Reads revocations; its results are at most ``ttl`` seconds old.

    A store that does not respond is an error, never "not revoked".
    """

    def __init__(self, read: Read, *, ttl: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._ttl = ttl
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, int | None]] = OrderedDict()

    async def revoked_at(self, user: str) -> int | None:
        """Return the time (ms) before which the user's tokens are invalid; None if it was not revoked."""
        cached = self._known.get(user)
        now = self._clock()
        if cached is not None and now - cached[0] < self._ttl:
            return cached[1]
        time = (await self.read([user])).get(user)
        if self._ttl > 0:
            self._known[user] = (now, time)  # its age counts from the request, not from the response
            self._known.move_to_end(user)
            while len(self._known) > MAX_USERS:
                self._known.popitem(last=False)
        return time

    async def read(self, users: Sequence[str]) -> Mapping[str, int]:
        """Read from the store which of these users were revoked, and when (ms); raises StoreUnavailable."""
        try:
            return await self._read(users)
        except (RedisError, OSError):
            raise StoreUnavailable(
                "cannot read revocations: the store does not respond", hint="retry in a moment"
            ) from None
