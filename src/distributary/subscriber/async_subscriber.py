"""The asynchronous subscriber: sockets around a ``SubscriberSession``."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import random
import ssl
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import aiohttp

from distributary.auth.client_security import Trust, tls_hint
from distributary.errors import DistributaryError, StackNotRunning, SubscribeError
from distributary.model.channel_name import encode_channel
from distributary.model.field_mask import parse_field_mask
from distributary.model.order import order_of
from distributary.model.position import Position, Start, read_start
from distributary.model.query import Query
from distributary.subscriber.connection_settings import Credentials, GetToken, find_publishers, stack_trust
from distributary.subscriber.subscribed_change import Row, SubscribedChange, SubscribedRows
from distributary.subscriber.subscription_protocol import (
    Action,
    Deliver,
    Fail,
    Reconnect,
    RefreshIn,
    Send,
    SubscriberSession,
)

log = logging.getLogger(__name__)

_FIRST_DELAY = 0.2
_LAST_DELAY = 20.0
_MAX_ITEMS = 10_000
_TOKEN_RETRY = 5.0


def subscribe(
    view: str,
    where: str | None = None,
    keys: Iterable[str] | None = None,
    *,
    fields: str | Iterable[str] | None = None,
    from_position: Position | datetime | str | int | None = None,
    rows: Mapping[str, Row] | None = None,
    order_by: str | None = None,
    limit: int | None = None,
    conflate: float | str | None = None,
    max_rate: float | None = None,
    max_bytes: int | str | None = None,
    slow: str | None = None,
    url: str | Sequence[str] | None = None,
    control: str | None = None,
    token: str | None = None,
    get_token: GetToken | None = None,
    api_key: str | None = None,
    tls: ssl.SSLContext | Trust | None = None,
    timeout: float = 10.0,
) -> Changes:
    """Follow the rows of a view, live.

    ``where`` is a filter (``price > 1.5 and …``), ``keys`` a list of row keys; the default is the whole view.
    ``fields`` are the requested fields of each row, ``"price,score.home"`` or a list; all by default.

    ``from_position`` is for callers that have the rows already, from the REST API or an earlier run: a
    position, or a time (a datetime, ISO 8601, or ms). Then the first change is ``resumed`` and only what is
    newer follows; where that is not known, it is a snapshot as usual. Give the ``rows`` of then, too, to
    continue from them; without them a change may come without its complete row.

    ``order_by`` (``"price desc, score.home"``) and ``limit`` request the first rows only.

    With ``conflate`` (seconds, or ``"500 ms"``) only the newest of each row is sent, at most once in that
    time; ``max_rate`` (publications per second) and ``max_bytes`` (per second) are kept in the same way;
    ``slow="conflate"`` does it only while this subscriber does not keep up.

    ``url`` is a publisher's WebSocket address, or several to try in turn; without one ``control`` (the
    control API) is asked, or the stack of the current folder is used. ``timeout`` is for the first snapshot,
    in seconds; lost connections are retried without limit. Where authorization is on, give a ``token``,
    ``get_token`` (called for another one before the last expires) or an ``api_key``; the default is
    DISTRIBUTARY_TOKEN or DISTRIBUTARY_API_KEY of the environment.

    The certificates of ``wss://`` addresses are verified: by ``tls``, else by the system's CAs and the one in
    the file DISTRIBUTARY_TLS_CA; the stack of this folder is trusted by the certificate in its configuration.
    DISTRIBUTARY_TLS_CERTIFICATE and DISTRIBUTARY_TLS_KEY are the files of a client certificate.

    Use it as ``async with subscribe("odds") as changes: async for change in changes: …``. Raises
    BadQuery at once for an invalid query.
    """
    query = Query.parse(view, where) if keys is None else Query.of_keys(view, keys := list(keys))
    chosen = None if fields is None else fields if isinstance(fields, str) else ",".join(fields)
    if chosen is not None:
        parse_field_mask(chosen)
    ordered = order_of(order_by, limit) is not None
    options = {"conflate": conflate, "max_rate": max_rate, "max_bytes": max_bytes, "slow": slow}
    return Changes(
        encode_channel(query.view, where, keys, chosen, order=order_by, limit=limit),
        url,
        control,
        timeout=timeout,
        credentials=Credentials(token, get_token, api_key),
        start=_start(from_position),
        rows=rows,
        options={name: value for name, value in options.items() if value is not None},
        ordered=ordered,
        tls=tls,
    )


def _start(given: Position | datetime | str | int | None) -> Start | None:
    if isinstance(given, datetime):
        aware = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
        return math.floor(aware.timestamp() * 1000)
    return given if given is None or isinstance(given, Position) else read_start(given)


class Changes(SubscribedRows):
    """A subscription: an async context manager and an async iterator of ``SubscribedChange``.

    The first item is the snapshot. ``rows`` are the rows after the last item taken (right after entering: the
    snapshot's). Lost connections are resumed without the caller noticing, unless changes were lost for good:
    then a new ``snapshot`` item comes. When the caller does not take items, reading stops at some ten
    thousand; the publisher may then close the connection, and it is resumed later.
    """

    def __init__(
        self,
        channel: str,
        url: str | Sequence[str] | None = None,
        control: str | None = None,
        token: str | None = None,
        timeout: float = 10.0,
        credentials: Credentials | None = None,
        *,
        start: Start | None = None,
        rows: Mapping[str, Row] | None = None,
        options: Mapping[str, Any] | None = None,
        ordered: bool = False,
        tls: ssl.SSLContext | Trust | None = None,
    ) -> None:
        super().__init__()
        self.channel = channel
        self._location = (url, control)
        self._tls = tls
        self._timeout = timeout
        self._credentials = credentials or Credentials(token)
        self._session = SubscriberSession(
            channel,
            token=self._credentials.token,
            renewable=self._credentials.renewable,
            start=start,
            rows=rows,
            options=options,
            ordered=ordered,
        )
        self._refreshing: asyncio.Task[None] | None = None
        self._items: asyncio.Queue[SubscribedChange | None] = asyncio.Queue(_MAX_ITEMS)
        self._first: SubscribedChange | None = None
        self._error: DistributaryError | None = None
        self._reader: asyncio.Task[None] | None = None
        self._last_error = ""

    @property
    def tier(self) -> str:
        """Where the rows last came from: a ``snapshot``, or after a loss the ``log`` or a ``replay``."""
        return self._session.tier

    async def __aenter__(self) -> Self:
        urls = await find_publishers(*self._location)
        self._tls = self._tls or stack_trust()
        self._reader = asyncio.create_task(self._run(urls))
        try:
            async with asyncio.timeout(self._timeout):
                self._first = await self._take()
        except TimeoutError:
            await self.close()
            raise StackNotRunning(
                f"no snapshot of {self.channel!r} from {', '.join(urls)} within {self._timeout:g} s"
                + (f" ({self._last_error})" if self._last_error else ""),
                hint=tls_hint(self._last_error) or "is it running? see: distributary status",
            ) from None
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SubscribedChange:
        if self._reader is None:
            raise StopAsyncIteration
        first, self._first = self._first, None
        return first or await self._take()

    async def take(self) -> list[SubscribedChange]:
        """Wait for at least one change and return all that are there. StopAsyncIteration once closed."""
        found = [await self.__anext__()]
        while not self._items.empty():
            item = self._items.get_nowait()
            if item is None:
                self._items.put_nowait(None)
                break
            self.apply(item)
            found.append(item)
        return found

    async def close(self) -> None:
        """End the subscription; iterating afterwards ends at once."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
            self._end()

    async def _take(self) -> SubscribedChange:
        item = await self._items.get()
        if item is None:
            self._items.put_nowait(None)  # for the next call
            raise self._error or StopAsyncIteration
        self.apply(item)
        return item

    def _end(self) -> None:
        # When the queue is full nothing waits on it, and a later take sees that the reader is gone.
        with contextlib.suppress(asyncio.QueueFull):
            self._items.put_nowait(None)

    # --- the connection ---------------------------------------------------------------------------

    async def _run(self, urls: Sequence[str]) -> None:
        """Connect, and reconnect after each loss, until it fails or is cancelled."""
        tries = 0
        try:
            async with aiohttp.ClientSession() as http:
                for url in itertools.cycle(urls):
                    joined, why = await self._connection(http, url)
                    tries = 0 if joined else tries + 1
                    self._last_error = why
                    log.info("reconnecting: %s", why, extra={"channel": self.channel, "url": url})
                    await asyncio.sleep(reconnect_delay(tries, len(urls)))
        except DistributaryError as error:
            self._error = error
        except Exception as error:
            log.exception("the subscriber failed", extra={"channel": self.channel})
            self._error = SubscribeError(f"the subscriber of {self.channel!r} failed: {error!r}")
        await self._items.put(None)

    async def _connection(self, http: aiohttp.ClientSession, url: str) -> tuple[bool, str]:
        """Serve one connection to its end; return whether it was subscribed, and why it ended."""
        session, was_joined = self._session, False
        try:
            session.token = await self._credentials.current(fresh=session.token is None)
        except DistributaryError:
            raise
        except Exception as error:
            return False, f"could not get a token: {error!r}"
        try:
            headers = self._credentials.headers
            tls = self._tls.context(url) if isinstance(self._tls, Trust) else self._tls
            async with http.ws_connect(url, max_msg_size=0, headers=headers, ssl=tls or True) as socket:
                why = await self._act(socket, session.opened())
                while why is None:
                    try:
                        async with asyncio.timeout(session.silence or self._timeout):
                            message = await socket.receive()
                    except TimeoutError:
                        why = "the publisher sent nothing for too long"
                        break
                    if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                        actions = session.received(message.data)
                    else:
                        actions = session.closed(socket.close_code, str(message.extra or ""))
                    why = await self._act(socket, actions)
                    was_joined |= session.joined
                return was_joined, why
        except aiohttp.WSServerHandshakeError as error:
            if error.status in (401, 403):
                raise SubscribeError(
                    f"{url} refused the connection: HTTP {error.status}", hint="check token and origin"
                ) from None
            return was_joined, f"HTTP {error.status}"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return was_joined, str(error) or type(error).__name__
        finally:
            self._refresh_in(None)

    def _refresh_in(
        self, seconds: float | None, socket: aiohttp.ClientWebSocketResponse | None = None
    ) -> None:
        """Send a new token in this many seconds, instead of any that was scheduled; None: never."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            self._refreshing = None
        if seconds is not None and socket is not None and self._credentials.renewable:
            self._refreshing = asyncio.create_task(self._refresh(seconds, socket))

    async def _refresh(self, seconds: float, socket: aiohttp.ClientWebSocketResponse) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                token = await self._credentials.current(fresh=True)
                break
            except Exception as error:
                log.warning("could not get a token: %r", error, extra={"channel": self.channel})
                seconds = _TOKEN_RETRY
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):  # the connection has ended anyway
            await self._act(socket, self._session.refresh(token or ""))

    async def _act(self, socket: aiohttp.ClientWebSocketResponse, actions: Iterable[Action]) -> str | None:
        """Carry out the session's actions; returns a reason when the connection has ended."""
        for action in actions:
            if isinstance(action, Send):
                await socket.send_str(action.text)
            elif isinstance(action, RefreshIn):
                self._refresh_in(action.seconds, socket)
            elif isinstance(action, Deliver):
                await self._items.put(action.change)
            elif isinstance(action, Reconnect):
                return action.reason
            elif isinstance(action, Fail):
                raise action.error
        return None


def reconnect_delay(tries: int, urls: int = 1) -> float:
    """Return a random delay, up to a limit that doubles each time all addresses were tried."""
    rounds = min(tries // max(urls, 1), 16)
    return random.uniform(0, min(_LAST_DELAY, _FIRST_DELAY * 2**rounds))
