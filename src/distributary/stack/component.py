"""The one shape of a supervised part: how it is launched, how it shows that it is ready."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from distributary.stack.liveness import Sign

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Launch:
    """A program to run, after those of ``before`` ran to their end. ``nice``: it gives way to other parts."""

    argv: Sequence[str]
    env: Mapping[str, str]
    before: Sequence[Sequence[str]] = ()
    nice: int = 0


@dataclass(frozen=True)
class Started:
    """A part that was just started. ``line`` is the ready line of a part that prints one."""

    pid: int
    line: asyncio.Future[dict[str, str]]


@dataclass(frozen=True)
class Part:
    """A program that the supervisor keeps running.

    ``launch`` is called before every start and may write files. ``ready`` returns the part's addresses once
    it serves; it need not have an end. ``sign`` waits for the next sign of life (see ``liveness.py``);
    without it only the end of the process is noticed. ``announces`` parts print one JSON line when they are
    ready. On SIGTERM a part ends by itself.
    """

    name: str
    log: Path
    launch: Callable[[], Launch]
    ready: Callable[[Started], Awaitable[Mapping[str, str]]]
    limit: float = 60.0
    announces: bool = False
    sign: Sign | None = None


Kind = Literal["note", "waiting", "starting", "ready", "silent", "died", "failed", "stopping", "stopped"]


@dataclass(frozen=True)
class Event:
    """Something that whoever watches the stack should see. ``tail`` is the end of the part's log."""

    kind: Kind
    part: str = ""
    message: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)
    tail: Sequence[str] = ()


Listener = Callable[[Event], None]


def guarded(listener: Listener) -> Listener:
    """The listener, unable to raise: a closed terminal must not keep a stack from being stopped."""

    def say(event: Event) -> None:
        try:
            listener(event)
        except Exception as error:
            log.debug("nobody heard %s: %s", event, error)

    return say
