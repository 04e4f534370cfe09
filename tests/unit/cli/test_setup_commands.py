from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from tests.support.clock import LIMIT

from distributary.cli.command_line import COMPLETE, PROGRAM
from distributary.cli.commands import COMMANDS
from distributary.cli.main import main, program


def candidates(words: list[str]) -> list[str]:
    """What click offers for the last word."""
    *before, last = words
    items = ShellComplete(program, {}, PROGRAM, COMPLETE).get_completions(before, last)
    return [item.value for item in items]


def test_every_command_is_offered() -> None:
    assert candidates([""]) == [command.name for command in COMMANDS]
    assert candidates(["to"]) == ["token", "topics"]
    assert candidates(["--json", "gro"]) == ["groups"]


def test_actions_options_and_values_are_offered() -> None:
    assert candidates(["topics", ""]) == ["create", "list", "describe", "alter", "delete"]
    assert "--replication-factor" in candidates(["topics", "create", "--re"])
    assert candidates(["topics", "create", "x", "--if-"]) == ["--if-not-exists"]
    assert candidates(["consume", "t", "--format", ""]) == ["text", "json", "hex", "base64"]
    assert candidates(["consume", "t", "--format", "h"]) == ["hex"]
    assert "--topic" not in candidates(["topics", "create", "--"]), (
        "options of Kafka's own tools are not offered"
    )
    assert candidates(["topics", "create", ""]) == []


def test_completion_prints_a_script_for_each_shell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert f"{COMPLETE}={shell}_complete" in capsys.readouterr().out
    assert main(["completion", "powershell"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err
    monkeypatch.setenv(COMPLETE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "distributary topics create --dry")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert main([]) == 0
    assert capsys.readouterr().out == "plain,--dry-run\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_an_action(tmp_path: Path) -> None:
    tool = tmp_path / "distributary"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m distributary.cli "$@"\n')
    tool.chmod(0o755)
    script = (
        f'PATH="{tmp_path}:$PATH"; eval "$(distributary completion bash)"; '
        "COMP_WORDS=(distributary groups re); COMP_CWORD=2; _distributary_completion distributary; "
        "echo ${COMPREPLY[@]}; "
        "complete -p distributary"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30 * LIMIT)
    assert done.stdout.splitlines()[0] == "reset", done.stderr
    assert "_distributary_completion" in done.stdout
