"""The program ``distributary``: finds the command, runs it, and turns every error into one line.

Exit status: 0 done, 1 an error, 2 a wrong configuration or command line, 130 interrupted, 141 the
reader of our output went away.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Sequence

from distributary.cli.command_line import PROGRAM, command_parser, program_parser
from distributary.cli.commands import BY_NAME, Command, load
from distributary.errors import CommandMissing, ConfigError, DistributaryError, UsageError

OK, FAILED, USAGE, INTERRUPTED, PIPE = 0, 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and give its exit status; raises nothing, prints no trace (but with ``--debug``)."""
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
    except SystemExit as end:  # argparse, after --help or a usage message
        return end.code if isinstance(end.code, int) else FAILED if end.code else OK
    except Exception as error:
        if "--debug" in words:
            import traceback

            traceback.print_exc()
        _report(error, as_json="--json" in words)
        return _status(error)


def _run(words: list[str]) -> int:
    place = _command_place(words)
    parser = program_parser()
    args = parser.parse_args(words[:place])
    if args.version:
        print(f"{PROGRAM} {version()}")
        return OK
    if place == len(words):
        parser.print_help(sys.stderr)
        return USAGE
    command = BY_NAME.get(words[place])
    if command is None:
        raise _no_command(words[place])
    return _dispatch(command, words[place + 1 :], args)


def _dispatch(command: Command, words: list[str], args: argparse.Namespace) -> int:
    try:
        module = load(command)
    except CommandMissing:
        if "-h" in words or "--help" in words:
            command_parser(command, None).print_help()
            return OK
        raise
    if command.main:
        if args.json and "--json" not in words:
            words = ["--json", *words]
        status: int = module.main(words)  # type: ignore[attr-defined]
        return status
    words = getattr(module, "habits", list)(words)
    command_parser(command, module).parse_args(words, args)
    return module.run(args)


def _command_place(words: list[str]) -> int:
    """Find the first word that is neither an option nor ``--config``'s file."""
    place = 0
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] == "--config" else 1
    return min(place, len(words))


def _no_command(word: str) -> UsageError:
    import difflib

    near = difflib.get_close_matches(word, BY_NAME, 1, 0.5)
    hint = f'Did you mean "{near[0]}"?' if near else f"There are: {', '.join(BY_NAME)}"
    return UsageError(f'there is no command "{word}"', hint=hint)


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
            places = ("file", "line", "key", "message", "nearest")
            body["problems"] = [{name: getattr(p, name) for name in places} for p in error.problems]
        print(json.dumps({"error": body}, ensure_ascii=False), file=sys.stderr)
        return
    for line in message.splitlines() or [""]:
        print(f"{PROGRAM}: {line}", file=sys.stderr)
    if hint:
        print(hint.rstrip("\n"), file=sys.stderr)


def _status(error: Exception) -> int:
    """A missing module is no mistake in the command line: it fails, with nothing for the user to correct."""
    if isinstance(error, CommandMissing):
        return FAILED
    return USAGE if isinstance(error, ConfigError | UsageError) else FAILED


def _close_stdout() -> None:
    """Keep the interpreter from flushing into the closed pipe at its end."""
    # Where stdout is no file of the system (a test's buffer) there is nothing to flush.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def version() -> str:
    """The installed version, or "unknown" in a source tree that is not installed."""
    from importlib import metadata

    try:
        return metadata.version(PROGRAM)
    except metadata.PackageNotFoundError:
        return "unknown"
