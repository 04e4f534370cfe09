"""The argument parsers: one for the program, one for each command, none of which imports the others'."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from distributary.cli.commands import COMMANDS, Command, CommandModule, load
from distributary.errors import CommandMissing

PROGRAM = "distributary"

_DESCRIPTION = "Streams from Kafka, reduced by Spark, to every subscriber: live, in order, with nothing lost."

_EXAMPLES = (
    "distributary up                     run the stack that distributary.toml describes",
    "distributary config                 check distributary.toml",
    "distributary help settings          list every setting",
)


def program_parser(width: int | None = None) -> argparse.ArgumentParser:
    """Parse what stands before the command's name."""
    rows = "\n".join(f"  {command.name:<11} {command.help}" for command in COMMANDS)
    epilog = f"commands:\n{rows}\n\n{examples(_EXAMPLES)}"
    parser = argparse.ArgumentParser(
        PROGRAM,
        usage=f"{PROGRAM} [--config FILE] [--json] COMMAND …",
        description=_DESCRIPTION,
        epilog=epilog,
        formatter_class=_formatter(width),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    add_common(parser, first=True)
    return parser


def command_parser(
    command: Command, module: CommandModule | None, width: int | None = None
) -> argparse.ArgumentParser:
    """Parse what stands after the command's name; with no module only ``--help`` is of use."""
    parser = argparse.ArgumentParser(
        f"{PROGRAM} {command.name}",
        description=command.help[0].upper() + command.help[1:] + ".",
        epilog=examples(module.EXAMPLES) if module else "This command is not part of this installation.",
        formatter_class=_formatter(width),
        allow_abbrev=False,
    )
    if module:
        module.add(parser)
    add_common(parser)
    return parser


def add_common(parser: argparse.ArgumentParser, *, first: bool = False) -> None:
    """Add the options that every command has; they may stand before the command's name or after it."""
    absent = argparse.SUPPRESS
    group = parser.add_argument_group("common options")
    group.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=None if first else absent,
        help="the configuration file (default: DISTRIBUTARY_CONFIG, else ./distributary.toml)",
    )
    flags = {"--json": "print JSON, errors too", "--debug": "print the Python trace of an error"}
    for flag, text in flags.items():
        group.add_argument(flag, action="store_true", default=False if first else absent, help=text)


def examples(lines: Sequence[str]) -> str:
    """Lay out examples for the end of a help text."""
    return "examples:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""


def help_text(command: Command, width: int | None = None) -> str:
    """The help of a command, also where its module is missing; a program of its own answers for itself."""
    if command.main:
        return ""
    try:
        module: CommandModule | None = load(command)
    except CommandMissing:
        module = None
    return command_parser(command, module, width).format_help()


def _formatter(width: int | None) -> partial[argparse.RawDescriptionHelpFormatter]:
    columns = width or min(shutil.get_terminal_size().columns, 110)
    return partial(argparse.RawDescriptionHelpFormatter, width=columns, max_help_position=26)
