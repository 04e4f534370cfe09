"""One socket.io client: its connection to a publisher, kept up, and what goes between the two."""

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
    Action,
    Answer,
    Emit,
    End,
    Later,
    Ready,
    Reconnect,
    Send,
)
from distributary.socketio_gateway.publisher_session import Upstream, error_body
from distributary.socketio_gateway.socketio_transport import Outbox
from distributary.subscriber.async_subscriber import delay

log = logging.getLogger(__name__)

STALL = 10.0
"""After how many seconds without room a client is too slow."""

FIRST_REPLY = 10.0
"""How long a publisher may take to answer the greeting."""

GONE = Refusal(100, "the connection is over", True)

Emitter = Callable[[str, Any], Awaitable[None]]
Ender = Callable[[Ending, bool], Awaitable[None]]


class Client:
    """Follows a publisher for one client, from `start` to `stop`.

    ``emit`` sends the client an event. ``over`` is told that it is to be disconnected, and whether it may
    come back. Of what it is sent no more than about ``limit`` bytes wait: then the publisher is not read.
    """

    def __init__(
        self,
        upstream: Upstream,
        publishers: Sequence[str],
        outbox: Outbox,
        *,
        limit: int,
        emit: Emitter,
        over: Ender,
        stall: float = STALL,
        trust: Trust | None = None,
    ) -> None:
        self._trust = trust or Trust()
        self._upstream = upstream
        self._publishers = publishers
        self._outbox = outbox
        self._limit = limit
        self._emit = emit
        self._over = over
        self._stall = stall
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._ready: asyncio.Future[Ending | None] = asyncio.get_running_loop().create_future()
        self._answers: set[asyncio.Future[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, http: aiohttp.ClientSession, limit: float) -> Ending | None:
        """Connect to a publisher; None once it let us in, else why it did not."""
        self._spawn(self._run(http))
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(self._ready)
        except TimeoutError:
            return Ending(codes.INTERNAL.code, "no publisher answers; try again")

    async def ask(self, event: str, payload: tuple[Any, ...]) -> Any:
        """Answer a request."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers.add(answer)
        try:
            await self._act(self._upstream.ask(event, payload, answer))
            return await answer
        finally:
            self._answers.discard(answer)

    async def stop(self) -> None:
        """Let go of the publisher; what was asked is answered with an error."""
        me = asyncio.current_task()
        ended = [task for task in self._tasks if task is not me]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
        for answer in self._answers:
            if not answer.done():
                answer.set_result(error_body(GONE))

    # --- the connection to the publisher ------------------------------------------------------------

    async def _run(self, http: aiohttp.ClientSession) -> None:
        tries = 0
        for url in itertools.cycle(self._publishers):
            try:
                over = await self._connection(http, url)
            except Exception as error:  # whatever it is, this client must not hang unnoticed
                log.exception("publisher %s: the connection of a client failed", mask_text(url))
                over = await self._act(self._upstream.closed(None, repr(error)))
            if isinstance(over, End):
                return await self._end(over)
            tries = 0 if self._socket is not None else tries + 1
            self._socket = None
            log.info("reconnecting to a publisher: %s", mask_text(over.reason) if over else "")
            await asyncio.sleep(delay(tries, len(self._publishers)))

    async def _connection(self, http: aiohttp.ClientSession, url: str) -> Reconnect | End | None:
        """Serve one connection to its end; say what is next."""
        upstream = self._upstream
        try:
            tls = self._trust.context(url) or True
            async with http.ws_connect(url, max_msg_size=0, ssl=tls) as socket:
                over = await self._act(upstream.opened(), socket)
                while over is None:
                    if not await self._has_room():
                        return End(codes.SLOW, back=True)
                    try:
                        async with asyncio.timeout(upstream.silence or FIRST_REPLY):
                            message = await socket.receive()
                    except TimeoutError:
                        return await self._act(upstream.closed(None, "the publisher fell silent"))
                    if message.type is aiohttp.WSMsgType.TEXT:
                        actions = upstream.received(message.data)
                    else:
                        actions = upstream.closed(socket.close_code, str(message.extra or ""))
                    over = await self._act(actions, socket)
                return over
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return await self._act(upstream.closed(None, str(error) or type(error).__name__))

    async def _has_room(self) -> bool:
        try:
            async with asyncio.timeout(self._stall):
                await self._outbox.room(self._limit)
            return True
        except TimeoutError:
            return False

    # --- actions --------------------------------------------------------------------------------------

    async def _act(
        self, actions: Iterable[Action], socket: aiohttp.ClientWebSocketResponse | None = None
    ) -> Reconnect | End | None:
        """Do what the protocol says; give the last action where it ends the connection."""
        for action in actions:
            if isinstance(action, Send):
                await self._send(action.text, socket or self._socket)
            elif isinstance(action, Emit):
                await self._emit(action.event, action.body)
            elif isinstance(action, Answer):
                await self._answer(action)
            elif isinstance(action, Ready):
                self._socket = socket
                if not self._ready.done():
                    self._ready.set_result(None)
            elif isinstance(action, Later):
                self._spawn(self._again(action))
            else:
                return action
        return None

    async def _send(self, text: str, socket: aiohttp.ClientWebSocketResponse | None) -> None:
        # One that cannot be sent is not lost: it is sent again, or answered, when the reader sees the end.
        if socket is not None:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await socket.send_str(text)

    async def _answer(self, action: Answer) -> None:
        answer = action.ticket
        if isinstance(answer, asyncio.Future) and not answer.done():
            answer.set_result(action.body)
            # python-socketio writes the acknowledgement when the handler returns. Whoever waits for the
            # answer was put on the loop just now, before us: so what comes next comes after it.
            await asyncio.sleep(0)

    async def _again(self, action: Later) -> None:
        await asyncio.sleep(delay(action.tries))
        await self._act(self._upstream.again(action.channel))

    async def _end(self, action: End) -> None:
        if not self._ready.done():
            self._ready.set_result(action.ending)
        else:
            await self._over(action.ending, action.back)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
