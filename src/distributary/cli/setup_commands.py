"""The commands that prepare a machine and a shell: ``distributary setup`` and ``distributary completion``."""

from __future__ import annotations

import click

from distributary.cli.command_line import COMPLETE, PROGRAM, Args, command
from distributary.errors import UsageError

_SHELLS = ("bash", "zsh", "fish")


@command(
    "setup",
    details="Finds or downloads Java 17 or newer, the Kafka and Spark jars and a store server, and creates a "
    "class archive with which Spark starts faster.\n\n"
    "Environment: DISTRIBUTARY_CACHE (the folder of the jars), DISTRIBUTARY_STORE_SERVER (the store server "
    "to use), DISTRIBUTARY_IVY_SETTINGS (an Ivy settings file, for a mirror), JAVA_HOME.",
    examples=("distributary setup", "distributary setup --json          one JSON object"),
)
def setup_command(args: Args) -> int:
    """Run `python -m distributary.setup`."""
    from distributary.setup.__main__ import main

    return main(["--json"] if args.json else [])


@command(
    "completion",
    examples=(
        'eval "$(distributary completion bash)"                  in ~/.bashrc',
        'eval "$(distributary completion zsh)"                   in ~/.zshrc, after compinit',
        "distributary completion fish > ~/.config/fish/completions/distributary.fish",
    ),
)
@click.argument("shell", required=False, metavar="SHELL", help=", ".join(_SHELLS))
@click.pass_context
def completion_command(ctx: click.Context, args: Args) -> int:
    """Print the script of a shell."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(args.shell) if args.shell in _SHELLS else None
    if kind is None:
        raise UsageError("which shell?", hint=f"There are: {', '.join(_SHELLS)}")
    print(kind(ctx.find_root().command, {}, PROGRAM, COMPLETE).source())
    return 0
