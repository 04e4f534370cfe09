"""Runs the parts of a stack: starts them level by level, writes down what runs, stops all in reverse."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable
from pathlib import Path

from distributary.service import Heartbeat
from distributary.stack import processes, stack_file
from distributary.stack.component import Event, Listener, Part, guarded
from distributary.stack.process_keeper import Keeper, Policy
from distributary.stack.stack_file import PartState, StackState

log = logging.getLogger(__name__)

STOP_LIMIT = 10.0
"""Seconds in which everything is stopped."""

_RESERVE = 2.5
"""Of those, what is kept for each level that stops later, so that Kafka and the store can close well."""


class Supervisor:
    """Starts, watches and stops parts; keeps ``stack.json`` true all the while."""

    def __init__(self, stack: str, data_dir: Path, say: Listener, policy: Policy | None = None) -> None:
        self._data_dir = data_dir
        self._say = guarded(say)
        self._policy = policy or Policy()
        self._levels: list[list[Keeper]] = []
        self.state = StackState(stack, os.getpid(), processes.birth(os.getpid()))
        self._closed = False
        self._beating: asyncio.Task[None] | None = None
        self._written = True
        stack_file.write(data_dir, self.state)

    async def start(self, parts: Iterable[Part]) -> None:
        """Start these parts at once and wait until all are ready.

        Raises `PartFailed` as soon as one is given up; the rest go on until `stop`.
        """
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat())
        level = [Keeper(part, self.state.stack, self._say, self.write, self._policy) for part in parts]
        self._levels.append(level)
        self.state.parts.extend(keeper.state for keeper in level)
        for keeper in level:
            keeper.start()
        await asyncio.gather(*(keeper.came_up for keeper in level))

    async def _beat(self) -> None:
        """Show that somebody watches: the time of ``stack.json`` moves, as long as what it says is true."""
        await Heartbeat(self._data_dir / stack_file.FILE).run(self._is_written)

    def _is_written(self) -> bool:
        if not self._written:
            self.write()
        return self._written

    def external(self, name: str, addresses: dict[str, str]) -> PartState:
        """Note a part that is not ours."""
        part = PartState(name, external=True, addresses=addresses)
        self.state.parts.append(part)
        self.write()
        return part

    def keeper(self, name: str) -> Keeper:
        """The keeper of a started part; KeyError when there is none of that name."""
        for keeper in self._keepers():
            if keeper.part.name == name:
                return keeper
        raise KeyError(name)

    def announce(self, phase: stack_file.Phase) -> None:
        """Set what the stack as a whole is doing."""
        self.state.state = phase
        self.write()

    async def stop(self, limit: float = STOP_LIMIT) -> None:
        """Stop every part, the last started first, and leave no process; takes at most ``limit`` seconds."""
        deadline = time.monotonic() + limit - 0.5
        self.announce("stopping")
        while self._levels:
            level = self._levels.pop()
            left = deadline - time.monotonic() - _RESERVE * len(self._levels)
            stops = (keeper.stop(max(0.5, left)) for keeper in level)
            # One that goes wrong must not keep the others from being stopped; the sweep below ends the rest.
            ended = await asyncio.gather(*stops, return_exceptions=True)
            for keeper, trouble in zip(level, ended, strict=True):
                if trouble is not None:
                    keeper.retire()
                    log.error("stopping %s: %r", keeper.part.name, trouble)
                self._say(Event("stopped", keeper.part.name))
        await processes.kill(processes.marked(self.state.stack))
        if self._beating is not None:
            self._beating.cancel()
        self.announce("stopped")
        self._closed = True

    def write(self) -> None:
        """Write down what runs now; where the disk is full, as soon as it has room."""
        if self._closed:
            return
        self.state.addresses = _addresses(self.state.parts)
        try:
            stack_file.write(self._data_dir, self.state)
            self._written = True
        except OSError as error:  # the parts are kept running all the same
            if self._written:
                log.error(
                    "%s cannot be written: %s", self._data_dir / stack_file.FILE, error.strerror or error
                )
            self._written = False

    def _keepers(self) -> list[Keeper]:
        return [keeper for level in self._levels for keeper in level]


def _addresses(parts: Iterable[PartState]) -> dict[str, str]:
    """All addresses under one roof, a part's only one under the part's name, others under their own."""
    found: dict[str, str] = {}
    for part in parts:
        for name, address in part.addresses.items():
            found.setdefault(part.name if len(part.addresses) == 1 else name, address)
    return found
