"""What the commands share: loading the configuration that ``--config`` names, printing JSON and columns."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributary.config import Config


def config_of(
    args: argparse.Namespace, overrides: Mapping[str, str] | None = None, *, required: bool = True
) -> Config:
    """Load the configuration of a command line; ConfigError as `distributary.config.load` raises it."""
    from distributary.config import load

    return load(args.config, overrides=overrides or {}, required=required)


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_note(args: argparse.Namespace, note: str) -> None:
    """Print a note to standard error, if there is one; never with --json, where that has errors as JSON."""
    if note and not args.json:
        print(f"note: {note}", file=sys.stderr)


def columns(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    """Lay rows out under their heads, each column as wide as its widest cell."""
    table = [list(heads), *map(list, rows)]
    widths = [max(len(row[place]) for row in table) for place in range(len(heads))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
    return "\n".join(line.rstrip() for line in lines)
