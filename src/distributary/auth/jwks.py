"""The key set at an address: fetched when it is needed, kept while the address does not answer."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable

import aiohttp

from distributary.auth.client_security import Trust
from distributary.auth.verification_keys import VerifyingKey, of_jwks
from distributary.config import Auth
from distributary.errors import KeysUnavailable

log = logging.getLogger(__name__)

MAX_BYTES = 1 << 20
RETRY = 2.0
"""Seconds until the first fetch is tried again while there are no keys at all."""

Fetch = Callable[[], Awaitable[bytes]]


class KeySet:
    """The keys of a JWKS address.

    ``ttl`` is how long they count before they are fetched again; ``refetch`` the least time between two
    fetches, so that tokens with made-up key names cause no load elsewhere; ``max_age`` how long they count
    while they cannot be fetched, since one of them may have been withdrawn. Whoever needs the keys while they
    are fetched waits for the same fetch.
    """

    def __init__(
        self,
        fetch: Fetch,
        *,
        ttl: float,
        refetch: float,
        max_age: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._max_age = max_age
        self._ttl = ttl
        self._refetch = refetch
        self._clock = clock
        self._keys: tuple[VerifyingKey, ...] | None = None
        self._fetched = self._tried = float("-inf")
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, auth: Auth) -> KeySet:
        """Make the one of the configuration."""
        return cls(
            lambda: fetch(auth.jwks_url, auth.jwks_timeout),
            ttl=auth.jwks_ttl,
            refetch=auth.jwks_min_interval,
            max_age=auth.jwks_max_age,
        )

    async def keys(self) -> tuple[VerifyingKey, ...]:
        """Give the keys; raises KeysUnavailable when none were ever fetched, or too long ago."""
        if self._clock() - self._fetched >= self._ttl:
            await self._try()
        if self._keys is None:
            raise KeysUnavailable(
                "the keys to check tokens with cannot be fetched", hint="is auth.jwks_url right?"
            )
        if self._clock() - self._fetched >= self._max_age:
            raise KeysUnavailable(
                "the keys to check tokens with could not be fetched for too long",
                hint="does the address of auth.jwks_url answer? See auth.jwks_max_age",
            )
        return self._keys

    async def newer(self) -> bool:
        """Fetch again, since a token names a key that is not there; False when it is too soon for that."""
        return await self._try()

    async def _try(self) -> bool:
        if self._task is None:
            wait = self._refetch if self._keys is not None else min(RETRY, self._refetch)
            if self._clock() - self._tried < wait:
                return False
            self._tried = self._clock()
            self._task = asyncio.create_task(self._read())
            self._task.add_done_callback(self._done)
        # Shielded: one caller that goes away must not end the fetch of the others.
        await asyncio.shield(self._task)
        return True

    async def _read(self) -> None:
        try:
            self._keys = of_jwks(await self._fetch())
            self._fetched = self._clock()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            kept = "the old ones are kept" if self._keys is not None else "there are none yet"
            log.warning("the key set cannot be fetched (%s); %s", _said(error), kept)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None


async def fetch(url: str, timeout: float) -> bytes:
    """Get the text at an address; raises aiohttp.ClientError, TimeoutError or ValueError.

    Redirects are not followed: whoever can send us elsewhere could sign tokens.
    """
    limit, headers = aiohttp.ClientTimeout(total=timeout), {"Accept": "application/json"}
    async with (
        aiohttp.ClientSession(timeout=limit, trust_env=True) as http,
        http.get(url, allow_redirects=False, headers=headers, ssl=Trust().context(url) or True) as reply,
    ):
        if reply.status != 200:
            raise ValueError(f"HTTP {reply.status}")
        text = await reply.content.read(MAX_BYTES + 1)
        while len(text) <= MAX_BYTES and (more := await reply.content.read(MAX_BYTES + 1 - len(text))):
            text += more
        if len(text) > MAX_BYTES:
            raise ValueError(f"over {MAX_BYTES} bytes")
        return text


def _said(error: Exception) -> str:
    """Say what went wrong without the address, which may hold a password."""
    return str(error) if type(error) is ValueError else type(error).__name__
