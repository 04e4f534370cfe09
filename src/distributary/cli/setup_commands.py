"""``distributary completion``: what a shell needs to complete our words."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from distributary.cli.command_line import command_parser
from distributary.cli.commands import BY_NAME, COMMANDS, load
from distributary.errors import CommandMissing, UsageError

NAME = "completion"
HELP = "print what bash, zsh or fish needs to complete commands"
EXAMPLES = (
    'eval "$(distributary completion bash)"                  in ~/.bashrc',
    'eval "$(distributary completion zsh)"                   in ~/.zshrc, after compinit',
    "distributary completion fish > ~/.config/fish/completions/distributary.fish",
)

_BASH = """\
_distributary() {
    local IFS=$'\\n'
    COMPREPLY=($(distributary completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _distributary distributary
"""
_SCRIPTS = {
    "bash": _BASH,
    "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{_BASH}",
    "fish": "complete -c distributary -a '(distributary completion --words (commandline -opc)[2..-1] "
    "(commandline -ct) 2>/dev/null)'\n",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("shell", nargs="?", help=", ".join(_SCRIPTS))
    parser.add_argument("--words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Print the script, or what may stand where the last word is."""
    if args.words is not None:
        print("\n".join(candidates(args.words)))
        return 0
    if args.shell not in _SCRIPTS:
        raise UsageError("for which shell?", hint=f"There are: {', '.join(_SCRIPTS)}")
    print(_SCRIPTS[args.shell], end="")
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """What the last word may become, after the words before it; nothing where a file or a name is due."""
    *before, last = words or [""]
    places = [word for word in before if not word.startswith("-")]
    if not places:
        return _beginning([command.name for command in COMMANDS], last)
    command = BY_NAME.get(places[0])
    if command is None or command.main:
        return []
    try:
        parser = command_parser(command, load(command))
    except CommandMissing:
        return []
    actions = _subparsers(parser)
    if actions is not None:
        if len(places) == 1 and not last.startswith("-"):
            return _beginning(list(actions), last)
        parser = actions.get(places[1], parser) if len(places) > 1 else parser
    due = _due(parser, before[-1])
    if due is not None:
        return _beginning(due, last)
    return _beginning(_options(parser), last) if last.startswith("-") else []


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser] | None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return None


def _due(parser: argparse.ArgumentParser, word: str) -> list[str] | None:
    """The values that the option before may have; None where it is not an option that takes one."""
    for action in parser._actions:
        if word in action.option_strings and action.nargs != 0:
            return [str(choice) for choice in action.choices or ()]
    return None


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [
        option
        for action in parser._actions
        if action.help is not argparse.SUPPRESS
        for option in action.option_strings
        if option.startswith("--")
    ]


def _beginning(words: Sequence[str], text: str) -> list[str]:
    return sorted(word for word in words if word.startswith(text))
