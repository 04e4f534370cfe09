"""What the process keeper runs: how a component is launched, and how it shows that it is ready and alive."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One start of a program.

    The programs of ``before`` run to their end first. A component with ``nice`` yields the processor to
    others. ``stdin`` is written to its standard input, which then stays open until the program ends: so the
    program can tell from the end of its input that its keeper is gone. With ``private`` only this user can
    read the files that it creates.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    before: Sequence[Sequence[str]] = ()
    nice: int = 0
    stdin: bytes | None = None
    private: bool = True


@dataclass(frozen=True)
class Started:
    """A component that was just started. ``ready_line`` resolves to the addresses in its ready line."""

    pid: int
    ready_line: asyncio.Future[dict[str, str]]


LivenessCheck = Callable[[], Awaitable[None]]
"""Waits for the next heartbeat of a component, for ever if need be; may raise OSError when there is none."""


async def ready_at_once(started: Started) -> Mapping[str, str]:
    """For a component that is ready as soon as it runs."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Component:
    """A program that the process keeper keeps running. On SIGTERM it ends by itself."""

    name: str
    launch: Callable[[], Launch]
    """Called before every start; may write files."""
    log: Path | None
    """Takes the output. With None, errors go to the keeper's standard error."""
    ready: Callable[[Started], Awaitable[Mapping[str, str]]] = ready_at_once
    """Returns the component's addresses once it serves; may wait for ever."""
    start_timeout: float = 60.0
    """Seconds that it may take to be ready."""
    announces: bool = False
    """Whether it prints a ready line (see `distributary.service`)."""
    take_line: Callable[[bytes], bool] | None = None
    """Is given each further line of standard output, and returns whether to keep it out of the log."""
    alive: LivenessCheck | None = None
    """Without a check only the end of the process is noticed."""
    useful: Callable[[], bool] = lambda: False
    """Whether the running process has done work already: its failure is then not one of several in a row."""
    proven: Callable[[], bool] | None = None
    """Whether it is known to work, and so is never given up. By default once it was ready."""


class EventKind(enum.StrEnum):
    """What happened in a stack."""

    NOTE = "note"
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    SILENT = "silent"
    DIED = "died"
    FAILED = "failed"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Event:
    """Something that happened in a stack. ``log_tail`` is the end of the component's log."""

    kind: EventKind
    component: str = ""
    message: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)
    log_tail: Sequence[str] = ()


Listener = Callable[[Event], None]


def never_raising(listener: Listener) -> Listener:
    """The listener, unable to raise: a closed terminal must not keep a stack from being stopped."""

    def report(event: Event) -> None:
        try:
            listener(event)
        except Exception as error:
            log.debug("could not report %s: %s", event, error)

    return report
