"""A helper process: it prints JSON lines, may be told things by lines, and is stopped by its own pid."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
"""Where ``python -m bench.x`` works."""


class BenchError(Exception):
    """A scenario could not be measured; the text says why."""


class Child:
    """A running helper."""

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self.pid = process.pid
        self._process = process
        self._log = log

    async def line(self, limit: float) -> dict[str, Any]:
        """Read its next JSON line."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(limit):
                text = await self._process.stdout.readline()
        except TimeoutError:
            raise BenchError(f"{self.name} said nothing for {limit:g} s{self._last()}") from None
        if not text:
            raise BenchError(f"{self.name} ended{self._last()}")
        said: dict[str, Any] = json.loads(text)
        return said

    def tell(self, line: bytes) -> None:
        """Write it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")

    async def ask(self, line: bytes, limit: float) -> dict[str, Any]:
        """Write it a line and read its answer."""
        self.tell(line)
        return await self.line(limit)

    async def stop(self, grace: float = 8.0) -> None:
        """End it: SIGTERM, then SIGKILL."""
        for signal in (self._process.terminate, self._process.kill):
            if self._process.returncode is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                signal()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._process.wait()

    def _last(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f": {lines[-1]}" if lines else ""


@contextlib.asynccontextmanager
async def run(
    name: str, argv: Sequence[str], folder: Path, env: Mapping[str, str] | None = None, *, quiet: bool = False
) -> AsyncIterator[Child]:
    """Start a helper; it is gone when this is left. ``quiet`` ones print no JSON lines."""
    log = folder / f"{name}.log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=DEVNULL if quiet else PIPE,
            stdout=file if quiet else PIPE,
            stderr=file,
            start_new_session=True,  # Ctrl-C is for us: we stop them
        )
    child = Child(name, process, log)
    try:
        yield child
    finally:
        await asyncio.shield(child.stop())


def module(name: str, *args: str) -> list[str]:
    """The command that runs a Python module."""
    return [sys.executable, "-m", name, *args]
