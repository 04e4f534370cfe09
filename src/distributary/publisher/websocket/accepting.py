"""picows' handler of one socket, which counts connections from the moment that they are there.

picows tells of a connection when its handshake is over; until then it would be nobody's. What is used of it
beside its public names is the handler's class: the version is pinned, and
``tests/integration/publisher/test_connections.py`` fails when it changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

from picows import WSAutoPingStrategy, WSUpgradeRequest, WSUpgradeResponseWithListener
from picows import picows as internals

from distributary.config.sections import Publisher
from distributary.httpd.connection_handler import BUSY, peer_of
from distributary.httpd.connection_limits import Connections

Accept = Callable[[WSUpgradeRequest, str], WSUpgradeResponseWithListener]
"""Answers the request of a handshake, which comes from an address."""

_PINGS = 20.0  # picows' own, which are off
_READ_BUFFER = 4_096
"""Bytes that are read at a time: what they hold is done in one go, before anybody else's turn."""
_quiet = logging.getLogger("picows.quiet")


class CountedProtocol(internals.WSProtocol):  # type: ignore[misc, name-defined]  # the stubs do not have it
    """One socket. One over a bound is closed at once."""

    def __init__(self, accept: Accept, settings: Publisher, tally: Connections) -> None:
        super().__init__(
            *(None, None, False, self._asked, _quiet, True),
            min(settings.auth_timeout, settings.header_timeout),
            *(False, _PINGS, _PINGS, WSAutoPingStrategy.PING_WHEN_IDLE, True),
            *(settings.max_frame, None, _READ_BUFFER),
        )
        self._accept = accept
        self._tally = tally
        self._client: str | None = None
        self._peer = ""

    def _asked(self, request: WSUpgradeRequest) -> WSUpgradeResponseWithListener:
        return self._accept(request, self._peer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection."""
        super().connection_made(transport)
        self._peer = peer_of(transport)
        self._client = self._tally.enter(self._peer)
        if self._client is None:
            wire = cast(asyncio.Transport, transport)
            wire.write(BUSY)
            # Not at once: the transport begins to read after this call, whether it is closed or not.
            asyncio.get_running_loop().call_soon(wire.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection as over."""
        if self._client is not None:
            self._tally.leave(self._client)
            self._client = None
        super().connection_lost(exc)


async def create_server(factory: Callable[[], CountedProtocol], host: str, port: int, **more: Any) -> Any:
    """Listen with the transports that picows would use: faster ones than the loop's, where there are any."""
    try:
        import aiofastnet
    except ImportError:
        return await asyncio.get_running_loop().create_server(factory, host, port, **more)
    return await aiofastnet.create_server(asyncio.get_running_loop(), factory, host, port, **more)
