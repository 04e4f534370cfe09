"""The sign of life of a process: a file whose time is moved by the loop that does the work.

Whoever watches looks for a change of that time, not at a clock. `distributary up` does, for the parts that it
starts; so can a liveness probe (``find FILE -newermt '-15 seconds' | grep .``), or any other supervisor that
sets ``DISTRIBUTARY_HEARTBEAT_FILE``.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

log = logging.getLogger(__name__)

ENV = "DISTRIBUTARY_HEARTBEAT_FILE"
EVERY = 1.0
"""Seconds between two heartbeats."""


class Heartbeat:
    """Moves the time of a file; without one it does nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @classmethod
    def of_process(cls, env: Mapping[str, str] = os.environ) -> Heartbeat:
        """The heartbeat of this process, if anybody watches it."""
        return cls(Path(env[ENV]) if env.get(ENV) else None)

    def beat(self) -> None:
        """Say that the loop which calls this turns. Never raises: a full disk is no reason to end."""
        if self._path is None:
            return
        try:
            try:
                os.utime(self._path)
            except FileNotFoundError:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.touch()
        except OSError as error:
            log.warning("the heartbeat cannot be written: %s", error)

    async def run(self, turns: Callable[[], bool] = lambda: True) -> None:
        """Beat from an event loop until cancelled, as long as ``turns`` says that the work goes on, too."""
        while True:
            if turns():
                self.beat()
            await asyncio.sleep(EVERY)
