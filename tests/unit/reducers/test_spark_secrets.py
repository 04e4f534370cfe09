from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

import pytest

from distributary.reducers.spark_secrets import VARIABLE, handed_over, split_secrets


def file_of(arguments: str) -> Path:
    words = shlex.split(arguments)
    assert words[0] == "--properties-file"
    return Path(words[1])


def test_secrets_are_told_from_what_may_be_seen() -> None:
    shown, secret = split_secrets(
        {
            "spark.ui.enabled": "true",
            "spark.executor.memory": "4g",
            "spark.driver.extraJavaOptions": "-Dx=y z",
            "spark.hadoop.fs.s3a.secret.key": "hunter2",
            "spark.vendor.auth": "hunter2",
        }
    )
    assert set(shown) == {"spark.ui.enabled", "spark.executor.memory", "spark.driver.extraJavaOptions"}
    assert secret == {"spark.hadoop.fs.s3a.secret.key": "hunter2", "spark.vendor.auth": "hunter2"}


def test_file_is_ours_alone_and_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "--verbose pyspark-shell")
    with handed_over({"spark.a": "hunter2"}):
        arguments = os.environ[VARIABLE]
        file = file_of(arguments)
        assert "hunter2" not in arguments
        assert arguments.endswith("--verbose pyspark-shell")
        assert file.read_text() == "spark.a=hunter2\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not file.exists()
    assert os.environ[VARIABLE] == "--verbose pyspark-shell"


def test_file_is_gone_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)

    def fail() -> None:
        with handed_over({"spark.a": "hunter2"}):
            files.append(file_of(os.environ[VARIABLE]))
            raise RuntimeError

    files: list[Path] = []
    with pytest.raises(RuntimeError):
        fail()
    assert not files[0].exists()
    assert VARIABLE not in os.environ


def test_values_are_written_as_java_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with handed_over({"spark.a b": " x=y:#!\\ \n\u20ac\U0001f600"}):
        text = file_of(os.environ[VARIABLE]).read_text()
    assert text == "spark.a\\ b=\\ x\\=y\\:\\#\\!\\\\\\ \\n\\u20ac\\ud83d\\ude00\n"


def test_nothing_is_done_where_nothing_is_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with handed_over({}):
        assert VARIABLE not in os.environ
