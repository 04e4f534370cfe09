"""One started process of a part: in a session of its own, its output in its log, its ready line heard."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import psutil

from distributary.config.private_files import UMASK
from distributary.stack import processes


class _Ready(msgspec.Struct):
    ready: bool
    addresses: dict[str, str] = {}


class Child:
    """A running process. Ctrl-C in a terminal does not reach it, since it has a session of its own."""

    def __init__(self, process: Process, log: Path) -> None:
        self._process = process
        self._log = log
        self.pid = process.pid
        self.line: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        try:
            self.birth = processes.birth(self.pid)
        except (psutil.Error, OSError):
            self.birth = ""
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls, argv: Sequence[str], env: Mapping[str, str], log: Path, *, announces: bool = False
    ) -> Child:
        """Start the program; raises OSError when it cannot be."""
        # The pipe is ours, not asyncio's: descendants may hold its other end for long after the process
        # ended, and asyncio would wait for them.
        out, into = os.pipe() if announces else (None, None)
        with log.open("ab") as file:
            try:
                process = await asyncio.create_subprocess_exec(
                    *argv,
                    env=dict(env),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=file if into is None else into,
                    stderr=file,
                    start_new_session=True,
                    umask=UMASK,
                )
            except BaseException:
                if out is not None:
                    os.close(out)
                raise
            finally:
                if into is not None:
                    os.close(into)
        child = cls(process, log)
        if out is not None:
            child._reading = asyncio.create_task(child._read(out))
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
        """Stop listening to it."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self.line.cancel()

    async def _read(self, out: int) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        with os.fdopen(out, "rb", buffering=0) as pipe, self._log.open("ab", buffering=0) as log:
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
            try:
                rest = b""
                while chunk := await reader.read(65536):
                    *lines, rest = (rest + chunk).split(b"\n")
                    said = b"".join(line + b"\n" for line in lines if not self._heard(line))
                    # On a full disk lines are lost; a child whose output nobody took would stand still.
                    with contextlib.suppress(OSError):
                        log.write(said)
                with contextlib.suppress(OSError):
                    log.write(rest)
            finally:
                transport.close()

    def _heard(self, line: bytes) -> bool:
        """Take in the ready line; say whether it was one."""
        if not line.lstrip().startswith(b'{"ready"'):
            return False
        try:
            said = msgspec.json.decode(line, type=_Ready)
        except msgspec.DecodeError:
            return False
        if said.ready and not self.line.done():
            self.line.set_result(said.addresses)
        return said.ready


async def run_before(argv: Sequence[str], env: Mapping[str, str], log: Path) -> int:
    """Run a program to its end and return its exit code; when cancelled, it is killed."""
    child = await Child.start(argv, env, log)
    try:
        return await child.wait()
    finally:
        if child.running:
            child.send(signal.SIGKILL)
            await child.wait()
