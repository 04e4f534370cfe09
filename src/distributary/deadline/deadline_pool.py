"""The processes that calls with a deadline run in, as an event loop sees them."""

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
MOST = 256
"""Calls that may wait in all."""
MOST_OF_ONE = 16
"""Calls of one owner that may wait; they run one at a time."""

_START = 0.5
"""Seconds of the processor's time that the start of a process takes, about."""
_HEAD = 4
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
"""What a process sees of our environment, which holds passwords and keys besides."""


class Deadline:
    """For one event loop. Runs functions that take and give what msgpack can hold; `close` ends it.

    The time that counts is that of the processor, so a busy machine refuses nothing that an idle one would
    not. Calls of one owner (a user) run one after the other, in order, and owners take turns: whoever sends
    what is slow waits for itself. A process begins with the first call that needs it. It ends when we do,
    however we end: it reads the end of its pipe between calls, and within one its own deadline holds.
    ``charge`` is called with the seconds that each call took, in the task that made it.
    """

    def __init__(
        self, seconds: float, *, processes: int = PROCESSES, charge: Callable[[float], None] = lambda _: None
    ) -> None:
        self._seconds = seconds
        self._charge = charge
        self._turns = asyncio.Semaphore(processes)
        self._idle: list[_Process] = []
        self._lanes: dict[str, _Lane] = {}
        self._closed = False

    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        what: str,
        owner: str = "",
        most: int = MOST_OF_ONE,
    ) -> Any:
        """Call a function of a module by its arguments, in another process.

        Raises CheckTooLong when its time is up (``what`` took too long), CheckFailed when the process did not
        survive it, ChecksBusy when ``most`` calls of the owner, or too many of all, wait already. A
        DistributaryError or ValueError of the function is raised as it was.
        """
        try:
            call = (function.__module__, function.__qualname__, args, self._seconds)
            request = msgspec.msgpack.encode(call)
        except UnicodeEncodeError:
            raise CheckFailed(
                f"{what} cannot be checked: it has half a character (a lone surrogate)"
            ) from None
        lane = self._lanes.setdefault(owner, _Lane())
        if lane.calls >= most or (not lane.calls and len(self._lanes) > MOST):
            if not lane.calls:
                del self._lanes[owner]
            raise ChecksBusy(f"too many checks wait before {what}", hint="Try again in a moment")
        lane.calls += 1
        try:
            # Whoever waits for a turn does so once for each owner, and in the order in which they came.
            async with lane.order, self._turns:
                return await self._call(request, what)
        finally:
            lane.calls -= 1
            if not lane.calls:
                del self._lanes[owner]

    async def close(self) -> None:
        """End the processes; calls that are under way fail when they are done."""
        self._closed = True
        while self._idle:
            await self._idle.pop().end()

    async def _call(self, request: bytes, what: str) -> Any:
        began = time.monotonic()
        process = self._idle.pop() if self._idle else await _Process.start()
        try:
            answer = await process.call(request, self._seconds)
        except _Ended as ended:
            await process.end()
            if ended.status in (-signal.SIGPROF, None):
                raise CheckTooLong(
                    f"{what} takes too long to check: more than {self._seconds:g} s",
                    hint="Use fewer references and no repetition within a repetition, or send less at a time",
                ) from None
            raise CheckFailed(
                f"{what} cannot be checked: the process that did ended with status {ended.status}",
                hint="Make it smaller, and nested less deeply",
            ) from None
        except BaseException:
            await process.end()  # in the middle of an answer it is of no use to the next
            raise
        finally:
            # By the clock, but no more than can have been: the machine may have had no time for it.
            self._charge(min(time.monotonic() - began, self._seconds + _START))
        if self._closed:
            await process.end()
        else:
            self._idle.append(process)
        return _result(answer, what)


class _Lane:
    """The calls of one owner."""

    def __init__(self) -> None:
        self.order = asyncio.Lock()
        self.calls = 0


class _Ended(Exception):
    """The process ended before it answered: minus its signal, its exit status, None if it hangs."""

    def __init__(self, status: int | None) -> None:
        super().__init__(status)
        self.status = status


class _Process:
    """One process that answers calls; see `distributary.deadline.__main__`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> _Process:
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "distributary.deadline"),
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # A terminal's Ctrl-C is for us; it goes when its pipe is closed.
            start_new_session=True,
        )
        return cls(process)

    async def call(self, request: bytes, seconds: float) -> Any:
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        try:
            # A process that is stopped, or starved, does not see its own deadline.
            async with asyncio.timeout(30 + 10 * seconds):
                into.write(len(request).to_bytes(_HEAD, "big") + request)
                await into.drain()
                size = int.from_bytes(await out.readexactly(_HEAD), "big")
                return msgspec.msgpack.decode(await out.readexactly(size))
        except TimeoutError:
            raise _Ended(None) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise _Ended(await self._process.wait()) from None

    async def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


def _result(answer: Any, what: str) -> Any:
    match answer:
        case ["result", value]:
            return value
        case ["value-error", message]:
            raise ValueError(message)
        case ["error", name, message, hint, number]:
            error: DistributaryError = getattr(errors, name)(message, hint=hint)
            if isinstance(error, errors.GatewayError):
                error.number = number
            raise error
        case _:
            raise CheckFailed(f"{what} cannot be checked: {answer[-1]}")
