"""Where the publishers are, and how a subscriber authenticates: as given, or as the environment says."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import aiohttp

from distributary.auth.client_security import Trust, tls_hint
from distributary.errors import StackNotRunning, UsageError
from distributary.model.endpoints import CONTROL_URL, WEBSOCKET_PATH, environment_credentials, websocket_url

DEFAULT = f"ws://127.0.0.1:8000{WEBSOCKET_PATH}"

_LIMIT = aiohttp.ClientTimeout(total=10)


async def find_publishers(
    url: str | Sequence[str] | None = None,
    control: str | None = None,
    env: Mapping[str, str] = os.environ,
    data_dir: str | Path = ".distributary",
) -> list[str]:
    """List WebSocket addresses to try, in order.

    Those given are used as they are; else a control API is asked (``control``, or DISTRIBUTARY_CONTROL_URL of
    the environment); else the stack of this folder is used; else it is the default port.
    """
    if url is not None:
        return [websocket_url(one) for one in ([url] if isinstance(url, str) else url)]
    control_url = control or env.get(CONTROL_URL)
    if control_url:
        return [await _publisher_of(control_url.rstrip("/"))]
    return _of_stack(Path(data_dir)) or [DEFAULT]


def stack_trust(env: Mapping[str, str] = os.environ, data_dir: str | Path = ".distributary") -> Trust:
    """Return which servers are trusted: also the stack of this folder, by its certificate."""
    return Trust.of_stack(Path(env.get("DISTRIBUTARY_DATA_DIR") or data_dir), env)


def _of_stack(data_dir: Path) -> list[str]:
    """List the publishers of the stack with this data folder; a stack that died has left its file."""
    try:
        state = json.loads((data_dir / "stack.json").read_bytes())
        os.kill(int(state["pid"]), 0)
        found = [component["addresses"].get("websocket") for component in state["components"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return list(dict.fromkeys(filter(None, found)))


async def _publisher_of(control: str) -> str:
    try:
        tls = stack_trust().context(control) or True
        async with (
            aiohttp.ClientSession(timeout=_LIMIT) as http,
            http.get(f"{control}/v1", ssl=tls) as reply,
        ):
            reply.raise_for_status()
            return str((await reply.json())["publisher"])
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
        raise StackNotRunning(
            f"cannot reach the control API at {control} ({error or type(error).__name__})",
            hint=tls_hint(error) or f"start one with: distributary up, or correct {CONTROL_URL}",
        ) from None


GetToken = Callable[[], str | Awaitable[str]]
"""Returns a token; called again before it expires. A function that is not async runs on a thread."""


class Credentials:
    """What is sent with every connection: what is given, or what the environment has, or nothing."""

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
            token, api_key = environment_credentials(env)
        self.token = token or None
        self.headers = {"X-API-Key": api_key} if api_key else {}
        self._get = get_token

    @property
    def renewable(self) -> bool:
        """Whether another token can be fetched."""
        return self._get is not None

    async def current(self, *, fresh: bool = False) -> str | None:
        """Return the token, if any; with ``fresh``, or without one yet, another one is fetched."""
        if self._get is not None and (fresh or self.token is None):
            coroutine = inspect.iscoroutinefunction(self._get)
            token = self._get() if coroutine else await asyncio.to_thread(self._get)
            self.token = token if isinstance(token, str) else await token
        return self.token
