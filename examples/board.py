"""A board in the terminal: follows a view and prints its rows whenever they change.

Run it in the folder of a running stack: ``python board.py odds "sport = 'football'"``.
"""

from __future__ import annotations

import contextlib
import sys

import distributary


def main(view: str, where: str | None = None) -> None:
    """Follow a view until Ctrl-C."""
    with distributary.subscribe_sync(view, where) as changes:
        for change in changes:
            if change.op in ("stale", "fresh"):
                print(f"-- the source is {change.op}")
                continue
            print(f"-- {change.op} {change.key or ''} at {change.position}")
            for key, row in sorted(changes.rows.items()):
                print(f"   {key:<12}", *(f"{name}={value}" for name, value in row.items()))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:3])
