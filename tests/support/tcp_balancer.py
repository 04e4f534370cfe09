"""A minimal TCP load balancer: each connection goes to the next server that accepts it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from types import TracebackType


class Balancer:
    """Listens on a port of its own from entering to leaving; knows nothing of what it carries."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._next = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.served: list[int] = []
        """The server of every connection, in order."""

    def aim(self, ports: Sequence[int]) -> None:
        """Lead new connections elsewhere; those that are open stay where they are."""
        self._ports, self._next = list(ports), 0

    async def __aenter__(self) -> Balancer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        for _ in self._ports:
            port = self._ports[self._next % len(self._ports)]
            self._next += 1
            with contextlib.suppress(OSError):
                back, forth = await asyncio.open_connection("127.0.0.1", port)
                self.served.append(port)
                await asyncio.gather(_carry(reader, forth), _carry(back, writer))
                return
        writer.close()


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Hand bytes on until one end is gone; then the other goes too."""
    try:
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()
