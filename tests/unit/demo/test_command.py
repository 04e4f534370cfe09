"""The command line of ``distributary demo``."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from distributary.cli import demo_command as command
from distributary.demo import demo_run
from distributary.demo.demo_run import Options
from distributary.errors import UsageError


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=command.HELP)
    command.add(parser)
    return parser.parse_args(words, argparse.Namespace(config=None, json=False))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    found: list[Options] = []

    async def fake(options: Options) -> None:
        found.append(options)

    monkeypatch.setattr(demo_run, "prepare", lambda options: None)
    monkeypatch.setattr(demo_run, "demo", fake)
    return found


def test_without_arguments(ran: list[Options], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.run(parse()) == 0
    assert ran == [Options(None, tmp_path / ".distributary" / "demo", 60.0, 12, None, True, False)]


def test_every_argument(ran: list[Options]) -> None:
    command.run(parse("--rate", "500", "--matches", "3", "--seconds", "9", "--no-board", "--fresh"))
    assert ran == [Options(None, None, 500.0, 3, 9.0, False, False)]


@pytest.mark.parametrize("words", [("--rate", "0"), ("--matches", "0"), ("--seconds", "-1")])
def test_what_makes_no_sense_is_refused(ran: list[Options], words: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match=words[0]):
        command.run(parse(*words))
    assert not ran
