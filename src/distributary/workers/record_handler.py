"""One record's way through the function: tried again when it fails, and given up after some times."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from distributary.client.record import Record
from distributary.workers.function_loader import Function
from distributary.workers.results import Out, outs

log = logging.getLogger(__name__)

LONGEST = 30.0
"""The longest pause before a next try, in seconds."""


class Handled(NamedTuple):
    """What became of a record: what it gave, or why it is a dead letter."""

    outs: tuple[Out, ...] = ()
    reason: str = ""


class Abandoned(Exception):
    """The worker stops while a record waits for its next try: somebody else reads it again."""


class Handler:
    """Calls the function, plain or async. For one thread; close it."""

    def __init__(
        self, function: Function, retries: int, backoff: float, pause: Callable[[float], bool]
    ) -> None:
        """``pause`` waits so many seconds, and says whether the worker stops."""
        self._function = function
        self._retries = retries
        self._backoff = backoff
        self._pause = pause
        self._runner: asyncio.Runner | None = None

    def __call__(self, record: Record) -> Handled:
        """Call until it returns; raises Abandoned when the worker stops before that."""
        tries = 0
        while True:
            try:
                return Handled(tuple(outs(self._call(record), record)))
            except (Exception, SystemExit) as error:  # whatever a user's function raises
                reason = f"{type(error).__name__}: {error}"
            tries += 1
            place = f"{record.topic}/{record.partition}@{record.offset}"
            if tries > self._retries:
                log.warning("%s is a dead letter after %d tries: %s", place, tries, reason)
                return Handled(reason=reason)
            wait = backoff(self._backoff, tries)
            log.warning("%s failed and is tried again in %g s: %s", place, wait, reason)
            if self._pause(wait):
                raise Abandoned

    def _call(self, record: Record) -> Any:
        result = self._function(record)
        if inspect.isawaitable(result):
            if self._runner is None:
                self._runner = asyncio.Runner()
            return self._runner.run(_awaited(result))
        return result

    def close(self) -> None:
        """End the event loop, if there was one."""
        if self._runner is not None:
            self._runner.close()


def backoff(first: float, tries: int) -> float:
    """Seconds to wait after so many tries."""
    return min(first * 2.0 ** min(tries - 1, 20), LONGEST)


async def _awaited(result: Any) -> Any:
    return await result
