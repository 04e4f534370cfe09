"""``distributary up``: run the whole stack until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Protocol

import click

from distributary.cli.command_line import Args, command, load_config

if TYPE_CHECKING:
    from distributary.config import Config
    from distributary.stack.component import Event
    from distributary.stack.process_keeper import Policy
    from distributary.stack.stack_components import Service

_WARNINGS = ("silent", "died", "failed", "waiting")
"""The kinds of events that --quiet prints."""

_STYLES = {
    "ready": "green",
    "silent": "yellow",
    "died": "yellow",
    "failed": "red",
    "starting": "dim",
    "stopped": "dim",
}


@command(
    "up",
    details="Starts Kafka and the store (unless kafka.bootstrap_servers and store.url name yours), the "
    "control API, the gateway, the reducers and the publishers, and restarts a component that dies. Its data "
    "is in data_dir.",
    examples=(
        "distributary up                             the stack of ./distributary.toml; Ctrl-C stops it",
        "distributary up --config prod.toml --quiet  print only what goes wrong",
        "distributary up --json                      one JSON object a line, for programs",
        "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS=kafka:9092 distributary up   use that Kafka, start none",
    ),
)
@click.option("--quiet", is_flag=True, help="print only what goes wrong")
def up_command(args: Args) -> int:
    """Run until SIGINT or SIGTERM, then stop everything within 10 s; 0 when it was asked to stop."""
    return up(load_config(args), as_json=args.json, quiet=args.quiet)


def up(
    config: Config,
    *,
    as_json: bool = False,
    quiet: bool = False,
    services: Sequence[Service] | None = None,
    policy: Policy | None = None,
) -> int:
    """Run the stack of a configuration; ``services`` replaces its Python components."""
    from distributary.auth import check_exposure
    from distributary.config.private_files import UMASK
    from distributary.kafka.record_router import create_router
    from distributary.stack import prerequisites, stack_components

    check_exposure(config)
    create_router(config)  # reports an unusable schema before anything starts
    if services is None:
        services = stack_components.services(config.publisher.processes, socketio=bool(config.socketio.port))
    printer = _JsonPrinter(quiet) if as_json else _LinePrinter(quiet)
    try:
        with _terminable():  # downloads may take minutes and must end at a signal: not in the event loop
            prerequisites.check(config, services, lambda line: print(line, file=sys.stderr, flush=True))
    except KeyboardInterrupt:
        return 130
    os.umask(UMASK)  # only now: several users may share the cache of downloads
    asyncio.run(_serve(config, printer, services, policy))
    return 0


async def _serve(
    config: Config, printer: _Printer, services: Sequence[Service], policy: Policy | None
) -> None:
    from distributary.stack.component import Event, EventKind
    from distributary.stack.embedded_stack import Stack

    stop_requested = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop_requested.set)
    started = time.monotonic()
    async with Stack(config, listener=printer.event, services=services, policy=policy) as stack:
        ready, stop = asyncio.create_task(stack.wait_ready()), asyncio.create_task(stop_requested.wait())
        await asyncio.wait({ready, stop}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            ready.result()
            printer.up(time.monotonic() - started, stack.addresses)
            await stop
        ready.cancel()
        printer.event(Event(EventKind.STOPPING))
    printer.event(Event(EventKind.STOPPED))


class _Printer(Protocol):
    def event(self, event: Event) -> None: ...

    def up(self, seconds: float, addresses: dict[str, str]) -> None: ...


class _LinePrinter:
    """Plain lines, coloured on a terminal."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._console = None
        if sys.stdout.isatty():
            from rich.console import Console

            self._console = Console(highlight=False, soft_wrap=True)

    def event(self, event: Event) -> None:
        from distributary.stack.console import lines

        if not self._quiet or event.kind in _WARNINGS:
            self._print(lines(event), _STYLES.get(event.kind, ""))

    def up(self, seconds: float, addresses: dict[str, str]) -> None:
        from distributary.stack.console import where_to_go

        if not self._quiet:
            self._print([f"stack       ready in {seconds:.1f} s; stop it with Ctrl-C"], "bold green")
            self._print(where_to_go(addresses), "")

    def _print(self, rows: Iterable[str], style: str) -> None:
        for row in rows:
            with contextlib.suppress(OSError):  # the output is closed; the stack continues
                if self._console is not None:
                    self._console.print(row, style=style, markup=False)
                else:
                    print(row, flush=True)


class _JsonPrinter:
    """One JSON object a line."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet

    def event(self, event: Event) -> None:
        from distributary.stack.console import as_json

        if not self._quiet or event.kind in _WARNINGS:
            with contextlib.suppress(OSError):
                print(as_json(event), flush=True)

    def up(self, seconds: float, addresses: dict[str, str]) -> None:
        from distributary.stack.component import Event, EventKind

        self.event(Event(EventKind.READY, message=f"in {seconds:.1f} s", addresses=addresses))


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM interrupt as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
