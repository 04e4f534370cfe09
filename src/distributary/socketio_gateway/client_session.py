"""One socket.io client: its connection to a publisher, which is reconnected, and what passes between them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import aiohttp

from distributary.auth.client_security import Trust
from distributary.config.secrets import mask_text
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending, Refusal
from distributary.socketio_gateway.publisher_messages import (
    Acknowledge,
    Action,
    Connected,
    Disconnect,
    Emit,
    Reconnect,
    RetryLater,
    Send,
)
from distributary.socketio_gateway.publisher_session import PublisherSession, error_body
from distributary.socketio_gateway.socketio_transport import SendQueue
from distributary.subscriber.async_subscriber import reconnect_delay

log = logging.getLogger(__name__)

STALL = 10.0
"""Seconds without room in its queue after which a client is too slow."""

FIRST_REPLY = 10.0
"""Seconds that a publisher may take to reply to the connect."""

GONE = Refusal(100, "the connection has ended", True)

Emitter = Callable[[str, Any], Awaitable[None]]
Ender = Callable[[Ending, bool], Awaitable[None]]


class GatewayClient:
    """Connects one client to a publisher, from `start` to `stop`.

    ``emit`` sends the client an event. ``on_end`` disconnects it, with the reason and whether it may
    reconnect. While more than about ``limit`` bytes wait to be sent to it, the publisher is not read.
    """

    def __init__(
        self,
        session: PublisherSession,
        publishers: Sequence[str],
        queue: SendQueue,
        *,
        limit: int,
        emit: Emitter,
        on_end: Ender,
        stall: float = STALL,
        trust: Trust | None = None,
    ) -> None:
        self._trust = trust or Trust()
        self._session = session
        self._publishers = publishers
        # What waits to be sent to the client, how much of it may, and for how long too much.
        self._queue = queue
        self._limit = limit
        self._stall = stall
        self._emit = emit
        self._on_end = on_end
        # The connection to a publisher, once that has accepted it.
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        # None once a publisher has accepted the client for the first time, else why none did.
        self._ready: asyncio.Future[Ending | None] = asyncio.get_running_loop().create_future()
        # Requests without a result.
        self._results: set[asyncio.Future[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, http: aiohttp.ClientSession, limit: float) -> Ending | None:
        """Connect to a publisher; returns None once it has accepted, else why it did not."""
        self._spawn(self._run(http))
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(self._ready)
        except TimeoutError:
            return Ending(codes.INTERNAL.code, "no publisher responds; try again")

    async def request(self, event: str, payload: tuple[Any, ...]) -> Any:
        """Return the result of a request."""
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._results.add(result)
        try:
            await self._act(self._session.request(event, payload, result))
            return await result
        finally:
            self._results.discard(result)

    async def stop(self) -> None:
        """Disconnect from the publisher; pending requests get an error."""
        me = asyncio.current_task()
        ended = [task for task in self._tasks if task is not me]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
        for result in self._results:
            if not result.done():
                result.set_result(error_body(GONE))

    # --- the connection to the publisher ------------------------------------------------------------

    async def _run(self, http: aiohttp.ClientSession) -> None:
        tries = 0
        for url in itertools.cycle(self._publishers):
            try:
                ended = await self._connection(http, url)
            except Exception as error:  # whatever it is, this client must not hang unnoticed
                log.exception("publisher %s: the connection of a client failed", mask_text(url))
                ended = await self._act(self._session.closed(None, repr(error)))
            if isinstance(ended, Disconnect):
                return await self._end(ended)
            tries = 0 if self._socket is not None else tries + 1
            self._socket = None
            log.info("reconnecting to a publisher: %s", mask_text(ended.reason) if ended else "")
            await asyncio.sleep(reconnect_delay(tries, len(self._publishers)))

    async def _connection(self, http: aiohttp.ClientSession, url: str) -> Reconnect | Disconnect | None:
        """Serve one connection to its end; return what to do next."""
        session = self._session
        try:
            tls = self._trust.context(url) or True
            async with http.ws_connect(url, max_msg_size=0, ssl=tls) as socket:
                ended = await self._act(session.opened(), socket)
                while ended is None:
                    if not await self._has_room():
                        return Disconnect(codes.SLOW, may_reconnect=True)
                    try:
                        async with asyncio.timeout(session.silence or FIRST_REPLY):
                            message = await socket.receive()
                    except TimeoutError:
                        return await self._act(
                            session.closed(None, "the publisher sent nothing for too long")
                        )
                    if message.type is aiohttp.WSMsgType.TEXT:
                        actions = session.received(message.data)
                    else:
                        actions = session.closed(socket.close_code, str(message.extra or ""))
                    ended = await self._act(actions, socket)
                return ended
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return await self._act(session.closed(None, str(error) or type(error).__name__))

    async def _has_room(self) -> bool:
        try:
            async with asyncio.timeout(self._stall):
                await self._queue.wait_below(self._limit)
            return True
        except TimeoutError:
            return False

    # --- actions --------------------------------------------------------------------------------------

    async def _act(
        self, actions: Iterable[Action], socket: aiohttp.ClientWebSocketResponse | None = None
    ) -> Reconnect | Disconnect | None:
        """Carry out actions; return the last one where it ends the connection."""
        for action in actions:
            if isinstance(action, Send):
                await self._send(action.text, socket or self._socket)
            elif isinstance(action, Emit):
                await self._emit(action.event, action.body)
            elif isinstance(action, Acknowledge):
                await self._acknowledge(action)
            elif isinstance(action, Connected):
                self._socket = socket
                if not self._ready.done():
                    self._ready.set_result(None)
            elif isinstance(action, RetryLater):
                self._spawn(self._retry(action))
            else:
                return action
        return None

    async def _send(self, text: str, socket: aiohttp.ClientWebSocketResponse | None) -> None:
        # What cannot be sent is not lost: it is sent again, or acknowledged, when the connection ends.
        if socket is not None:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await socket.send_str(text)

    async def _acknowledge(self, action: Acknowledge) -> None:
        result = action.ticket
        if isinstance(result, asyncio.Future) and not result.done():
            result.set_result(action.body)
            # python-socketio writes the acknowledgement when the handler returns. The handler, which waits
            # for the result, is now next on the loop: so whatever follows is sent after it.
            await asyncio.sleep(0)

    async def _retry(self, action: RetryLater) -> None:
        await asyncio.sleep(reconnect_delay(action.tries))
        await self._act(self._session.retry(action.channel))

    async def _end(self, action: Disconnect) -> None:
        if not self._ready.done():
            self._ready.set_result(action.ending)
        else:
            await self._on_end(action.ending, action.may_reconnect)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
