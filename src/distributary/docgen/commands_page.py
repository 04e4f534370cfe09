"""The page of all commands, from their parsers."""

from __future__ import annotations

import contextlib
import io
import os

from distributary.cli.command_line import help_text, program_parser
from distributary.cli.commands import COMMANDS, Command, load
from distributary.errors import CommandMissing

WIDTH = 96

_INTRO = """\
# Commands

<!-- Made by `python -m distributary.docgen` from src/distributary/cli/. Do not edit. -->

Exit status: 0 done, 1 an error, 2 a wrong configuration or command line, 130 interrupted. An error is one
line on standard error and, where there is one, what to do about it; with `--json` it is one JSON object.
"""


def page() -> str:
    """The whole page. A command whose module is not there yet has its line only."""
    parts = [_INTRO, _block("distributary", program_parser(WIDTH).format_help())]
    parts += [_block(f"distributary {command.name}", _help(command)) for command in COMMANDS]
    return "\n".join(parts)


def _help(command: Command) -> str:
    if not command.main:
        text = help_text(command, WIDTH)
        # The settings have a page of their own.
        return text.split("\nsettings:\n")[0]
    return _program_help(command)


def _program_help(command: Command) -> str:
    """Ask a program of its own for its help, at our width."""
    try:
        module = load(command)
    except CommandMissing:
        return command.help
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            module.main(["--help"])  # type: ignore[attr-defined]
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return printed.getvalue()


def _block(title: str, text: str) -> str:
    return f"## {title}\n\n```text\n{text.strip()}\n```\n"
