"""How commands print: JSON, tables, notes and results."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributary.cli.command_line import Args


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_result(args: Args, line: str, value: Any = None) -> None:
    """Print what was done to standard error; with --json the value instead, if there is one."""
    if not args.json:
        print(line, file=sys.stderr)
    elif value is not None:
        print_json(value)


def print_note(args: Args, note: str) -> None:
    """Print a note to standard error, if there is one; not with --json, where that has errors as JSON."""
    if note:
        print_result(args, f"note: {note}")


def print_rows(args: Args, value: Any, rows: Sequence[Sequence[str]], heads: Sequence[str]) -> None:
    """Print rows under their heads, or with --json the value that they are made of."""
    if args.json:
        print_json(value)
    else:
        print(columns(rows, heads))


def columns(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    """Lay rows out under their heads, each column as wide as its widest cell."""
    table = [list(heads), *map(list, rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
    return "\n".join(line.rstrip() for line in lines)
