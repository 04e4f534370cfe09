"""``distributary demo``: the whole stack with a simulated sportsbook, a page and a board to watch it."""

from __future__ import annotations

from pathlib import Path

import click

from distributary.cli.command_line import Args, command
from distributary.demo.demo_producer import MATCHES, RATE
from distributary.errors import UsageError

DATA_DIR = Path(".distributary") / "demo"


@command(
    "demo",
    details=f"A simulated sportsbook: thousands of odds change every minute. Its data is in {DATA_DIR}. "
    "--config takes another file, which must define the views odds and matches.",
    examples=(
        "distributary demo                    watch in the terminal and in the browser",
        "distributary demo --rate 500         500 changes a second instead of 60",
        "distributary demo --fresh            in a temporary folder, deleted afterwards",
        "distributary demo --seconds 60 --json",
    ),
)
@click.option("--rate", type=float, default=RATE, metavar="N", help=f"changes a second (default: {RATE:g})")
@click.option(
    "--matches", type=int, default=MATCHES, metavar="N", help=f"matches on the board (default: {MATCHES})"
)
@click.option("--seconds", type=float, metavar="S", help="stop after this time")
@click.option("--no-board", is_flag=True, help="print the addresses only")
@click.option("--fresh", is_flag=True, help="use a temporary folder")
def demo_command(args: Args) -> int:
    """Run until Ctrl-C, SIGTERM or ``--seconds``; 0 when all was stopped cleanly."""
    import asyncio
    import os

    from distributary.config.private_files import UMASK
    from distributary.demo.demo_run import Options, demo, prepare

    if args.rate <= 0:
        raise UsageError(f"--rate must be above 0, got {args.rate:g}")
    if args.matches < 1:
        raise UsageError(f"--matches must be at least 1, got {args.matches}")
    if args.seconds is not None and args.seconds <= 0:
        raise UsageError(f"--seconds must be above 0, got {args.seconds:g}")
    options = Options(
        config=args.config,
        data_dir=None if args.fresh else DATA_DIR.absolute(),
        rate=args.rate,
        matches=args.matches,
        seconds=args.seconds,
        board=not args.no_board,
        json=args.json,
    )
    prepare(options)
    os.umask(UMASK)
    asyncio.run(demo(options))
    return 0
