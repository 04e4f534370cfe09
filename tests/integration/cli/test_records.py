from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Run


@pytest.fixture
def filled(run: Run, topic: str) -> str:
    run("topics", "create", topic, "--partitions", "2").good()
    rows = [{"value": n, "partition": n % 2, "timestamp": 1767225600000 + n * 1000} for n in range(10)]
    run("produce", topic, "--json-lines", stdin="\n".join(map(json.dumps, rows))).good()
    return topic


def firsts(run: Run, topic: str) -> list[int]:
    (described,) = run("topics", "describe", topic, "--json").good().json
    return [one["first"] for one in described["partitions"]]


def test_records_are_deleted_only_with_execute(run: Run, filled: str, tmp_path: Path) -> None:
    words = ("records", "delete", filled)
    shown = run(*words, "--before", "2026-01-01T00:00:05Z").good()
    assert [line.split()[1:] for line in shown.out.splitlines()[1:]] == [
        ["0", "0", "3", "3"],
        ["1", "0", "2", "2"],
    ]
    assert "--execute" in shown.err
    assert firsts(run, filled) == [0, 0]
    run(*words, "--before", "2", "--partition", "1", "--execute").good()
    assert firsts(run, filled) == [0, 2]
    done = run(*words, "--before", "-1", "--execute", "--json").good().json
    assert [one["records"] for one in done["deleted"]] == [4, 2]
    assert firsts(run, filled) == [4, 4]
    rows = {"partitions": [{"topic": filled, "partition": 0, "offset": -1}], "version": 1}
    (tmp_path / "o.json").write_text(json.dumps(rows))
    run("records", "delete", "--offset-json-file", "o.json", "--execute").good()
    assert firsts(run, filled) == [5, 4]


def test_wrong_command_line_is_refused(run: Run, filled: str, tmp_path: Path) -> None:
    run("records", "delete", filled).bad("which records?", status=2)
    run("records", "delete", filled, "--before", "soon").bad("soon", status=2)
    run("records", "delete", filled, "--before", "1", "--partition", "9").bad("no partition 9")
    run("records", "delete", filled + "-nope", "--before", "1").bad(filled + "-nope")
    (tmp_path / "o.json").write_text("{}")
    run("records", "delete", "--offset-json-file", "o.json").bad("o.json", '"partitions"', status=2)
    rows = {"partitions": [{"topic": filled, "partition": 0, "offset": 99}]}
    (tmp_path / "o.json").write_text(json.dumps(rows))
    run("records", "delete", "--offset-json-file", "o.json").bad("beyond the end, 5")
