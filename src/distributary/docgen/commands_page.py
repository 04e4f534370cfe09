"""The page of all commands, from their click objects."""

from __future__ import annotations

from collections.abc import Iterator

import click

from distributary.cli.command_line import PROGRAM, Group
from distributary.cli.main import program

WIDTH = 98

_INTRO = """\
# Commands

<!-- Made by `python -m distributary.docgen` from src/distributary/cli/. Do not edit. -->

Exit status: 0 success, 1 an error, 2 a wrong configuration or command line, 130 interrupted, 141 the reader
of the output closed it. An error is one line on standard error and, where there is one, what to do about it;
with `--json` it is one JSON object.
"""


def page() -> str:
    """The whole page."""
    context = click.Context(program, info_name=PROGRAM, terminal_width=WIDTH)
    return "\n".join([_INTRO, *_blocks(context, "##")])


def _blocks(context: click.Context, heading: str) -> Iterator[str]:
    """The help of a command, then of all below it."""
    # The settings have a page of their own.
    text = context.command.get_help(context).split("\nSettings:\n")[0].strip()
    yield f"{heading} {context.command_path}\n\n```text\n{text}\n```\n"
    if isinstance(context.command, Group):
        deeper = "##" if context.parent is None else "###"
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            if command is not None:
                yield from _blocks(click.Context(command, parent=context, info_name=name), deeper)
