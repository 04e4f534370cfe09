from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from distributary.cli import commands
from distributary.cli.command_line import Command
from distributary.cli.commands import COMMANDS, CommandEntry
from distributary.cli.main import load, main
from distributary.errors import ConfigError, DistributaryError

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command "probe" whose callback a test may replace."""
    probe = Command("probe", params=[click.Option(["--n"], type=int)], callback=lambda args: 0)
    module = types.ModuleType("probe_command")
    module.__dict__["probe"] = probe
    monkeypatch.setitem(sys.modules, "probe_command", module)
    monkeypatch.setitem(commands.BY_NAME, "probe", CommandEntry("probe", "Probe", "probe_command"))
    return probe


def raising(error: BaseException) -> Callable[[object], int]:
    def run(args: object) -> int:
        raise error

    return run


def test_commands_have_their_order() -> None:
    names = [command.name for command in COMMANDS]
    kafka = "topics produce consume groups quotas configs acls users records reassign worker plan"
    words = f"up demo gateway status view subscribe token tls {kafka} socketio config setup completion help"
    assert names == words.split()


def test_help_lists_every_command_and_imports_none(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for command in COMMANDS:
        assert f"  {command.name:<11} {command.help}" in out
    assert "Examples:" in out
    code = "import sys; from distributary.cli.main import main; main(['--help']); print(sorted(sys.modules))"
    imported = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    for module in (
        "distributary.config",
        "distributary.cli.settings_commands",
        "distributary.setup",
        "rich",
        "pyspark",
    ):
        assert f"'{module}'" not in imported


def test_help_is_quick() -> None:
    def processor_time(*words: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Processor time, and against the interpreter's own start, so that a busy machine does not decide.
    quickest = min(processor_time("-m", "distributary.cli", "--help") for _ in range(5))
    assert quickest < 0.150 + min(processor_time("-c", "") for _ in range(5))


def test_no_command_prints_help_and_fails(capsys: Captured) -> None:
    assert main([]) == 2
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "hint"), [("confg", 'Did you mean "config"?'), ("zzz", "There are: up, demo,")]
)
def test_unknown_command_is_an_error_with_the_nearest_name(capsys: Captured, word: str, hint: str) -> None:
    assert main([word]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"distributary: no such command '{word}'\n{hint}")


def test_version_is_printed(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("distributary ")


def test_missing_command_has_help_and_a_clear_error(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = CommandEntry("later", "Comes later", "distributary.cli.later")
    monkeypatch.setitem(commands.BY_NAME, "later", missing)
    assert main(["later", "--help"]) == 0
    assert "Comes later." in capsys.readouterr().out
    assert main(["later"]) == 1
    assert capsys.readouterr().err == 'distributary: the command "later" is not part of this installation\n'


def test_command_with_a_missing_package_names_it(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "needy_command.py").write_text("import no_such_package_here\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(commands.BY_NAME, "needy", CommandEntry("needy", "Needs", "needy_command"))
    assert main(["needy"]) == 1
    assert 'needs the package "no_such_package_here"' in capsys.readouterr().err


def test_common_options_are_accepted_before_and_after_the_command(command: Command) -> None:
    calls = []
    command.callback = lambda args: calls.append((args.config, args.json, args.n)) or 0  # type: ignore[func-returns-value]
    assert main(["--config", "a.toml", "--json", "probe", "--n", "1"]) == 0
    assert main(["probe", "--n", "1", "--json", "--config=a.toml"]) == 0
    assert main(["--config=a.toml", "probe", "--n", "1", "--json"]) == 0
    assert main(["probe"]) == 0
    assert calls == [(Path("a.toml"), True, 1)] * 3 + [(None, False, None)]


@pytest.mark.parametrize(
    ("error", "status", "err"),
    [
        (DistributaryError("it broke", hint="Fix it"), 1, "distributary: it broke\nFix it\n"),
        (ConfigError("a: one\nb: two"), 2, "distributary: a: one\ndistributary: b: two\n"),
        (ValueError("oops"), 1, "distributary: unexpected ValueError: oops\nRun it again with --debug"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
        (SystemExit(5), 5, ""),
    ],
)
def test_error_becomes_a_line_and_an_exit_status(
    command: Command, capsys: Captured, error: BaseException, status: int, err: str
) -> None:
    command.callback = raising(error)
    assert main(["probe"]) == status
    printed = capsys.readouterr().err
    assert printed.startswith(err) if err else printed == ""
    assert "Traceback" not in printed


def test_debug_prints_the_traceback(command: Command, capsys: Captured) -> None:
    command.callback = raising(ValueError("oops"))
    assert main(["probe", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_errors_are_json_with_the_option_json(command: Command, capsys: Captured) -> None:
    command.callback = raising(DistributaryError("it broke", hint="Fix it"))
    assert main(["probe", "--json"]) == 1
    assert json.loads(capsys.readouterr().err) == {
        "error": {"code": "error", "message": "it broke", "hint": "Fix it", "retry": False}
    }


def test_wrong_arguments_are_named_with_the_nearest_option(command: Command, capsys: Captured) -> None:
    assert main(["probe", "--n", "x"]) == 2
    assert "'--n': 'x' is not a valid integer\nSee: distributary probe --help\n" in capsys.readouterr().err
    assert main(["probe", "--jsn"]) == 2
    assert capsys.readouterr().err == ("distributary: no such option '--jsn'\nDid you mean \"--json\"?\n")
    assert main(["probe", "--json", "x"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert (error["code"], error["message"]) == ("usage", "got unexpected extra argument (x)")


def test_setup_gets_the_option_json(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def setup(words: list[str]) -> int:
        calls.append(words)
        return 3

    monkeypatch.setattr("distributary.setup.__main__.main", setup)
    assert main(["setup"]) == 3
    assert main(["--json", "setup"]) == 3
    assert calls == [[], ["--json"]]


@pytest.mark.parametrize("words", [["--version"], ["help", "settings"]], ids=["short", "long"])
def test_closed_pipe_ends_the_program_silently(words: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    argv = [sys.executable, "-m", "distributary.cli", *words]
    # With a buffer, as users have it: what is left in it must not be flushed at the end.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run(argv, stdout=write, stderr=subprocess.PIPE, env=env, timeout=30)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_command_of_the_table_has_its_help_and_examples(entry: CommandEntry) -> None:
    command = load(entry)
    assert (command.help or "").startswith(f"{entry.help}.")
    examples = getattr(command, "examples", ())
    assert examples
    assert all("distributary" in line for line in examples)


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_option_and_argument_is_explained(entry: CommandEntry) -> None:
    command = load(entry)
    for one in [command, *(command.commands.values() if isinstance(command, click.Group) else ())]:
        for param in one.params:
            shown = isinstance(param, click.Argument) or not getattr(param, "hidden", False)
            assert not shown or param.help, f"{one.name} {param.name}"
