"""How a process of Distributary runs: its logging, signals, ready line, heartbeat file and exit codes.

A service logs to standard error, prints one JSON line to standard output when it is ready, and ends by itself
on SIGTERM or SIGINT. A `DistributaryError` is one line on standard error and exit code 1.
"""

from __future__ import annotations

import asyncio
import enum
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from distributary.errors import DistributaryError

log = logging.getLogger(__name__)

Announce = Callable[[Mapping[str, str]], None]
"""Reports that a service is ready, with its addresses by name."""

HEARTBEAT_FILE = "DISTRIBUTARY_HEARTBEAT_FILE"
"""The environment variable that names the heartbeat file of a process."""
HEARTBEAT_SECONDS = 1.0


class ExitCode(enum.IntEnum):
    """What a process of a stack ends with. Those from 3 on describe the reducers' driver."""

    OK = 0
    FAILED = 1
    FINAL = 3
    """Starting it again would not help: it would fail in the same way, or a newer process replaced it."""
    JVM_LOST = 4
    """Spark's JVM is gone."""
    JVM_HUNG = 5
    """Spark's JVM does not respond."""


def describe_exit(code: int) -> str:
    """Describe an exit code in words; a negative one is a signal."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class Heartbeat:
    """Moves the modification time of a file from the loop that does the work; without a file it does nothing.

    A supervisor watches for a change of that time and does not compare it with a clock. `distributary up`
    does so for the components that it starts; a liveness probe can
    (``find FILE -newermt '-15 seconds' | grep .``), as can any supervisor that sets
    ``DISTRIBUTARY_HEARTBEAT_FILE``.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @classmethod
    def from_environment(cls, env: Mapping[str, str] = os.environ) -> Heartbeat:
        """The heartbeat of this process, if a supervisor watches it."""
        return cls(Path(env[HEARTBEAT_FILE]) if env.get(HEARTBEAT_FILE) else None)

    def touch(self) -> None:
        """Show that the calling loop is running. Never raises: a full disk is no reason to end."""
        if self._path is None:
            return
        try:
            try:
                os.utime(self._path)
            except FileNotFoundError:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.touch()
        except OSError as error:
            log.warning("cannot write the heartbeat: %s", error)

    async def run(self, healthy: Callable[[], bool] = lambda: True) -> None:
        """Touch the file from an event loop until cancelled, as long as ``healthy`` returns true."""
        while True:
            if healthy():
                self.touch()
            await asyncio.sleep(HEARTBEAT_SECONDS)


class Service:
    """A process that serves from an event loop until it is stopped.

    Create it before anything starts to listen: from then on a signal stops the process in an orderly way.
    """

    def __init__(self, name: str, announce: Announce | None = None) -> None:
        """``announce`` replaces the ready line on standard output."""
        self._announce = announce or (lambda addresses: print_ready(name, addresses))
        self._stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stopping.set)

    async def run(self, addresses: Mapping[str, str], work: Coroutine[Any, Any, None] | None = None) -> None:
        """Report that the service is ready, then wait for a signal, or for ``work`` to end or raise."""
        ends = [asyncio.create_task(one) for one in (work, self._stopping.wait()) if one is not None]
        tasks = [*ends, asyncio.create_task(Heartbeat.from_environment().run())]
        try:
            self._announce(addresses)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result


def run_service(serve: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run a service in an event loop and return the exit code of its process."""
    import uvloop  # the reducers, which have no event loop, do not need it

    log_to_stderr()
    try:
        uvloop.run(serve())
    except DistributaryError as error:
        return fail(error)
    except KeyboardInterrupt:
        pass
    return ExitCode.OK


def log_to_stderr() -> None:
    """Configure logging for a process of a stack."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


def print_ready(name: str, addresses: Mapping[str, str]) -> None:
    """Print the ready line, which a supervisor waits for."""
    print(json.dumps({"ready": True, "component": name, "addresses": dict(addresses)}), flush=True)


def on_stop_signal(stop: Callable[[], object]) -> None:
    """Call ``stop`` on SIGTERM or SIGINT, in a process without an event loop."""

    def handle(number: int, frame: FrameType | None) -> None:
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


def fail(error: Exception, code: ExitCode = ExitCode.FAILED) -> ExitCode:
    """Print why the process ends, in the form that its supervisor looks for, and return its exit code."""
    print(f"error: {error}", file=sys.stderr, flush=True)
    return code


def collect_garbage_rarely() -> None:
    """For processes that hold many rows: rows and frames have no cycles, and a search for cycles after every
    few hundred objects takes a third of the time of a large read.
    """
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
