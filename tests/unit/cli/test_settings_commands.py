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


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("config", ["Usage: distributary config", "Examples:"]),
        ("up", ["Usage: distributary up"]),
        ("setup", ["Usage: distributary setup"]),
        ("kafka", ["kafka.port = 9092", "kafka.memory"]),
        ("views", ["views.<name>.ttl = not set"]),
        ("kafka.port", ["DISTRIBUTARY_KAFKA_PORT", "1 to 65535", "9092"]),
        ("views.ttl", ["DISTRIBUTARY_VIEWS_<NAME>_TTL", 'ttl = "1h"']),
        ("kafka.bootstrap_servers", ["also written  bootstrap.servers"]),
        ("DISTRIBUTARY_SPARK_ENGINE", ["spark.engine", "auto, realtime, microbatch"]),
    ],
)
def test_help_explains_commands_sections_and_settings(capsys: Captured, topic: str, words: list[str]) -> None:
    assert main(["help", topic]) == 0
    out = capsys.readouterr().out
    for word in words:
        assert word in out


def test_help_of_a_section_lists_only_its_settings(capsys: Captured) -> None:
    assert main(["help", "control"]) == 0
    assert "kafka." not in capsys.readouterr().out


def test_help_without_a_topic_is_that_of_the_program(capsys: Captured) -> None:
    assert main(["help"]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_unknown_topic_is_an_error_with_the_nearest_name(capsys: Captured) -> None:
    assert main(["help", "kafka.prot"]) == 2
    assert 'Did you mean "kafka.port"?' in capsys.readouterr().err


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and no variable of the caller's."""
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_config_prints_settings_with_their_sources(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("distributary.toml").write_text(EXAMPLE + '[store]\nurl = "redis://:hunter2@h"\n')
    monkeypatch.setenv("DISTRIBUTARY_KAFKA_PORT", "9192")
    assert main(["config"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert ["kafka.port", "9192", "DISTRIBUTARY_KAFKA_PORT"] in lines
    assert ["store.port", "6379", "default"] in lines
    assert ["views.odds.key", '"market_id"', "distributary.toml:9"] in lines
    assert f"\n{folder}/distributary.toml: valid; 1 feed, 1 view\n" in out
    assert "hunter2" not in out


def test_config_prints_settings_as_json(folder: Path, capsys: Captured) -> None:
    Path("other.toml").write_text(
        '[store]\nurl = "redis://:hunter2@h"\n[publisher]\nping_interval = "10 s"\n'
    )
    assert main(["config", "--json", "--config", "other.toml"]) == 0
    out = capsys.readouterr().out
    assert "hunter2" not in out
    body = json.loads(out)
    assert body["file"] == str(folder / "other.toml")
    rows = {row.pop("key"): row for row in body["settings"]}
    assert rows["publisher.ping_interval"] == {"value": 10.0, "from": "file", "source": "other.toml:4"}
    assert rows["kafka.port"] == {"value": 9092, "from": "default", "source": ""}


def test_file_with_secrets_that_others_can_read_is_reported(folder: Path, capsys: Captured) -> None:
    file = folder / "distributary.toml"
    file.write_text('[store]\nurl = "redis://:hunter2@h"\n')
    file.chmod(0o644)
    assert main(["config"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"warning: {file} contains secrets (store.url)")
    assert main(["config", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exposed"] == ["store.url"]
    file.chmod(0o600)
    assert main(["config"]) == 0
    assert "warning" not in capsys.readouterr().out


def test_mistakes_are_printed_one_a_line(capsys: Captured) -> None:
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


def test_missing_file_is_an_error_with_an_example(folder: Path, capsys: Captured) -> None:
    assert main(["config"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"distributary: configuration file {folder}/distributary.toml not found\n")
    assert EXAMPLE.strip() in err


@pytest.mark.parametrize("words", [["config", "--help"], ["help", "settings"]])
def test_help_lists_every_setting(capsys: Captured, words: list[str]) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    for setting in SETTINGS:
        assert f"  {setting.key} = " in out
