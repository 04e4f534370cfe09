"""Processor time: how much is used, and which user is charged for it.

A task is measured step by step, between one ``await`` and the next, so a user is charged for what was done
for it and for nothing that ran meanwhile. Work elsewhere, by reducers or by the store, has a fixed price.
"""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

REQUEST = 0.0006
"""Seconds: the part of a request before its user is known, and its response."""
CONNECT = 0.0025
"""Seconds: a connection, its handshake, and its token or key."""
NEW_QUERY = 0.005
"""Seconds: all reducers of a view are sent a query that is new to them."""
KAFKA_CLIENT = 0.01
"""Seconds: a consumer is created, connects to the brokers, and is closed."""
RECORD = 30e-6
"""Seconds: a record is sent to Kafka and acknowledged."""
ROW = 5e-6
"""Seconds: the store reads a row, or a change of one."""

_payer: ContextVar[Callable[[float], None] | None] = ContextVar("payer", default=None)


@contextmanager
def metered(payer: Callable[[float], None]) -> Iterator[None]:
    """Call ``payer`` with every cost that is charged in the block, also in tasks that it starts."""
    token = _payer.set(payer)
    try:
        yield
    finally:
        _payer.reset(token)


def charge(seconds: float) -> None:
    """Charge a cost; outside of a `metered` block this does nothing."""
    payer = _payer.get()
    if payer is not None and seconds > 0:
        payer(seconds)


def charge_records(count: int) -> None:
    """Charge for producing records."""
    charge(count * RECORD)


def charge_rows(count: int) -> None:
    """Charge for rows, or changes of rows, that were read from the store."""
    charge(count * ROW)


async def measured(work: Awaitable[T]) -> T:
    """Await something, and charge the processor time of each step."""
    payer = _payer.get()
    return await (work if payer is None else _stepped(work, payer))


def measured_task(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task that is `measured`."""
    task = asyncio.get_running_loop().create_task(measured(work))
    # A task that is cancelled before its first step never runs, and so never closes its coroutine.
    task.add_done_callback(lambda _: work.close())
    return task


@types.coroutine
def _stepped(work: Awaitable[T], payer: Callable[[float], None]) -> Generator[Any, Any, T]:
    steps = work.__await__()
    step: Callable[[], Any] = steps.__next__
    while True:
        began = time.thread_time()
        try:
            waiting = step()
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            payer(time.thread_time() - began)
        try:
            value = yield waiting
        except BaseException as error:  # most often a cancellation, which is for the work to handle
            step = _thrown(steps, error)
        else:
            step = _sent(steps, value)


def _sent(steps: Generator[Any, Any, T], value: Any) -> Callable[[], Any]:
    return steps.__next__ if value is None else lambda: steps.send(value)


def _thrown(steps: Generator[Any, Any, T], error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)
