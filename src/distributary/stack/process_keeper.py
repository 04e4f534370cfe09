"""Keeps one part running: starts it, waits until it is ready, starts it again when it dies."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributary.errors import DistributaryError, PartFailed
from distributary.model.exitcode import describe_exit
from distributary.service import ExitCode
from distributary.stack import atomic_files, processes
from distributary.stack.child_process import Child, run_before
from distributary.stack.component import Event, Kind, Listener, Part, Started
from distributary.stack.stack_file import PartState


@dataclass(frozen=True)
class Policy:
    """How a dead or silent part is treated.

    A first failure is mended at once. Pauses after further ones double from ``first`` to ``longest``
    seconds, and begin anew after ``healthy`` seconds of service. A part that was never ready is given up
    after ``attempts`` starts. One without a sign of life is said to be silent after ``silent`` seconds, and
    is killed and started again after ``hung``.
    """

    first: float = 0.5
    longest: float = 30.0
    healthy: float = 10.0
    attempts: int = 5
    silent: float = 5.0
    hung: float = 10.0

    def pause(self, failures: int) -> float:
        """How long to wait after so many failures in a row."""
        return float(min(self.longest, self.first * 2 ** min(failures - 2, 30))) if failures > 1 else 0.0


log = logging.getLogger(__name__)

_LAST_WORDS = re.compile(r"^(?:distributary[. ]\w+|error): (.+)|CRITICAL \S+: (.+)")


def with_last_words(why: str, tail: Sequence[str]) -> str:
    """Join how a part ended with what it said last of the reason, if it said anything."""
    for line in reversed(tail):
        if found := _LAST_WORDS.search(line):
            return f"{why}: {found[1] or found[2]}"
    return why


_LOOK = 1.0
"""Seconds that one sign of life is waited for, and between two."""


class Keeper:
    """One part, kept running by the task `run`. ``changed`` is called after every change of ``state``."""

    def __init__(
        self, part: Part, stack: str, say: Listener, changed: Callable[[], None], policy: Policy
    ) -> None:
        self.part = part
        self.state = PartState(part.name, log=str(part.log))
        self.came_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stack = stack
        self._say = say
        self._changed = changed
        self._policy = policy
        self._child: Child | None = None
        self._hung = False
        self._served = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin. `came_up` is done when the part is first ready, and raises `PartFailed` if it never is."""
        self._task = asyncio.create_task(self.run(), name=f"keep {self.part.name}")

    async def run(self) -> None:
        """Run the part until it is given up; ends only then."""
        failures = 0
        while True:
            mark = self._log_size()
            self._served = time.monotonic()
            try:
                final, why = await self._once()
            except Exception as error:  # whatever it is: a part that nobody keeps is worse
                log.debug("%s cannot be watched", self.part.name, exc_info=True)
                final, why = False, f"it cannot be watched ({type(error).__name__}: {error})"
            failures = 1 if time.monotonic() - self._served >= self._policy.healthy else failures + 1
            await self._clear()
            tail = atomic_files.tail(self.part.log, since=mark)
            why = with_last_words(why, tail)
            never = not self.came_up.done()
            if final or (never and failures >= self._policy.attempts):
                self._give_up(why, failures, final, tail)
                return
            pause = self._policy.pause(failures)
            self.state.restarts += 1
            self.state.restarted = time.time()
            self._set("restarting", error=why, pid=None, birth=None, addresses={})
            when = f"in {pause:g} s" if pause else "now"
            self._event("died", f"{why}; starting it again {when}", tail=tail)
            await asyncio.sleep(pause)

    def retire(self) -> None:
        """Do not start the part again, whatever ends it."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self, grace: float) -> None:
        """End the part with all its descendants; those still there after ``grace`` seconds are killed."""
        deadline = time.monotonic() + grace
        family = processes.tree(self._child.pid) if self._child else []
        self.retire()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        if self._child is not None:
            self._set("stopping")
            self._child.send(signal.SIGTERM)
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + grace):
                    await self._child.wait()
            except TimeoutError:
                family += processes.tree(self._child.pid)
                self._child.send(signal.SIGKILL)
                await self._child.wait()
            # Descendants often end with their parent; give them the moment they need.
            left = await processes.wait_gone(family, min(1.0, max(0.0, deadline - time.monotonic())))
            await processes.kill(left)
            await self._clear()
        if self.came_up.done() and not self.came_up.cancelled():
            self.came_up.exception()  # seen
        self.came_up.cancel()
        self._set("stopped", pid=None, birth=None, addresses={})

    def kill(self) -> int:
        """SIGKILL the part's own process, as a fault would; return its pid."""
        if self._child is None:
            raise RuntimeError(f"{self.part.name} does not run")
        self._child.send(signal.SIGKILL)
        return self._child.pid

    async def _once(self) -> tuple[bool, str]:
        """Start it and see it end: whether that end is final, and why it came."""
        self._set("starting", addresses={})
        self._event("starting")
        began = time.monotonic()
        try:
            launch = self.part.launch()
            env = {**launch.env, processes.STACK: self._stack, processes.PART: self.part.name}
            atomic_files.rotate(self.part.log)
            for argv in launch.before:
                code = await run_before(argv, env, self.part.log)
                if code != 0:
                    return False, f"its preparation {describe_exit(code)}"
            self._child = await Child.start(launch.argv, env, self.part.log, announces=self.part.announces)
            if launch.nice:
                processes.give_way(self._child.pid, launch.nice)
        except OSError as error:
            return False, f"it cannot be started: {error}"
        except DistributaryError as error:
            return not error.retry, str(error)
        self._set("starting", pid=self._child.pid, birth=self._child.birth)
        ending = asyncio.create_task(self._child.wait())
        watching = asyncio.create_task(self._watch())
        try:
            trouble = await self._wait_ready(self._child, ending, began)
            if trouble is not None:
                return False, trouble
            self._served = time.monotonic()
            await asyncio.wait({ending, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                self._hung = True
                return False, watching.result()
            code = ending.result()
            return code == ExitCode.FINAL, describe_exit(code)
        finally:
            ending.cancel()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> str:
        """Wait until the part has given no sign of life for too long; return that in words.

        Silence is counted in our own steps: whoever was stopped himself must not blame others for it. Before
        it is ready, or gave a first sign, a part is starting, which has a limit of its own.
        """
        sign, silent, heard = self.part.sign, 0.0, False
        while sign is not None:
            began = time.monotonic()
            try:
                async with asyncio.timeout(_LOOK):
                    await sign()
                heard, silent = True, 0.0
                if self.state.state == "silent":
                    self._set("ready", error="")
                    self._event("ready", "again: it gives signs of life")
            except OSError:  # a TimeoutError is one
                silent += _LOOK if heard or self.state.state in ("ready", "silent") else 0.0
                if silent >= self._policy.hung:
                    return f"it gave no sign of life for {silent:g} s"
                if silent >= self._policy.silent and self.state.state == "ready":
                    self._set("silent", error=f"no sign of life for {silent:g} s")
                    self._event("silent", f"no sign of life for {silent:g} s")
            await asyncio.sleep(max(0.0, began + _LOOK - time.monotonic()))
        await asyncio.get_running_loop().create_future()
        raise AssertionError("it never comes")

    async def _wait_ready(self, child: Child, ending: asyncio.Task[int], began: float) -> str | None:
        """Wait until it serves or ends; return None, or what else became of it."""
        probe = asyncio.ensure_future(self.part.ready(Started(child.pid, child.line)))
        try:
            await asyncio.wait({probe, ending}, timeout=self.part.limit, return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                return None
            if not probe.done():
                return f"it was not ready within {self.part.limit:g} s"
            try:
                addresses: Mapping[str, str] = probe.result()
            except DistributaryError as error:
                return str(error)
        finally:
            probe.cancel()
            await asyncio.gather(probe, return_exceptions=True)
        self._set("ready", addresses=dict(addresses), error="")
        self._event("ready", f"in {time.monotonic() - began:.1f} s", addresses=addresses)
        if not self.came_up.done():
            self.came_up.set_result(None)
        return None

    async def _clear(self) -> None:
        """End what is left of the part: the process itself, and descendants that have lost it."""
        if self._child is not None:
            if self._child.running:
                # One that hangs does not listen, and whoever waits for it waits long enough already.
                grace = 0.0 if self._hung else 5.0
                await processes.end(processes.tree(self._child.pid), grace)
                await self._child.wait()
            await self._child.close()
            self._child, self._hung = None, False
        await processes.kill(processes.marked(self._stack, self.part.name))

    def _give_up(self, why: str, failures: int, final: bool, tail: list[str]) -> None:
        said = why if final else f"{why}; given up after {failures} starts"
        self._set("failed", error=why, pid=None, birth=None, addresses={})
        self._event("failed", said, tail=tail)
        if not self.came_up.done():
            error = PartFailed(f"{self.part.name} does not start: {said}", hint=f"Its log is {self.part.log}")
            self.came_up.set_exception(error)

    def _log_size(self) -> int:
        try:
            return self.part.log.stat().st_size
        except OSError:
            return 0

    def _set(self, phase: Any, **values: Any) -> None:
        self.state.state = phase
        for name, value in values.items():
            setattr(self.state, name, value)
        self._changed()

    def _event(self, kind: Kind, message: str = "", **more: Any) -> None:
        self._say(Event(kind, self.part.name, message, **more))
