"""The listening socket of every HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler as RequestHandler

from distributary.config.server_sections import Listening
from distributary.errors import PortTaken
from distributary.httpd.certificates import Certificates
from distributary.httpd.connection_handler import BUSY, Handler, peer_of
from distributary.httpd.connection_limits import Connections

_CHECK_INTERVAL = 1.0
"""Maximum interval between two checks of all connections, in seconds."""
_BACKLOG = 1024
_TLS_CLOSE_TIMEOUT = 5.0
"""Seconds that a client has to confirm the end of a TLS connection."""
_BODY = json.loads(BUSY.partition(b"\r\n\r\n")[2])
_CLIENT: web.RequestKey[str] = web.RequestKey("client", str)


class Listener:
    """Serves an application on a port, by the settings of its server.

    ``server`` is its name in messages, ``setting`` that of its port. Connections are counted in
    ``tally``, which may be shared, as may ``certificates``. Further arguments are those of aiohttp's handler.
    Raises ConfigError if the certificate cannot be used.
    """

    def __init__(
        self,
        app: web.Application,
        settings: Listening,
        *,
        server: str,
        setting: str,
        stop_seconds: float,
        tally: Connections | None = None,
        certificates: Certificates | None = None,
        handler_cancellation: bool = False,
        **more: Any,
    ) -> None:
        self.tally = tally or Connections(settings)
        self.certificates = certificates or Certificates(settings, setting.partition(".")[0])
        self._settings = settings
        self._server_name, self._setting = server, setting
        self._more = {"access_log": None, **more}
        self._open: set[Handler] = set()
        self._tasks: list[asyncio.Task[None]] = []
        app.middlewares.insert(0, self._limit_clients)
        self._runner = web.AppRunner(
            app, handler_cancellation=handler_cancellation, shutdown_timeout=stop_seconds
        )

    async def start(self, port: int, *, share: bool = False) -> None:
        """Listen (0: on any free port); with ``share`` other processes may listen on it too.

        Raises PortTaken.
        """
        allow_many_sockets()
        await self._runner.setup()
        try:
            await _Site(self, self._runner, port, share=share).start()
        except OSError as error:
            await self._runner.cleanup()
            reason = error.strerror or str(error)
            raise PortTaken(
                f"{self._server_name} cannot listen on {self._settings.host}:{port}: {reason}",
                hint=f"Free it, or choose another port with {self._setting}",
            ) from None
        self._tasks = [asyncio.create_task(work) for work in (self._sweep(), self.certificates.watch())]

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening, and wait a short time for the requests in flight."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        return f"{self._settings.http_scheme}://{callable_host(self._settings.host)}:{self.port}"

    async def listen(self, port: int, *, share: bool) -> asyncio.Server:
        """Create the socket."""
        return await asyncio.get_running_loop().create_server(
            self._handler,
            self._settings.host,
            port,
            backlog=_BACKLOG,
            reuse_port=share or None,
            **tls_arguments(self.certificates, self._settings),
        )

    def _handler(self) -> Handler:
        server = self._runner.server
        assert server is not None
        loop = asyncio.get_running_loop()
        return Handler(server, self._settings, self.tally, self._open, loop=loop, **self._more)

    async def _sweep(self) -> None:
        """Check all connections at intervals: cheaper than timers that every request would reset."""
        limits = self._settings
        step = min(
            _CHECK_INTERVAL, limits.header_timeout / 4, limits.body_timeout / 4, limits.write_timeout / 4
        )
        while True:
            await asyncio.sleep(step)
            for handler in list(self._open):
                handler.check()

    @web.middleware
    async def _limit_clients(self, request: web.Request, handler: RequestHandler) -> web.StreamResponse:
        """Count requests that a proxy forwards by their client."""
        peer = peer_of(request.transport) if request.transport is not None else ""
        client = self.tally.begin(peer, request.headers)
        if client is None:
            return web.json_response(_BODY, status=503, headers={"Retry-After": "1"})
        request[_CLIENT] = self.tally.client_address(peer, request.headers)
        try:
            return await handler(request)
        finally:
            self.tally.end(client)


class _Site(web.BaseSite):
    """Like aiohttp's TCPSite, with our own handler."""

    def __init__(self, listener: Listener, runner: web.AppRunner, port: int, *, share: bool) -> None:
        super().__init__(runner)
        self._listener, self._port, self._share = listener, port, share

    @property
    def name(self) -> str:
        """The port on which it listens."""
        return f"port {self._port}"

    async def start(self) -> None:
        """Listen."""
        await super().start()
        self._server = await self._listener.listen(self._port, share=self._share)


def client_of(request: web.Request) -> str:
    """Return the address that a request is from: behind a trusted proxy the client's."""
    return request.get(_CLIENT) or request.remote or ""


def tls_arguments(certificates: Certificates, settings: Listening) -> dict[str, Any]:
    """Return what a loop's ``create_server`` needs for TLS; nothing without a certificate."""
    if certificates.context is None:
        return {}
    return {
        "ssl": certificates.context,
        "ssl_handshake_timeout": settings.header_timeout,
        "ssl_shutdown_timeout": min(settings.write_timeout, _TLS_CLOSE_TIMEOUT),
    }


def allow_many_sockets() -> None:
    """Raise the limit of open files as far as the system allows: every connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def callable_host(host: str) -> str:
    """Turn an address to listen on into one to connect to, as it is written in URLs."""
    if host in ("0.0.0.0", "::", ""):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
