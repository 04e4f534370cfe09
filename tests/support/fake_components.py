"""Parts made of tiny scripts, for the supervisor to keep."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from distributary.stack.component import Event, Kind, Launch, Part, Started
from distributary.stack.process_keeper import Policy
from tests.support.clock import LIMIT

READY = 'import json; print(json.dumps({"ready": True, "addresses": {"http": "http://x"}}), flush=True)\n'
SERVE = READY + "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *a: sys.exit(0))\nsignal.pause()\n"
DEAF = READY + "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()\n"
FAIL = "import sys; print('it hurts here', file=sys.stderr); sys.exit(4)\n"

QUICK = Policy(first=0.01, longest=0.05)


def part(folder: Path, name: str, script: str, limit: float = 10 * LIMIT) -> Part:
    async def ready(started: Started) -> Mapping[str, str]:
        return await started.line

    def launch() -> Launch:
        return Launch([sys.executable, "-c", script], os.environ)

    return Part(name, folder / f"{name}.log", launch, ready, limit=limit, announces=True)


class Heard:
    """Collects events, and lets a test wait for one."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._more = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._more.set()

    def of(self, kind: Kind, part: str = "") -> list[Event]:
        return [e for e in self.events if e.kind == kind and part in ("", e.part)]

    async def wait(self, enough: Callable[[], bool]) -> None:
        async with asyncio.timeout(20 * LIMIT):
            while not enough():
                self._more.clear()
                await self._more.wait()
