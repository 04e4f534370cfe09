"""The supervisor of a crew: starts workers, starts them again, and lets go of those that are not needed."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from distributary.errors import WorkerFailed
from distributary.workers.autoscaler import Scaler, Span
from distributary.workers.worker_spec import BAD, Spec

log = logging.getLogger(__name__)

TICK = 0.2
STEADY = 20.0
"""A worker that ran for so many seconds is started again at once when it dies."""
LONGEST = 30.0
"""The longest pause before one is started again."""
FIRST_FAILURES = 5
"""How often the first worker may fail, in a row and before it did anything, until that is all."""


class Need(Protocol):
    """What is known of the work."""

    lag: int | None
    partitions: int


@dataclass
class Member:
    """A place in the crew, and the process in it."""

    slot: int
    process: subprocess.Popen[bytes]
    began: float
    done: int = 0
    dead: int = 0
    leaving: bool = False
    tellings: threading.Thread | None = None


class Crew:
    """For one thread. Ends are by `drain`, or by `kill`."""

    def __init__(
        self, spec: Spec, scaler: Scaler, need: Need, span: Span, say: Callable[[str], None]
    ) -> None:
        self.span = span
        self.wanted = 0
        self._spec = spec
        self._scaler = scaler
        self._need = need
        self._say = say
        self._members: dict[int, Member] = {}
        self._leaving: list[Member] = []
        self._again: dict[int, float] = {}
        """Places whose process died: when the next is started."""
        self._failures: dict[int, int] = {}
        """How often in a row that was soon."""
        self._gone_done = self._gone_dead = 0
        self.restarts = 0
        """Workers that died and were started again."""
        self._stopping = False

    @property
    def workers(self) -> int:
        """How many run now."""
        return len(self._members)

    @property
    def done(self) -> int:
        """Records that were done."""
        return self._gone_done + sum(one.done for one in (*self._members.values(), *self._leaving))

    @property
    def dead(self) -> int:
        """Records of them that became dead letters."""
        return self._gone_dead + sum(one.dead for one in (*self._members.values(), *self._leaving))

    def step(self) -> None:
        """Look after the crew once; raises WorkerFailed when it cannot work."""
        now = time.monotonic()
        self._bury(now)
        if self._stopping:
            return
        filled = len(self._members) + len(self._again)
        wanted = self._scaler.decide(now, self._need.lag, filled, self._need.partitions, self.span)
        if wanted != self.wanted:
            waits = "lag not known" if self._need.lag is None else f"lag {self._need.lag:,}"
            self._say(f"{wanted} workers ({waits}, {self._need.partitions} partitions)")
            self.wanted = wanted
        for slot in [slot for slot in (*self._again, *self._members) if slot >= wanted]:
            self._again.pop(slot, None)
            if slot in self._members:
                self._let_go(self._members.pop(slot))
        for slot in range(wanted):
            if slot not in self._members and now >= self._again.get(slot, 0.0):
                self._again.pop(slot, None)
                self._members[slot] = self._start(slot)

    def drain(self) -> None:
        """Let all finish what is in hand; go on with `step` until `workers` and `finishing` are 0."""
        self._stopping = True
        for member in self._members.values():
            self._let_go(member)
        self._members.clear()
        self._again.clear()

    @property
    def finishing(self) -> int:
        """How many finish what is in hand."""
        return len(self._leaving)

    def kill(self) -> None:
        """End all at once; what they had in hand is read again by the next."""
        self._stopping = True
        for member in (*self._members.values(), *self._leaving):
            member.process.kill()
            member.process.wait()
        self._members.clear()
        self._leaving.clear()

    def _start(self, slot: int) -> Member:
        process = subprocess.Popen(
            [sys.executable, "-m", "distributary.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C of the terminal is for us alone
        )
        member = Member(slot, process, time.monotonic())
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(msgspec.structs.replace(self._spec, slot=slot)) + b"\n")
            process.stdin.flush()
        except BrokenPipeError:  # it is dead already, which is seen soon
            log.debug("worker %d ended before it began", slot)
        member.tellings = threading.Thread(target=_hear, args=(member,), daemon=True)
        member.tellings.start()
        return member

    def _let_go(self, member: Member) -> None:
        member.leaving = True
        _close(member)
        self._leaving.append(member)

    def _bury(self, now: float) -> None:
        """Take note of processes that ended."""
        for member in [one for one in self._leaving if one.process.poll() is not None]:
            self._leaving.remove(member)
            self._count(member)
        for slot, member in list(self._members.items()):
            status = member.process.poll()
            if status is None:
                continue
            del self._members[slot]
            self._count(member)
            self._fall(slot, member, status, now)

    def _fall(self, slot: int, member: Member, status: int, now: float) -> None:
        steady = now - member.began >= STEADY or member.done > 0
        failures = self._failures[slot] = 0 if steady else self._failures.get(slot, 0) + 1
        if status == BAD or (failures >= FIRST_FAILURES and not self.done):
            raise WorkerFailed(
                f"worker {slot} of group {self._spec.group} cannot work ({_ended(status)})",
                hint="What it said is above",
            )
        pause = min(0.25 * 2.0**failures, LONGEST) if failures else 0.0
        self.restarts += 1
        self._again[slot] = now + pause
        self._say(f"worker {slot} ended ({_ended(status)}); another is started in {pause:g} s")

    def _count(self, member: Member) -> None:
        if member.tellings is not None:
            member.tellings.join(1.0)
        self._gone_done += member.done
        self._gone_dead += member.dead
        _close(member)


def _hear(member: Member) -> None:
    assert member.process.stdout is not None
    with member.process.stdout as out:
        for line in out:
            try:
                told = json.loads(line)
                member.done, member.dead = int(told["done"]), int(told["dead"])
            except (ValueError, KeyError, TypeError):
                log.debug("a worker said %r", line)


def _close(member: Member) -> None:
    """End a worker's input: it finishes what is in hand."""
    if member.process.stdin is not None and not member.process.stdin.closed:
        with contextlib.suppress(BrokenPipeError):
            member.process.stdin.close()


def _ended(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"
