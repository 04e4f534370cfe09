"""The command line: which scenarios run, and what one that fails does to the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench import __main__ as command
from bench import report, stacks
from bench.child import BenchError


def test_an_unknown_scenario_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["latnecy"]) == 2
    assert "there is no scenario latnecy; there are: latency, live" in capsys.readouterr().err


def test_one_that_fails_does_not_keep_the_next_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fails(spec: Any, folder: Path, say: Any) -> dict[str, Any]:
        raise BenchError("no luck")

    async def works(spec: Any, folder: Path, say: Any) -> dict[str, Any]:
        say("measuring")
        return {"live_rec_s": 11_000.0}

    monkeypatch.setattr(command, "SCENARIOS", {"latency": fails, "live": works})
    monkeypatch.setattr(stacks, "pin_programs", lambda: None)  # it sets the environment for good
    monkeypatch.setattr(report, "QUICK", tmp_path / "quick.json")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert command.main(["--quick", "--json"]) == 1
    out, err = capsys.readouterr()
    assert "latency: not measured: no luck" in err
    assert "live: measuring" in err
    found = json.loads(out)
    assert found == json.loads((tmp_path / "quick.json").read_text())
    assert found["live_rec_s"] == 11_000.0
    assert [one["error"] for one in found["scenarios"]] == ["no luck", ""]


@pytest.mark.parametrize(
    ("failed", "only", "file"),
    [(False, [], "latest.json"), (True, [], "partial.json"), (False, ["live"], "partial.json")],
)
def test_only_a_whole_run_replaces_the_last_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: bool, only: list[str], file: str
) -> None:
    async def first(spec: Any, folder: Path, say: Any) -> dict[str, Any]:
        if failed:
            raise BenchError("no luck")
        return {"e2e_20_p50_ms": 3.0}

    async def second(spec: Any, folder: Path, say: Any) -> dict[str, Any]:
        return {"live_rec_s": 11_000.0}

    monkeypatch.setattr(command, "SCENARIOS", {"latency": first, "live": second})
    monkeypatch.setattr(stacks, "pin_programs", lambda: None)
    monkeypatch.setattr(report, "LATEST", tmp_path / "latest.json")
    monkeypatch.setattr(report, "PARTIAL", tmp_path / "partial.json")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    command.main(["--json", *only])
    assert [one.name for one in tmp_path.glob("*.json")] == [file]
