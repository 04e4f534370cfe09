"""Runs the demo: the stack, then the board, then the producer; and stops them all."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from distributary.config import Config, load
from distributary.demo.board import Board
from distributary.demo.demo_output import VIEWS, DemoOutput, follow, report, show
from distributary.demo.page import PAGE_FOLDER
from distributary.errors import ComponentFailed
from distributary.stack import prerequisites
from distributary.stack.component import Component, Launch
from distributary.stack.embedded_stack import Stack
from distributary.stack.process_keeper import Keeper, Policy
from distributary.stack.stack_components import ready_line, services
from distributary.subscriber.subscribed_change import SubscribedChange

CONFIG = Path(__file__).with_name("distributary.toml")

_READY_SECONDS = 30.0
"""Seconds in which the producer must be ready."""
_STOP_SECONDS = 6.0
"""Seconds for the producer to end: it flushes."""
_LOG = "Its log is logs/producer.log in the data folder"


@dataclass(frozen=True)
class Options:
    """The options of the command. No ``data_dir`` means a temporary one."""

    config: Path | None
    data_dir: Path | None
    rate: float
    matches: int
    seconds: float | None
    board: bool
    json: bool


def prepare(options: Options) -> None:
    """Find or download what the stack requires. It may take minutes; Ctrl-C ends it."""
    config = configure(options.config, options.data_dir or Path(tempfile.gettempdir()))
    report_line = functools.partial(print, file=sys.stderr, flush=True)
    prerequisites.check(config, services(config.publisher.processes), report_line)


async def demo(options: Options) -> None:
    """Run until a signal or the end of ``seconds``; whatever happens, no process is left.

    Raises DistributaryError when a component cannot be started, or the producer ends by itself.
    """
    began = time.monotonic()
    stop = asyncio.Event()
    with _signals(stop), _folder(options) as data_dir:
        config = configure(options.config, data_dir)
        output = DemoOutput(Console(), began, as_json=options.json)
        async with Stack(config, listener=output.on_event) as stack:
            if await _first(stack.wait_ready(), stop.wait()):
                return
            output.ready(stack.addresses)
            joined = asyncio.Event()
            await _first(
                _watch(stack.addresses, options, output, joined),
                _produce(stack, options, joined),
                _timed(stop, options),
            )


def configure(path: Path | None, data_dir: Path) -> Config:
    """Load the demo's configuration, or another file that has its views; else raises ConfigError."""
    config = load(
        path or CONFIG,
        overrides={"data_dir": str(data_dir), "publisher.static_dir": str(PAGE_FOLDER.absolute())},
    )
    for view in VIEWS:
        config.view(view)
    return config


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """Set ``stop`` on Ctrl-C and SIGTERM."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _folder(options: Options) -> Iterator[Path]:
    if options.data_dir is not None:
        yield options.data_dir
        return
    with tempfile.TemporaryDirectory(prefix="distributary-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


async def _first(work: Coroutine[Any, Any, Any], *ends: Coroutine[Any, Any, Any]) -> bool:
    """Run until one of them ends; raise its error, else return whether it was one of the ``ends``."""
    tasks = [asyncio.create_task(one) for one in (work, *ends)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return tasks[0] not in done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _timed(stop: asyncio.Event, options: Options) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), options.seconds)


async def _produce(stack: Stack, options: Options, joined: asyncio.Event) -> None:
    """Run the producer once the board follows: earlier records would be a backlog, and look slow."""
    await joined.wait()
    async with _producer(stack, options) as producer:
        await _ended(producer)


@contextlib.asynccontextmanager
async def _producer(stack: Stack, options: Options) -> AsyncIterator[Keeper]:
    """Run the producer, marked as a process of the stack, so that it is never left behind."""
    log = stack.config.data_dir / "logs" / "producer.log"
    argv = [sys.executable, "-m", "distributary.demo.demo_producer"]
    argv += [f"--rate={options.rate}", f"--matches={options.matches}"]
    component = Component(
        name="producer",
        log=log,
        launch=lambda: Launch(argv=argv, env=stack.environment("producer")),
        ready=ready_line,
        start_timeout=_READY_SECONDS,
        announces=True,
    )
    keeper = Keeper(component, stack.state.stack, lambda event: None, lambda: None, Policy(restarts=False))
    keeper.start()
    try:
        await keeper.came_up
        yield keeper
    finally:
        await keeper.stop(_STOP_SECONDS)


async def _ended(producer: Keeper) -> None:
    """Raise ComponentFailed when the producer ends."""
    await producer.ended()
    raise ComponentFailed(f"the producer {producer.state.error}", hint=_LOG)


async def _watch(
    addresses: dict[str, str], options: Options, output: DemoOutput, joined: asyncio.Event
) -> None:
    """Follow both views and show them, for ever; sets ``joined`` when both have their first rows."""
    shown = {
        "page": addresses["http"] + "/",
        "websocket": addresses["websocket"],
        "control": addresses["control"],
    }
    board = Board(shown)
    missing = set(VIEWS)

    def on_change(view: str, change: SubscribedChange) -> None:
        if change.op in ("add", "change"):
            output.first_change()
        elif change.op == "snapshot":
            missing.discard(view)
            if not missing:
                joined.set()

    jobs = [follow(board, view, addresses["websocket"], on_change) for view in VIEWS]
    if options.json:
        jobs.append(report(board, output.figures))
    elif options.board:
        jobs.append(show(board, output.console))
    await _first(*jobs)
