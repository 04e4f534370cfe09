"""What our commands add to click's: common options, examples in the help, one object with all values."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from distributary.cli.commands import BY_NAME
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.config import Config

PROGRAM = "distributary"

COMPLETE = "_DISTRIBUTARY_COMPLETE"
"""The environment variable by which a completion script asks for completions."""

_COMMON = "Common options"

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Args(SimpleNamespace):
    """The values of a command's options and arguments by name, with those of the common options."""

    config: Path | None
    json: bool
    debug: bool


class Option(click.Option):
    """An option that is shown under a heading of its own in the help."""

    def __init__(self, *names: Any, section: str = "Options", **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.section = section


class _Documented(click.Command):
    """What commands and groups share.

    ``examples`` end the help. ``renamed`` maps options of Kafka's own tools to ours.
    """

    def __init__(
        self,
        name: str | None,
        *,
        examples: Sequence[str] = (),
        renamed: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(name, **settings)
        self.examples = examples
        self.renamed = renamed or {}
        self.params += _common_options()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Replace the options of Kafka's own tools, then parse."""
        return super().parse_args(ctx, [self.renamed.get(word, word) for word in args])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the actions of a group, then the options by their headings."""
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections.setdefault(getattr(param, "section", "Options"), []).append(record)
        for name, rows in sections.items():
            with formatter.section(name):
                formatter.write_dl(rows, col_max=26)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples; for an action those of its group that use it."""
        examples = self.examples
        if ctx.parent and isinstance(ctx.parent.command, _Documented) and not examples:
            examples = [line for line in ctx.parent.command.examples if ctx.info_name in line.split()]
        if examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in examples))


class Command(_Documented):
    """A command; its function gets one Args and returns the exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function with one Args."""
        assert self.callback is not None
        return ctx.invoke(self.callback, Args(**ctx.params, **ctx.obj))


class Group(_Documented, click.Group):
    """A command with actions, in the order in which they are defined."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of their definition."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each action with the first sentence of its help."""
        with formatter.section("Actions"):
            formatter.write_dl([(name, one.get_short_help_str(200)) for name, one in self.commands.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the action that comes first in the arguments."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # which knows no names that are loaded on demand
            raise click.NoSuchCommand(
                error.command_name, possibilities=self.list_commands(ctx), ctx=ctx
            ) from None


def combine(*decorators: Callable[[Any], Any]) -> Callable[[Decorated], Decorated]:
    """Make one decorator of several options, in the order in which the help shows them."""

    def decorate(function: Decorated) -> Decorated:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def command(
    name: str, *, details: str = "", cls: type[Command] = Command, **settings: Any
) -> Callable[[Callable[..., int]], Command]:
    """Define a command of the table; ``details`` follow its line in the help."""
    return click.command(name, cls=cls, help=_help(name, details), **settings)


def group(name: str, *, details: str = "", cls: type[Group] = Group, **settings: Any) -> Group:
    """Define a command of the table that has actions."""
    return cls(name, help=_help(name, details), subcommand_metavar="ACTION …", **settings)


def _help(name: str, details: str) -> str:
    line = f"{BY_NAME[name].help}."
    return f"{line}\n\n{details}" if details else line


def _common_options() -> list[click.Parameter]:
    """The options that may be given before the command's name or after it; the last one counts."""

    def store(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        common = ctx.ensure_object(dict)  # of the program; the contexts of its commands share it
        if value or param.name not in common:
            common[param.name] = value

    def print_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()

    def common(*names: str, callback: Callable[..., None] = store, **settings: Any) -> Option:
        return Option(names, section=_COMMON, expose_value=False, callback=callback, **settings)

    default = "default: DISTRIBUTARY_CONFIG, else ./distributary.toml"
    return [
        common(
            "--config",
            help=f"the configuration file ({default})",
            type=click.Path(path_type=Path),
            metavar="FILE",
        ),
        common("--json", is_flag=True, help="print JSON, also for errors"),
        common("--debug", is_flag=True, help="print the Python traceback of an error"),
        common("-h", "--help", callback=print_help, is_flag=True, is_eager=True, help="print this help"),
    ]


def check_exclusive(args: Args, *options: str, required: bool = False) -> None:
    """Raise UsageError when several of the options are given, or with ``required`` none of them."""
    values = {option: getattr(args, option[2:].replace("-", "_")) for option in options}
    given = [option for option, value in values.items() if value is not None and value is not False]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} exclude each other", hint="Leave one of them out")
    if required and not given:
        raise UsageError(f"one of these is required: {', '.join(options)}")


def load_config(args: Args, overrides: Mapping[str, str] | None = None, *, required: bool = True) -> Config:
    """Load the configuration of a command line; ConfigError as `distributary.config.load` raises it."""
    from distributary.config import load

    return load(args.config, overrides=overrides or {}, required=required)


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
