"""How a subscriber shows who it is: by a token, by one that is got anew when it ends, or by an API key."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping

from distributary.errors import UsageError
from distributary.model.environment_credentials import of_environment

GetToken = Callable[[], str | Awaitable[str]]
"""Gives a token; called again before it ends. One that is no coroutine function runs on a thread."""


class Showing:
    """What is shown at every connection: what is given, or what the environment has, or nothing."""

    def __init__(
        self,
        token: str | None = None,
        get_token: GetToken | None = None,
        api_key: str | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        if api_key and (token or get_token):
            raise UsageError("both a token and an API key are given", hint="Give one")
        if not (token or get_token or api_key):
            token, api_key = of_environment(env)
        self.token = token or None
        self.headers = {"X-API-Key": api_key} if api_key else {}
        self._get = get_token

    @property
    def renewable(self) -> bool:
        """Whether there is a way to get another token."""
        return self._get is not None

    async def current(self, *, fresh: bool = False) -> str | None:
        """Give the token, if there is one; with ``fresh``, or without one yet, it is got anew."""
        if self._get is not None and (fresh or self.token is None):
            coroutine = inspect.iscoroutinefunction(self._get)
            got = self._get() if coroutine else await asyncio.to_thread(self._get)
            self.token = got if isinstance(got, str) else await got
        return self.token
