"""``distributary users``: command lines that are refused without asking Kafka."""

from __future__ import annotations

import io

import pytest

from distributary.cli.main import main

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["add", "ann", "--iterations", "1"], "expected 4096 to 16384"),
        (["add", "User:ann"], "Give the name alone: ann"),
        (["add", " ann"], "is not a valid user name"),
        (["add", ""], "is not a valid user name"),
        (["add", "ann", "--password-stdin"], "standard input contains no password"),
    ],
)
def test_wrong_command_line_is_refused(
    words: list[str], printed: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert main(["users", *words, "--bootstrap-server", "127.0.0.1:1"]) == 2
    assert printed in capsys.readouterr().err


@pytest.mark.parametrize("text", ["one\ntwo\n", "x" * 2000])
def test_password_must_be_one_line(text: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["users", "add", "ann", "--password-stdin", "--bootstrap-server", "127.0.0.1:1"]) == 2
    assert "must be one line" in capsys.readouterr().err
