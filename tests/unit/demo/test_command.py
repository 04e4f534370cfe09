"""The command line of ``distributary demo``."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.cli.main import main
from distributary.demo import demo_run
from distributary.demo.demo_run import Options


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    found: list[Options] = []

    async def fake(options: Options) -> None:
        found.append(options)

    monkeypatch.setattr(demo_run, "prepare", lambda options: None)
    monkeypatch.setattr(demo_run, "demo", fake)
    return found


def test_demo_without_arguments_uses_the_defaults(
    ran: list[Options], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    assert ran == [Options(None, tmp_path / ".distributary" / "demo", 60.0, 12, None, True, False)]


def test_demo_passes_on_every_argument(ran: list[Options]) -> None:
    words = ["--rate", "500", "--matches", "3", "--seconds", "9", "--no-board", "--fresh"]
    assert main(["demo", *words]) == 0
    assert ran == [Options(None, None, 500.0, 3, 9.0, False, False)]


@pytest.mark.parametrize("words", [("--rate", "0"), ("--matches", "0"), ("--seconds", "-1")])
def test_value_out_of_range_is_refused(
    ran: list[Options], words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *words]) == 2
    assert f"distributary: {words[0]} must be" in capsys.readouterr().err
    assert not ran
