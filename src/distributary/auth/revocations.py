"""Who was revoked, read from the store and remembered for a moment."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence

from redis.exceptions import RedisError

from distributary.auth.grant import Grant
from distributary.errors import StoreUnavailable

MAX_USERS = 10_000

_TOKEN = "\x1f"
"""Begins the name of a token's id among those of users, none of which can have it in them."""

Read = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]
"""``ReaderStore.revoked``: of these users, who was revoked and when (ms)."""


def token_name(id: str) -> str:
    """Give the name under which one token is revoked, by its id (jti)."""
    return _TOKEN + id


def names_of(grant: Grant) -> list[str]:
    """List the names by which a grant may be revoked: its user's, and its token's own."""
    return [grant.user, token_name(grant.id)] if grant.id else [grant.user]


def is_revoked(grant: Grant, moments: Mapping[str, int | None]) -> bool:
    """Say whether a grant was ended; ``moments`` are those at which its names were revoked."""
    if grant.revocable and grant.id and moments.get(token_name(grant.id)) is not None:
        return True
    return grant.is_revoked(moments.get(grant.user))


class Revocations:
    """Reads revocations; what it says is at most ``ttl`` seconds old.

    A store that does not answer is an error, never "not revoked".
    """

    def __init__(self, read: Read, *, ttl: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._ttl = ttl
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, int | None]] = OrderedDict()

    async def revoked_at(self, user: str) -> int | None:
        """Give the moment (ms) before which what the user was given does not count; None: all counts."""
        held = self._known.get(user)
        asked = self._clock()
        if held is not None and asked - held[0] < self._ttl:
            return held[1]
        moment = (await self.read([user])).get(user)
        if self._ttl > 0:
            self._known[user] = (asked, moment)  # as old as the question, not as the answer
            self._known.move_to_end(user)
            while len(self._known) > MAX_USERS:
                self._known.popitem(last=False)
        return moment

    async def read(self, users: Sequence[str]) -> Mapping[str, int]:
        """Read anew who of these users was revoked, and when (ms); raises StoreUnavailable."""
        try:
            return await self._read(users)
        except (RedisError, OSError):
            raise StoreUnavailable(
                "who was revoked cannot be read: the store does not answer", hint="try again in a moment"
            ) from None
