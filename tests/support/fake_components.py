"""Components that are tiny scripts, for the process keeper."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

from distributary.stack.component import Component, Event, EventKind, Launch
from distributary.stack.process_keeper import Policy
from distributary.stack.stack_components import ready_line
from tests.support.clock import LIMIT

READY = 'import json; print(json.dumps({"ready": True, "addresses": {"http": "http://x"}}), flush=True)\n'
SERVE = READY + "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *a: sys.exit(0))\nsignal.pause()\n"
DEAF = READY + "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()\n"
FAIL = "import sys; print('it hurts here', file=sys.stderr); sys.exit(4)\n"

QUICK = Policy(first=0.01, longest=0.05)


def launch(script: str) -> Launch:
    """Run a script."""
    return Launch(argv=[sys.executable, "-c", script], env=os.environ)


def component(folder: Path, name: str, script: str, start_timeout: float = 10 * LIMIT) -> Component:
    """A component that runs a script, which prints a ready line."""
    return Component(
        name=name,
        log=folder / f"{name}.log",
        launch=lambda: launch(script),
        ready=ready_line,
        start_timeout=start_timeout,
        announces=True,
    )


class EventRecorder:
    """Collects events, and lets a test wait for one."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._more = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._more.set()

    def of(self, kind: str, component: str = "") -> list[Event]:
        return [e for e in self.events if e.kind == EventKind(kind) and component in ("", e.component)]

    async def wait(self, enough: Callable[[], bool]) -> None:
        async with asyncio.timeout(20 * LIMIT):
            while not enough():
                self._more.clear()
                await self._more.wait()
