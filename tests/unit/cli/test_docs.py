"""The pages that are made from the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.cli.commands import COMMANDS
from distributary.config.settings_table import SETTINGS
from distributary.docgen import commands_page, settings_page
from distributary.docgen.__main__ import PAGES, main


def test_every_setting_is_on_the_page() -> None:
    page = settings_page.page()
    for setting in SETTINGS:
        assert f"### `{setting.key}`\n\n{setting.note.doc}\n" in page
        assert setting.name == "name" or f"- Environment: `{setting.env}`\n" in page


def test_every_command_is_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    page = commands_page.page()
    for command in COMMANDS:
        assert f"## distributary {command.name}\n" in page
    monkeypatch.setenv("COLUMNS", "40")
    assert commands_page.page() == page, "the page must not depend on the terminal"


def test_write_then_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--root", str(tmp_path)]
    assert main([*words, "--check"]) == 1
    assert not list(tmp_path.iterdir()), "--check writes nothing"
    assert main(words) == 0
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.md")) == sorted(PAGES)
    assert main([*words, "--check"]) == 0
    page = tmp_path / "docs/reference/configuration.md"
    page.write_text(page.read_text() + "edited\n")
    capsys.readouterr()
    assert main([*words, "--check"]) == 1
    assert "configuration.md differs" in capsys.readouterr().err
