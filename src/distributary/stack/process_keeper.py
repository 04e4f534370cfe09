"""Keeps one component running: starts it, waits until it is ready, restarts it when it dies or hangs."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distributary.errors import ComponentFailed, DistributaryError
from distributary.service import ExitCode, describe_exit
from distributary.stack import processes
from distributary.stack.child_process import Child, log_tail, rotate_log, run_to_end
from distributary.stack.component import Component, Event, EventKind, Launch, Listener, Started
from distributary.stack.stack_file import ComponentState, Phase

log = logging.getLogger(__name__)

_REASON = re.compile(r"^error: (.+)|CRITICAL \S+: (.+)")
_CHECK_SECONDS = 1.0
"""How long to wait for one heartbeat, and the pause between two."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Policy:
    """How a dead or silent component is treated.

    The first ``immediate`` failures in a row are followed by a restart at once; the pauses after further
    ones double from ``first`` to ``longest`` seconds. The count starts again after ``healthy`` seconds of
    service. A component that never worked is given up after ``attempts`` starts. One without a heartbeat is
    reported as silent after ``silent`` seconds, and is killed and restarted after ``hung``. Without
    ``restarts`` any end is final.
    """

    immediate: int = 1
    first: float = 0.5
    longest: float = 30.0
    healthy: float = 10.0
    attempts: int = 5
    silent: float = 5.0
    hung: float = 10.0
    restarts: bool = True

    def pause(self, failures: int) -> float:
        """How long to wait after that many failures in a row."""
        delayed = failures - self.immediate
        return float(min(self.longest, self.first * 2 ** min(delayed - 1, 30))) if delayed > 0 else 0.0


def with_reason(end: str, tail: Sequence[str]) -> str:
    """Append to how a component ended the last reason in its log, if there is one."""
    for line in reversed(tail):
        if found := _REASON.search(line):
            return f"{end}: {found[1] or found[2]}"
    return end


