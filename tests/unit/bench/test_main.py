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
    assert json.loads((tmp_path / "quick.json").read_text())["live_rec_s"] == 11_000.0
    assert found["live_rec_s"] == 11_000.0
    assert [one["error"] for one in found["scenarios"]] == ["no luck", ""]


def test_a_run_of_some_leaves_the_others_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: dict[str, float | None] = {"e2e_20_p50_ms": 3.0, "live_rec_s": 11_000.0}

    def scenario(name: str) -> command.Scenario:
        async def measure(spec: Any, folder: Path, say: Any) -> dict[str, Any]:
            if figures[name] is None:
                raise BenchError("no luck")
            return {name: figures[name]}

        return measure

    both = {"latency": scenario("e2e_20_p50_ms"), "live": scenario("live_rec_s")}
    monkeypatch.setattr(command, "SCENARIOS", both)
    monkeypatch.setattr(stacks, "pin_programs", lambda: None)
    monkeypatch.setattr(report, "LATEST", tmp_path / "latest.json")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def kept(*words: str) -> tuple[float, float]:
        command.main(["--json", *words])
        found = json.loads((tmp_path / "latest.json").read_text())
        assert [one["name"] for one in found["scenarios"]] == ["latency", "live"]
        assert all(one["time"] for one in found["scenarios"])
        return found["e2e_20_p50_ms"], found["live_rec_s"]

    assert kept() == (3.0, 11_000.0)
    figures["live_rec_s"] = 12_000.0
    figures["e2e_20_p50_ms"] = 4.0
    assert kept("live") == (3.0, 12_000.0)
    figures["live_rec_s"] = None
    assert kept() == (4.0, 12_000.0), "one that failed leaves what was there"
