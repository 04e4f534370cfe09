from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from distributary.cli import commands
from distributary.cli.commands import COMMANDS, Command
from distributary.cli.main import main
from distributary.errors import ConfigError, DistributaryError

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A command "probe" whose `run` a test may replace."""
    module = types.ModuleType("probe_command")
    module.__dict__.update(
        NAME="probe",
        HELP="probe",
        EXAMPLES=("distributary probe",),
        add=lambda parser: parser.add_argument("--n", type=int),
        run=lambda args: 0,
    )
    monkeypatch.setitem(sys.modules, "probe_command", module)
    monkeypatch.setitem(commands.BY_NAME, "probe", Command("probe", "probe", "probe_command"))
    return module


def raising(error: BaseException) -> object:
    def run(args: object) -> int:
        raise error

    return run


def test_the_commands_in_their_order() -> None:
    names = [command.name for command in COMMANDS]
    kafka = "topics produce consume groups quotas configs acls users records reassign worker plan"
    words = f"up demo gateway status view subscribe token tls {kafka} socketio config setup completion help"
    assert names == words.split()


def test_help_lists_every_command_and_imports_none(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for command in COMMANDS:
        assert f"  {command.name:<11} {command.help}" in out
    assert "examples:" in out
    code = "import sys; from distributary.cli.main import main; main(['--help']); print(sorted(sys.modules))"
    seen = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    for module in ("distributary.config", "distributary.cli.config", "distributary.setup", "rich", "pyspark"):
        assert f"'{module}'" not in seen


def test_help_is_quick() -> None:
    def once() -> float:
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "distributary.cli", "--help"], stdout=subprocess.DEVNULL, check=True
        )
        return time.perf_counter() - begin

    def bare() -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", ""], check=True)
        return time.perf_counter() - begin

    # Against the interpreter's own start, so that a busy machine does not decide.
    assert min(once() for _ in range(5)) < 0.150 + min(bare() for _ in range(5))


def test_no_command_prints_help_and_fails(capsys: Captured) -> None:
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "hint"), [("confg", 'Did you mean "config"?'), ("zzz", "There are: up, demo,")]
)
def test_unknown_command(capsys: Captured, word: str, hint: str) -> None:
    assert main([word]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f'distributary: there is no command "{word}"\n{hint}')


def test_version(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("distributary ")


def test_a_command_that_is_not_there_has_help_and_a_clear_error(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Command("later", "comes later", "distributary.cli.later")
    monkeypatch.setitem(commands.BY_NAME, "later", missing)
    assert main(["later", "--help"]) == 0
    assert "Comes later." in capsys.readouterr().out
    assert main(["later"]) == 1
    assert capsys.readouterr().err == 'distributary: the command "later" is not part of this installation\n'


def test_a_command_whose_package_is_missing_says_which(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "needy_command.py").write_text("import no_such_package_here\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(commands.BY_NAME, "needy", Command("needy", "needs", "needy_command"))
    assert main(["needy"]) == 1
    assert 'needs the package "no_such_package_here"' in capsys.readouterr().err


def test_common_options_before_or_after_the_command(command: types.ModuleType) -> None:
    seen = []
    command.run = lambda args: seen.append((args.config, args.json, args.n)) or 0  # type: ignore[attr-defined,func-returns-value]
    assert main(["--config", "a.toml", "--json", "probe", "--n", "1"]) == 0
    assert main(["probe", "--n", "1", "--json", "--config=a.toml"]) == 0
    assert main(["--config=a.toml", "probe", "--n", "1", "--json"]) == 0
    assert main(["probe"]) == 0
    assert seen == [(Path("a.toml"), True, 1)] * 3 + [(None, False, None)]


@pytest.mark.parametrize(
    ("error", "status", "err"),
    [
        (DistributaryError("it broke", hint="Mend it"), 1, "distributary: it broke\nMend it\n"),
        (ConfigError("a: one\nb: two"), 2, "distributary: a: one\ndistributary: b: two\n"),
        (ValueError("oops"), 1, "distributary: unexpected ValueError: oops\nRun it again with --debug"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
        (SystemExit(5), 5, ""),
    ],
)
def test_errors_become_lines_and_statuses(
    command: types.ModuleType, capsys: Captured, error: BaseException, status: int, err: str
) -> None:
    command.run = raising(error)  # type: ignore[attr-defined]
    assert main(["probe"]) == status
    said = capsys.readouterr().err
    assert said.startswith(err) if err else said == ""
    assert "Traceback" not in said


def test_debug_shows_the_trace(command: types.ModuleType, capsys: Captured) -> None:
    command.run = raising(ValueError("oops"))  # type: ignore[attr-defined]
    assert main(["probe", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_errors_as_json(command: types.ModuleType, capsys: Captured) -> None:
    command.run = raising(DistributaryError("it broke", hint="Mend it"))  # type: ignore[attr-defined]
    assert main(["probe", "--json"]) == 1
    assert json.loads(capsys.readouterr().err) == {
        "error": {"code": "error", "message": "it broke", "hint": "Mend it", "retry": False}
    }


def test_wrong_arguments(command: types.ModuleType, capsys: Captured) -> None:
    assert main(["probe", "--n", "x"]) == 2
    assert "invalid int value" in capsys.readouterr().err


def test_a_program_of_its_own_gets_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    module = types.ModuleType("own_program")
    module.main = lambda words: seen.append(words) or 3  # type: ignore[attr-defined,func-returns-value]
    monkeypatch.setitem(sys.modules, "own_program", module)
    monkeypatch.setitem(commands.BY_NAME, "own", Command("own", "own", "own_program", main=True))
    assert main(["own", "--help", "x"]) == 3
    assert main(["--json", "own"]) == 3
    assert seen == [["--help", "x"], ["--json"]]


@pytest.mark.parametrize("words", [["--version"], ["help", "settings"]], ids=["short", "long"])
def test_a_closed_pipe_is_quiet(words: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    argv = [sys.executable, "-m", "distributary.cli", *words]
    # With a buffer, as users have it: what is left in it must not be flushed at the end.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run(argv, stdout=write, stderr=subprocess.PIPE, env=env, timeout=30)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")
