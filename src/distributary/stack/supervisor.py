"""Runs the components of a stack: starts them level by level, records what runs, stops all in reverse."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable
from pathlib import Path

from distributary.service import Heartbeat
from distributary.stack import processes, stack_file
from distributary.stack.component import Component, Event, EventKind, Listener, never_raising
from distributary.stack.process_keeper import Keeper, Policy
from distributary.stack.stack_file import ComponentState, Phase, StackState

log = logging.getLogger(__name__)

STOP_LIMIT = 10.0
"""Seconds in which everything is stopped."""

_RESERVE = 2.5
"""Of those, how many are reserved for each level that stops later, so that Kafka and the store can close."""


class Supervisor:
    """Starts, watches and stops components; keeps ``stack.json`` up to date."""

    def __init__(self, stack: str, data_dir: Path, listener: Listener, policy: Policy | None = None) -> None:
        self._data_dir = data_dir
        self._listener = never_raising(listener)
        self._policy = policy or Policy()
        self._levels: list[list[Keeper]] = []
        """Components that were started together; those of the last level are stopped first."""
        self.state = StackState(stack, os.getpid(), processes.birth(os.getpid()))
        self._closed = False
        self._heartbeat: asyncio.Task[None] | None = None
        self._is_current = True
        """Whether ``stack.json`` has the present state: writing it may fail."""
        stack_file.write(data_dir, self.state)

    async def start(self, components: Iterable[Component]) -> None:
        """Start these components at once and wait until all are ready.

        Raises `ComponentFailed` as soon as one is given up; the rest go on until `stop`.
        """
        if self._heartbeat is None:
            # The time of ``stack.json`` moves as long as its content is right.
            heartbeat = Heartbeat(self._data_dir / stack_file.FILE)
            self._heartbeat = asyncio.create_task(heartbeat.run(self._write_if_outdated))
        level = [
            Keeper(one, self.state.stack, self._listener, self.write, self._policy) for one in components
        ]
        self._levels.append(level)
        self.state.components.extend(keeper.state for keeper in level)
        for keeper in level:
            keeper.start()
        await asyncio.gather(*(keeper.came_up for keeper in level))

    def _write_if_outdated(self) -> bool:
        if not self._is_current:
            self.write()
        return self._is_current

    def add_external(self, name: str, addresses: dict[str, str]) -> ComponentState:
        """Record a component that the stack uses and does not start."""
        state = ComponentState(name, external=True, addresses=addresses)
        self.state.components.append(state)
        self.write()
        return state

    def keeper(self, name: str) -> Keeper:
        """The keeper of a started component; KeyError when there is none of that name."""
        for keeper in self._keepers():
            if keeper.component.name == name:
                return keeper
        raise KeyError(name)

    def set_phase(self, phase: Phase) -> None:
        """Set what the stack as a whole is doing."""
        self.state.state = phase
        self.write()

    async def stop(self, limit: float = STOP_LIMIT) -> None:
        """Stop every component, the last started first, within ``limit`` seconds, and leave no process."""
        deadline = time.monotonic() + limit - 0.5
        self.set_phase(Phase.STOPPING)
        while self._levels:
            level = self._levels.pop()
            left = deadline - time.monotonic() - _RESERVE * len(self._levels)
            stops = (keeper.stop(max(0.5, left)) for keeper in level)
            # An error with one must not keep the others from being stopped; the sweep below ends the rest.
            results = await asyncio.gather(*stops, return_exceptions=True)
            for keeper, error in zip(level, results, strict=True):
                if error is not None:
                    keeper.retire()
                    log.error("stopping %s: %r", keeper.component.name, error)
                self._listener(Event(EventKind.STOPPED, keeper.component.name))
        await processes.kill(processes.marked(self.state.stack))
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        self.set_phase(Phase.STOPPED)
        self._closed = True

    def write(self) -> None:
        """Write ``stack.json``; where the disk is full, as soon as it has room."""
        if self._closed:
            return
        self.state.addresses = _addresses(self.state.components)
        try:
            stack_file.write(self._data_dir, self.state)
            self._is_current = True
        except OSError as error:  # the components are kept running all the same
            if self._is_current:
                log.error("cannot write %s: %s", self._data_dir / stack_file.FILE, error.strerror or error)
            self._is_current = False

    def _keepers(self) -> list[Keeper]:
        return [keeper for level in self._levels for keeper in level]


def _addresses(components: Iterable[ComponentState]) -> dict[str, str]:
    """All addresses: a component's only one under the component's name, others under their own."""
    found: dict[str, str] = {}
    for component in components:
        for name, address in component.addresses.items():
            found.setdefault(component.name if len(component.addresses) == 1 else name, address)
    return found
