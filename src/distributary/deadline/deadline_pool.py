"""The processes that run calls with a deadline, for an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from distributary import errors
from distributary.errors import CheckFailed, ChecksBusy, CheckTooLong, DistributaryError

PROCESSES = 2
MAX_OWNERS = 256
"""Owners that may have calls waiting."""
MAX_CALLS = 16
"""Calls of one owner that may wait; they run one at a time."""

_START_SECONDS = 0.5
"""Processor time that the start of a process takes, about."""
_HEAD_BYTES = 4
_PASSED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
"""What a process gets of our environment, which also contains passwords and keys."""


class DeadlinePool:
    """Runs functions whose arguments and results msgpack can encode; for one event loop. `close` ends it.

    The deadline is of processor time, so a busy machine rejects nothing that an idle one accepts. Calls of
    one owner (a user) run one after the other, in order, and owners take turns: an owner of slow calls delays
    only itself. A process is started by the first call that needs it. It ends when we do, however we end:
    between calls it notices the end of its pipe, and during a call its deadline applies. ``charge`` is called
    with the seconds that each call took, in the task that made it.
    """

    def __init__(
        self, seconds: float, *, processes: int = PROCESSES, charge: Callable[[float], None] = lambda _: None
    ) -> None:
        self._seconds = seconds
        self._charge = charge
        self._available = asyncio.Semaphore(processes)
        self._idle: list[_WorkerProcess] = []
        self._queues: dict[str, _OwnerQueue] = {}
        """By owner; only those with calls."""
        self._closed = False

    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        what: str,
        owner: str = "",
        max_calls: int = MAX_CALLS,
    ) -> Any:
        """Call a module-level function in another process.

        Raises CheckTooLong if its time is over (``what`` names the input in the message), CheckFailed if the
        process crashed, ChecksBusy if ``max_calls`` of the owner, or too many owners, are waiting. A
        DistributaryError or ValueError of the function is raised as it was.
        """
        try:
            call = (function.__module__, function.__qualname__, args, self._seconds)
            encoded = msgspec.msgpack.encode(call)
        except UnicodeEncodeError:
            raise CheckFailed(
                f"{what} cannot be checked: it contains half a character (a lone surrogate)"
            ) from None
        queue = self._queues.setdefault(owner, _OwnerQueue())
        if queue.calls >= max_calls or (not queue.calls and len(self._queues) > MAX_OWNERS):
            if not queue.calls:
                del self._queues[owner]
            raise ChecksBusy(f"too many checks are waiting before {what}", hint="Retry in a moment")
        queue.calls += 1
        try:
            # Only one call of an owner waits for a process at a time, so owners take turns.
            async with queue.lock, self._available:
                return await self._call(encoded, what)
        finally:
            queue.calls -= 1
            if not queue.calls:
                del self._queues[owner]

    async def close(self) -> None:
        """End the processes; those of calls that are under way end after their call."""
        self._closed = True
        while self._idle:
            await self._idle.pop().end()

    async def _call(self, encoded: bytes, what: str) -> Any:
        start = time.monotonic()
        process = self._idle.pop() if self._idle else await _WorkerProcess.start()
        try:
            response = await process.call(encoded, self._seconds)
        except _ProcessEnded as ended:
            await process.end()
            if ended.status in (-signal.SIGPROF, None):
                raise CheckTooLong(
                    f"{what} takes too long to check: more than {self._seconds:g} s",
                    hint="Use fewer references and no nested repetition, or send less at a time",
                ) from None
            raise CheckFailed(
                f"{what} cannot be checked: the process that checked it ended with status {ended.status}",
                hint="Make it smaller, or nest it less deeply",
            ) from None
        except BaseException:
            await process.end()  # after half a response it is unusable
            raise
        finally:
            # Elapsed time, but at most what can have been used: a busy machine may have had no time for it.
            self._charge(min(time.monotonic() - start, self._seconds + _START_SECONDS))
        if self._closed:
            await process.end()
        else:
            self._idle.append(process)
        return _decode_result(response, what)


class _OwnerQueue:
    """The calls of one owner."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.calls = 0
        """Those that wait or run."""


class _ProcessEnded(Exception):
    """The process ended before it responded: its status is as in subprocess, None if it hangs."""

    def __init__(self, status: int | None) -> None:
        super().__init__(status)
        self.status = status


class _WorkerProcess:
    """One process that executes calls; see `distributary.deadline.__main__`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> _WorkerProcess:
        env = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "distributary.deadline"),
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C in a terminal is for us; the process ends when its pipe is closed.
            start_new_session=True,
        )
        return cls(process)

    async def call(self, encoded: bytes, seconds: float) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            # A process that is stopped, or gets no processor time, does not reach its own deadline.
            async with asyncio.timeout(30 + 10 * seconds):
                stdin.write(len(encoded).to_bytes(_HEAD_BYTES, "big") + encoded)
                await stdin.drain()
                size = int.from_bytes(await stdout.readexactly(_HEAD_BYTES), "big")
                return msgspec.msgpack.decode(await stdout.readexactly(size))
        except TimeoutError:
            raise _ProcessEnded(None) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise _ProcessEnded(await self._process.wait()) from None

    async def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


def _decode_result(response: Any, what: str) -> Any:
    match response:
        case ["result", value]:
            return value
        case ["value-error", message]:
            raise ValueError(message)
        case ["error", name, message, hint, code]:
            error: DistributaryError = getattr(errors, name)(message, hint=hint)
            if isinstance(error, errors.GatewayError):
                error.error_code = code
            raise error
        case _:
            raise CheckFailed(f"{what} cannot be checked: {response[-1]}")
