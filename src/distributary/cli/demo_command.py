"""``distributary demo``: the whole stack with a simulated sportsbook, a page and a board to watch it."""

from __future__ import annotations

import argparse
from pathlib import Path

from distributary.errors import UsageError

NAME = "demo"
HELP = "run the stack with a live example feed and page"
EXAMPLES = (
    "distributary demo                    watch in the terminal and in the browser",
    "distributary demo --rate 500         500 changes a second instead of 60",
    "distributary demo --fresh            in a folder of its own, gone afterwards",
    "distributary demo --seconds 60 --json",
)

DATA_DIR = Path(".distributary") / "demo"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    from distributary.demo.demo_producer import MATCHES, RATE

    parser.description = (
        f"{parser.description}\nA simulated sportsbook: thousands of odds change every minute."
        f" Keeps its data in {DATA_DIR}.\n"
        "--config takes another file, which must have the views odds and matches."
    )
    number = f"(default: {RATE:g})"
    parser.add_argument("--rate", type=float, default=RATE, metavar="N", help=f"changes a second {number}")
    parser.add_argument(
        "--matches", type=int, default=MATCHES, metavar="N", help=f"matches on the board (default: {MATCHES})"
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="stop by itself after so long")
    parser.add_argument("--no-board", action="store_true", help="print the addresses and no more")
    parser.add_argument("--fresh", action="store_true", help="use a temporary folder instead of the kept one")


def run(args: argparse.Namespace) -> int:
    """Run until Ctrl-C, SIGTERM or ``--seconds``; 0 when all was stopped cleanly."""
    import asyncio
    import os

    from distributary.config.private_files import UMASK
    from distributary.demo.demo_run import Options, demo, prepare

    if args.rate <= 0:
        raise UsageError(f"--rate must be over 0, not {args.rate:g}")
    if args.matches < 1:
        raise UsageError(f"--matches must be at least 1, not {args.matches}")
    if args.seconds is not None and args.seconds <= 0:
        raise UsageError(f"--seconds must be over 0, not {args.seconds:g}")
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
