"""One started process of a component: in a session of its own, its output in its log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import msgspec
import psutil

from distributary.config.private_files import UMASK
from distributary.stack import processes
from distributary.stack.component import Launch

_DRAIN_SECONDS = 1.0
"""How long to read on after the end of a process whose output is used."""


class _Ready(msgspec.Struct):
    ready: bool
    addresses: dict[str, str] = {}


class Child:
    """A running process. Ctrl-C in a terminal does not reach it, since it has a session of its own."""

    def __init__(self, process: Process, log_file: Path | None) -> None:
        self._process = process
        self._log_file = log_file
        self.pid = process.pid
        self.ready_line: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        try:
            self.birth = processes.birth(self.pid)
        except (psutil.Error, OSError):
            self.birth = ""
        self._announces = False
        self._take_line: Callable[[bytes], bool] | None = None
        self._reading: asyncio.Task[None] | None = None
        """Reads standard output, if the component announces itself or its lines are taken."""

    @classmethod
    async def start(
        cls,
        launch: Launch,
        log_file: Path | None,
        *,
        announces: bool = False,
        take_line: Callable[[bytes], bool] | None = None,
    ) -> Child:
        """Start the program; raises OSError when it cannot be started. For the rest see `Component`."""
        reads = announces or take_line is not None
        # The pipe is created here, not by asyncio: descendants may hold its other end for long after the
        # process ended, and asyncio would wait for them.
        read_end, write_end = os.pipe() if reads else (None, None)
        with _opened(log_file) as file:
            try:
                process = await asyncio.create_subprocess_exec(
                    *launch.argv,
                    env=dict(launch.env),
                    stdin=asyncio.subprocess.DEVNULL if launch.stdin is None else asyncio.subprocess.PIPE,
                    stdout=file if write_end is None else write_end,
                    stderr=file,
                    start_new_session=True,
                    umask=UMASK if launch.private else -1,
                )
            except BaseException:
                if read_end is not None:
                    os.close(read_end)
                raise
            finally:
                if write_end is not None:
                    os.close(write_end)
        if launch.nice:
            processes.lower_priority(process.pid, launch.nice)
        if process.stdin is not None:
            process.stdin.write(launch.stdin or b"")
        child = cls(process, log_file)
        if read_end is not None:
            child._announces, child._take_line = announces, take_line
            child._reading = asyncio.create_task(child._read(read_end))
        return child

    @property
    def running(self) -> bool:
        """Whether its end has not been seen yet."""
        return self._process.returncode is None

    async def wait(self) -> int:
        """Wait for its end and return the exit code, negative for a signal."""
        return await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def close(self) -> None:
        """Stop reading its output."""
        if self._reading is not None:
            if self._take_line is not None:  # its last lines may still be in the pipe
                await asyncio.wait({self._reading}, timeout=_DRAIN_SECONDS)
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.ready_line.cancel()

    async def _read(self, read_end: int) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        with os.fdopen(read_end, "rb", buffering=0) as pipe, _opened(self._log_file) as file:
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
            try:
                rest = b""
                while chunk := await reader.read(65536):
                    *lines, rest = (rest + chunk).split(b"\n")
                    output = b"".join(line + b"\n" for line in lines if not self._take(line))
                    _write(file, output)
                _write(file, rest)
            finally:
                transport.close()

    def _take(self, line: bytes) -> bool:
        """Use a line; returns whether to keep it out of the log."""
        if self._announces and line.lstrip().startswith(b'{"ready"'):
            try:
                found = msgspec.json.decode(line, type=_Ready)
            except msgspec.DecodeError:
                return False
            if found.ready and not self.ready_line.done():
                self.ready_line.set_result(found.addresses)
            return found.ready
        return self._take_line is not None and self._take_line(line)


async def run_to_end(launch: Launch, log_file: Path | None) -> int:
    """Run a program to its end and return its exit code; when cancelled, it is killed."""
    child = await Child.start(launch, log_file)
    try:
        return await child.wait()
    finally:
        if child.running:
            child.send(signal.SIGKILL)
            await child.wait()


def _opened(log_file: Path | None) -> AbstractContextManager[IO[bytes] | None]:
    return contextlib.nullcontext() if log_file is None else log_file.open("ab", buffering=0)


def _write(file: IO[bytes] | None, output: bytes) -> None:
    # On a full disk lines are lost; a child whose output is not read would hang.
    if file is not None:
        with contextlib.suppress(OSError):
            file.write(output)


def log_tail(log_file: Path | None, lines: int = 20, since: int = 0) -> list[str]:
    """The last lines of a log, of what was written from byte ``since`` on; empty when there is no file."""
    if log_file is None:
        return []
    try:
        with log_file.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = since if since <= size else 0  # it was rotated meanwhile
            file.seek(max(start, size - 64 * 1024))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return text.splitlines()[-lines:]


def rotate_log(log_file: Path, limit: int = 10 << 20) -> None:
    """Rename a log to ``<name>.1`` once it is larger than ``limit``."""
    try:
        if log_file.stat().st_size > limit:
            log_file.replace(log_file.with_name(log_file.name + ".1"))
    except OSError:
        pass