class Keeper:
    """One component, kept running by the task `run`.

    ``stack`` marks its processes (see `processes`). ``changed`` is called after every change of ``state``.
    """

    def __init__(
        self,
        component: Component,
        stack: str,
        listener: Listener,
        changed: Callable[[], None],
        policy: Policy,
    ) -> None:
        self.component = component
        self.state = ComponentState(component.name, log=str(component.log or ""))
        self.came_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the component is first ready; raises `ComponentFailed` if it is given up before."""
        self._stack = stack
        self._listener = listener
        self._changed = changed
        self._policy = policy
        self._child: Child | None = None
        self._hung = False
        """Whether the child was silent for too long: it is then killed without waiting."""
        self._serving_since = 0.0
        """When the present process became ready (or was started), by the monotonic clock."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to run the component."""
        self._task = asyncio.create_task(self.run(), name=f"keep {self.component.name}")

    async def run(self) -> None:
        """Run the component until it is given up; ends only then."""
        failures = 0
        while True:
            log_start = self._log_size()
            self._serving_since = time.monotonic()
            # 1. Run one process to its end.
            try:
                final, why = await self._run_once()
            except Exception as error:  # whatever it is: it must not leave a component without a keeper
                log.debug("cannot watch %s", self.component.name, exc_info=True)
                final, why = False, f"it cannot be watched ({type(error).__name__}: {error})"
            served = time.monotonic() - self._serving_since
            # 2. End what is left of it, and read its last lines.
            await self._clear()
            is_good = served >= self._policy.healthy or self.component.useful()
            failures = self._policy.immediate if is_good else failures + 1
            tail = log_tail(self.component.log, since=log_start)
            why = with_reason(why, tail)
            # 3. Give it up, or start it again after a pause.
            if (
                final
                or not self._policy.restarts
                or (failures >= self._policy.attempts and not self._is_proven())
            ):
                self._give_up(why, failures, final=final or not self._policy.restarts, tail=tail)
                return
            pause = self._policy.pause(failures)
            self.state.restarts += 1
            self.state.restarted = time.time()
            self._set(Phase.RESTARTING, error=why, pid=None, birth=None, addresses={})
            when = f"in {pause:g} s" if pause else "now"
            self._report(EventKind.DIED, f"{why}; restarting it {when}", log_tail=tail)
            await asyncio.sleep(pause)

    def retire(self) -> None:
        """Do not start the component again, whatever ends it."""
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Wait until the component was given up, which `state` describes, or stopped."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def stop(self, grace: float = math.inf) -> None:
        """End the component with all its descendants; what is left after ``grace`` seconds is killed."""
        deadline = time.monotonic() + grace
        family = processes.tree(self._child.pid) if self._child else []
        self.retire()
        await self.ended()
        if self._child is not None:
            self._set(Phase.STOPPING)
            self._child.send(signal.SIGTERM)
            try:
                async with asyncio.timeout(None if math.isinf(grace) else grace):
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
            self.came_up.exception()  # so that it counts as retrieved
        self.came_up.cancel()
        self._set(Phase.STOPPED, pid=None, birth=None, addresses={})

    def kill(self) -> int:
        """SIGKILL the component's own process, as a fault would; return its pid."""
        if self._child is None:
            raise RuntimeError(f"{self.component.name} is not running")
        self._child.send(signal.SIGKILL)
        return self._child.pid

    async def _run_once(self) -> tuple[bool, str]:
        """Start it and wait for its end: returns whether that end is final, and why it came."""
        self._set(Phase.STARTING, addresses={})
        self._report(EventKind.STARTING)
        began = time.monotonic()
        component = self.component
        # 1. Start the process, after those that prepare for it.
        try:
            launch = component.launch()
            marks = {processes.STACK: self._stack, processes.COMPONENT: component.name}
            env = {**launch.env, **marks}
            if component.log is not None:
                rotate_log(component.log)
            for argv in launch.before:
                code = await run_to_end(Launch(argv=argv, env=env), component.log)
                if code != 0:
                    return False, f"its preparation {describe_exit(code)}"
            self._child = await Child.start(
                dataclasses.replace(launch, env=env),
                component.log,
                announces=component.announces,
                take_line=component.take_line,
            )
        except OSError as error:
            return False, f"it cannot be started: {error}"
        except DistributaryError as error:
            return not error.retry, str(error)
        self._set(Phase.STARTING, pid=self._child.pid, birth=self._child.birth)
        ending = asyncio.create_task(self._child.wait())
        watching = asyncio.create_task(self._watch())
        try:
            # 2. Wait until it is ready.
            error_text = await self._wait_ready(self._child, ending, began)
            if error_text is not None:
                return False, error_text
            # 3. Wait until it ends, or gives no heartbeat.
            self._serving_since = time.monotonic()
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
        """Wait until the component has given no heartbeat for too long; return that in words.

        Silence is counted in steps of this loop: a keeper that was itself stopped must not blame the
        component. Until it is ready, or gave a first heartbeat, a component is starting, which has a
        time-out of its own.
        """
        check, silent, has_heartbeat = self.component.alive, 0.0, False
        while check is not None:
            began = time.monotonic()
            try:
                async with asyncio.timeout(_CHECK_SECONDS):
                    await check()
                has_heartbeat, silent = True, 0.0
                if self.state.state == Phase.SILENT:
                    self._set(Phase.READY, error="")
                    self._report(EventKind.READY, "again: its heartbeat is back")
            except OSError:  # a TimeoutError is one
                counts = has_heartbeat or self.state.state in (Phase.READY, Phase.SILENT)
                silent += _CHECK_SECONDS if counts else 0.0
                if silent >= self._policy.hung:
                    return f"it gave no heartbeat for {silent:g} s"
                if silent >= self._policy.silent and self.state.state == Phase.READY:
                    self._set(Phase.SILENT, error=f"no heartbeat for {silent:g} s")
                    self._report(EventKind.SILENT, f"no heartbeat for {silent:g} s")
            await asyncio.sleep(max(0.0, began + _CHECK_SECONDS - time.monotonic()))
        await asyncio.get_running_loop().create_future()
        raise AssertionError("a component without a check is never silent")

    async def _wait_ready(self, child: Child, ending: asyncio.Task[int], began: float) -> str | None:
        """Wait until it is ready or ends; return None, or why it is not ready."""
        ready = asyncio.ensure_future(self.component.ready(Started(child.pid, child.ready_line)))
        limit = self.component.start_timeout
        try:
            await asyncio.wait({ready, ending}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                return None
            if not ready.done():
                return f"it was not ready within {limit:g} s"
            try:
                addresses: Mapping[str, str] = ready.result()
            except DistributaryError as error:
                return str(error)
        finally:
            ready.cancel()
            await asyncio.gather(ready, return_exceptions=True)
        self._set(Phase.READY, addresses=dict(addresses), error="")
        self._report(EventKind.READY, f"in {time.monotonic() - began:.1f} s", addresses=addresses)
        if not self.came_up.done():
            self.came_up.set_result(None)
        return None

    async def _clear(self) -> None:
        """End what is left of the component: the process itself, and descendants that have lost it."""
        if self._child is not None:
            if self._child.running:
                # One that hangs does not react to SIGTERM, and those who wait for it waited long enough.
                grace = 0.0 if self._hung else 5.0
                await processes.end(processes.tree(self._child.pid), grace)
                await self._child.wait()
            await self._child.close()
            self._child, self._hung = None, False
        await processes.kill(processes.marked(self._stack, self.component.name))

    def _is_proven(self) -> bool:
        proven = self.component.proven
        return self.came_up.done() if proven is None else proven()

    def _give_up(self, why: str, failures: int, *, final: bool, tail: list[str]) -> None:
        message = why if final else f"{why}; given up after {failures} starts"
        self._set(Phase.FAILED, error=why, pid=None, birth=None, addresses={})
        self._report(EventKind.FAILED, message, log_tail=tail)
        if not self.came_up.done():
            error = ComponentFailed(
                f"{self.component.name} does not start: {message}", hint=f"Its log is {self.component.log}"
            )
            self.came_up.set_exception(error)

    def _log_size(self) -> int:
        try:
            return self.component.log.stat().st_size if self.component.log is not None else 0
        except OSError:
            return 0

    def _set(self, phase: Phase, **values: Any) -> None:
        self.state.state = phase
        for name, value in values.items():
            setattr(self.state, name, value)
        self._changed()

    def _report(self, kind: EventKind, message: str = "", **more: Any) -> None:
        self._listener(Event(kind, self.component.name, message, **more))
