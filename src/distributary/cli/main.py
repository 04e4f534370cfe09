"""The program ``distributary``: runs a command, and turns every error into one line.

Exit status: 0 success, 1 an error, 2 a wrong configuration or command line, 130 interrupted, 141 the
reader of our output closed it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from distributary.cli.command_line import COMPLETE, PROGRAM, Command, Group
from distributary.cli.commands import BY_NAME, CommandEntry
from distributary.errors import CommandMissing, ConfigError, DistributaryError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

OK, FAILED, USAGE, INTERRUPTED, PIPE = 0, 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status; raises nothing, prints no traceback without ``--debug``."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _run(words)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return PIPE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED if end.code else OK
    except Exception as error:
        if "--debug" in words:
            import traceback

            traceback.print_exc()
        _report(error, as_json="--json" in words)
        return _status(error)


def _run(words: list[str]) -> int:
    if instruction := os.environ.get(COMPLETE):
        from click.shell_completion import shell_complete

        return shell_complete(program, {}, PROGRAM, COMPLETE, instruction)
    try:
        with program.make_context(PROGRAM, words) as ctx:
            return program.invoke(ctx) or OK
    except click.exceptions.Exit as end:  # after --help or --version
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        if error.ctx:
            print(error.ctx.get_help(), file=sys.stderr)
        return USAGE
    except click.UsageError as error:
        raise _usage_error(error) from None


class Program(Group):
    """The group of all commands, which imports the module of a command when that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the table."""
        return list(BY_NAME)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command."""
        entry = BY_NAME.get(name)
        return load(entry) if entry else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with its line of the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.help) for entry in BY_NAME.values()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer commands and options, without importing anything."""
        from click.shell_completion import CompletionItem

        names = [entry for entry in BY_NAME.values() if entry.name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(entry.name, help=entry.help) for entry in names), *options]


def load(entry: CommandEntry) -> click.Command:
    """Import a command; where its module or a package is missing, one that raises CommandMissing when run."""
    try:
        found = vars(importlib.import_module(entry.module)).values()
    except ModuleNotFoundError as error:
        return _missing(entry, error.name or "")
    return next(one for one in found if isinstance(one, click.Command) and one.name == entry.name)


def _missing(entry: CommandEntry, module: str) -> Command:
    def fail(args: object) -> int:
        if entry.module == module or entry.module.startswith(module + "."):
            raise CommandMissing(f'the command "{entry.name}" is not part of this installation')
        raise CommandMissing(
            f'the command "{entry.name}" needs the package "{module}", which is not installed',
            hint="Reinstall Distributary: pip install --upgrade distributary",
        )

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    text = f"{entry.help}.\n\nThis command is not part of this installation."
    return Command(entry.name, callback=fail, help=text, context_settings=anything)


def _usage_error(error: click.UsageError) -> UsageError:
    """Say what click found in our form: no capital, no full stop, and a hint."""
    message, ctx = error.format_message(), error.ctx
    near: list[str] = []
    if isinstance(error, click.NoSuchCommand | click.NoSuchOption):
        message, near = error.message, error.possibilities or []
    hint = f"See: {ctx.command_path} --help" if ctx else ""
    if near:
        hint = f'Did you mean "{near[0]}"?'
    elif ctx and isinstance(error, click.NoSuchCommand) and isinstance(ctx.command, Group):
        hint = f"There are: {', '.join(ctx.command.list_commands(ctx))}"
    return UsageError(message[:1].lower() + message[1:].rstrip("."), hint=hint)


def _report(error: Exception, *, as_json: bool) -> None:
    """Print an error on stderr: each line of its message after the program's name, then its hint."""
    if isinstance(error, DistributaryError):
        message, hint, code, retry = error.message, error.hint, error.code, error.retry
    else:
        message = f"unexpected {type(error).__name__}: {error}"
        hint, code, retry = "Run it again with --debug to see where, and report it", "internal", False
    if as_json:
        body: dict[str, object] = {"code": code, "message": message, "hint": hint, "retry": retry}
        if isinstance(error, ConfigError):
            fields = ("file", "line", "key", "message", "nearest")
            body["problems"] = [{name: getattr(p, name) for name in fields} for p in error.problems]
        print(json.dumps({"error": body}, ensure_ascii=False), file=sys.stderr)
        return
    for line in message.splitlines() or [""]:
        print(f"{PROGRAM}: {line}", file=sys.stderr)
    if hint:
        print(hint.rstrip("\n"), file=sys.stderr)


def _status(error: Exception) -> int:
    """The exit status of an error; a missing module is not a mistake in the command line."""
    if isinstance(error, CommandMissing):
        return FAILED
    return USAGE if isinstance(error, ConfigError | UsageError) else FAILED


def _close_stdout() -> None:
    """Keep the interpreter from flushing into the closed pipe at exit."""
    # Where stdout has no file descriptor (a test's buffer) there is nothing to flush.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def version() -> str:
    """The installed version, or "unknown" in a source tree that is not installed."""
    from importlib import metadata

    try:
        return metadata.version(PROGRAM)
    except metadata.PackageNotFoundError:
        return "unknown"


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        print(f"{PROGRAM} {version()}")
        ctx.exit()


program = Program(
    PROGRAM,
    help="Streams from Kafka, reduced by Spark, to every subscriber: live, in order, with nothing lost.",
    subcommand_metavar="COMMAND …",
    context_settings={"max_content_width": 110},
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="print the version",
        )
    ],
    examples=(
        "distributary up                     run the stack that distributary.toml describes",
        "distributary config                 check distributary.toml",
        "distributary help settings          list every setting",
    ),
)
"""The command line as a whole."""
