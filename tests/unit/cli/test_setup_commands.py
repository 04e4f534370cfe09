from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.clock import LIMIT

from distributary.cli.commands import COMMANDS
from distributary.cli.main import main
from distributary.cli.setup_commands import candidates


def test_every_command_is_offered() -> None:
    assert candidates([""]) == sorted(command.name for command in COMMANDS)
    assert candidates([]) == candidates([""])
    assert candidates(["to"]) == ["token", "topics"]
    assert candidates(["--json", "gro"]) == ["groups"]


def test_actions_options_and_values() -> None:
    assert candidates(["topics", ""]) == ["alter", "create", "delete", "describe", "list"]
    assert "--replication-factor" in candidates(["topics", "create", "--re"])
    assert candidates(["topics", "create", "x", "--if-"]) == ["--if-not-exists"]
    assert candidates(["consume", "t", "--format", ""]) == ["base64", "hex", "json", "text"]
    assert candidates(["consume", "t", "--format", "h"]) == ["hex"]
    assert "--topic" not in candidates(["topics", "create", "--"]), "what is for old habits is not offered"
    for words in (["nothing", ""], ["topics", "create", ""], ["setup", "--"], ["produce", "t", "-f", ""]):
        assert candidates(words) == []


def test_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert "distributary completion --words" in capsys.readouterr().out
    assert main(["completion", "powershell"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err
    assert main(["completion", "--words", "topics", "create", "--dry"]) == 0
    assert capsys.readouterr().out == "--dry-run\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(tmp_path: Path) -> None:
    tool = tmp_path / "distributary"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m distributary.cli "$@"\n')
    tool.chmod(0o755)
    script = (
        f'PATH="{tmp_path}:$PATH"; eval "$(distributary completion bash)"; '
        "COMP_WORDS=(distributary groups re); COMP_CWORD=2; _distributary; echo ${COMPREPLY[@]}; "
        "complete -p distributary"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30 * LIMIT)
    assert done.stdout.splitlines()[0] == "reset", done.stderr
    assert "_distributary" in done.stdout
