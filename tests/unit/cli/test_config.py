from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from distributary.cli.main import main
from distributary.config import EXAMPLE
from distributary.config.setting_field import PREFIX
from distributary.config.settings_table import SETTINGS

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and no variable of the caller's."""
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_settings_with_their_origins(folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("distributary.toml").write_text(EXAMPLE + '[store]\nurl = "redis://:hunter2@h"\n')
    monkeypatch.setenv("DISTRIBUTARY_KAFKA_PORT", "9192")
    assert main(["config"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert ["kafka.port", "9192", "DISTRIBUTARY_KAFKA_PORT"] in lines
    assert ["store.port", "6379", "default"] in lines
    assert ["views.odds.key", '"market_id"', "distributary.toml:9"] in lines
    assert f"\n{folder}/distributary.toml: good; 1 feed, 1 view\n" in out
    assert "hunter2" not in out


def test_json(folder: Path, capsys: Captured) -> None:
    Path("other.toml").write_text(
        '[store]\nurl = "redis://:hunter2@h"\n[publisher]\nping_interval = "10 s"\n'
    )
    assert main(["config", "--json", "--config", "other.toml"]) == 0
    out = capsys.readouterr().out
    assert "hunter2" not in out
    body = json.loads(out)
    assert body["file"] == str(folder / "other.toml")
    rows = {row.pop("key"): row for row in body["settings"]}
    assert rows["publisher.ping_interval"] == {"value": 10.0, "from": "file", "place": "other.toml:4"}
    assert rows["kafka.port"] == {"value": 9092, "from": "default", "place": ""}


def test_a_file_with_secrets_that_others_can_read_is_warned_of(folder: Path, capsys: Captured) -> None:
    file = folder / "distributary.toml"
    file.write_text('[store]\nurl = "redis://:hunter2@h"\n')
    file.chmod(0o644)
    assert main(["config"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"warning: {file} holds secrets (store.url)")
    assert main(["config", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exposed"] == ["store.url"]
    file.chmod(0o600)
    assert main(["config"]) == 0
    assert "warning" not in capsys.readouterr().out


def test_mistakes_one_a_line(capsys: Captured) -> None:
    Path("distributary.toml").write_text("[kafka]\nprot = 1\nport = 0\n")
    assert main(["config"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        'distributary: distributary.toml:2: kafka.prot: unknown key (did you mean "port"?)',
        "distributary: distributary.toml:3: kafka.port: expected 1 to 65535, got 0",
    ]
    assert main(["config", "--json"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["code"] == "config"
    assert error["problems"][0] == {
        "file": "distributary.toml",
        "line": 2,
        "key": "kafka.prot",
        "message": "unknown key",
        "nearest": "port",
    }


def test_a_missing_file(folder: Path, capsys: Captured) -> None:
    assert main(["config"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"distributary: there is no configuration file {folder}/distributary.toml\n")
    assert EXAMPLE.strip() in err


@pytest.mark.parametrize("words", [["config", "--help"], ["help", "settings"]])
def test_help_has_every_setting(capsys: Captured, words: list[str]) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    for setting in SETTINGS:
        assert f"  {setting.key} = " in out
