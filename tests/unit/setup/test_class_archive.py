"""The class archive: created once, never incomplete, and optional."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from distributary.setup import class_archive
from distributary.setup.java import Java

JAVA = Java(Path("/j/bin/java"), "17.0.1")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DISTRIBUTARY_CACHE", str(tmp_path))
    return tmp_path


def made(argv: list[str], **words: Any) -> None:
    Path(argv[-1]).write_bytes(b"classes")


def test_archive_is_created_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    monkeypatch.setattr(subprocess, "run", made)
    assert class_archive.options(JAVA) == ""
    first = class_archive.ensure(JAVA, reports.append)
    assert first is not None
    assert first.read_bytes() == b"classes"
    assert class_archive.options(JAVA).startswith(f"-XX:SharedArchiveFile={first} ")
    assert class_archive.ensure(JAVA, reports.append) == first
    assert len(reports) == 1
    assert sorted(one.suffix for one in first.parent.iterdir()) == [".jsa", ".json"]


def test_another_java_has_another_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    assert class_archive.archive_file(JAVA) != class_archive.archive_file(Java(JAVA.path, "21.0.1"))


def test_recreated_environment_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "pyspark" / "jars" / "a.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"a")
    os.utime(jar, (1_000, 1_000))
    monkeypatch.setattr(class_archive, "spark_home", lambda: jar.parent.parent)
    monkeypatch.setattr(subprocess, "run", made)
    first = class_archive.ensure(JAVA, lambda line: None)
    os.utime(jar, (2_000, 2_000))
    second = class_archive.ensure(JAVA, lambda line: None)
    assert second != first
    assert list(class_archive.archive_file(JAVA).parent.glob("*.jsa")) == [second]


def test_failure_to_create_an_archive_is_reported_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(argv: list[str], **words: Any) -> None:
        made(argv)
        raise subprocess.CalledProcessError(1, argv)

    reports: list[str] = []
    monkeypatch.setattr(subprocess, "run", fails)
    assert class_archive.ensure(JAVA, reports.append) is None
    assert "Spark will start more slowly" in reports[-1]
    assert class_archive.options(JAVA) == ""
    assert [one.suffix for one in class_archive.archive_file(JAVA).parent.iterdir()] == [".log"]


def test_archives_of_removed_environments_are_removed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cache / "archives"
    folder.mkdir()
    (folder / "spark-old.json").write_text(f'{{"spark": "{cache}/gone"}}')
    (folder / "spark-old.jsa").write_bytes(b"old")
    monkeypatch.setattr(subprocess, "run", made)
    archive = class_archive.ensure(JAVA, lambda line: None)
    assert [one for one in folder.glob("*.jsa")] == [archive]
