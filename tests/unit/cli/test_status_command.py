from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from tests.support.servers import free_port
from tests.support.threaded_api import ThreadedApi

from distributary.cli.main import main
from distributary.stack.processes import birth
from distributary.stack.stack_file import ComponentState, Phase, StackState, write


def test_status_shows_components_views_and_alarms(
    control: ThreadedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    build = control.api.define()
    driver = {"build": build.id, "engine": "realtime"}
    control.api.store.writer.heartbeat("reducers", "1", json.dumps({"views": {"odds": driver}}))
    stats = {"connections": 2, "subscribers": 3, "channels": 1}
    stats |= {"views": {"odds": {"subscribers": 3, "e2e_p50_ms": 4.0, "e2e_p99_ms": 21.0}}}  # type: ignore[dict-item]
    control.api.store.writer.heartbeat("publisher", "1", json.dumps(stats))
    assert main(["status"]) == 0
    text = capsys.readouterr().out
    assert "2 connections, 3 subscribers, 1 channels" in text
    assert re.search(r"odds +live +realtime +0 +- +- +0 +3 +4\.0 ms +21 ms", text)
    assert text.rstrip().endswith("no alarms: checked Kafka, the store, 2 components, 1 view")


def test_alarms_are_printed_last(control: ThreadedApi, capsys: pytest.CaptureFixture[str]) -> None:
    control.api.define(status="stopped")
    assert main(["status"]) == 0
    *_, alarm, hint = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"! view-stopped: view odds is stopped: because \(for \d+ s\)", alarm)
    assert "when-a-view-is-stopped" in hint


def test_check_exits_with_1_when_there_are_alarms(
    control: ThreadedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--check"]) == 0
    assert capsys.readouterr().out.startswith("no alarms")
    control.api.define(status="stopped")
    control.observe()
    assert main(["status", "--check", "--json"]) == 1
    assert [alarm["name"] for alarm in json.loads(capsys.readouterr().out)] == ["view-stopped"]


def test_json_is_that_of_the_control_api(control: ThreadedApi, capsys: pytest.CaptureFixture[str]) -> None:
    control.api.define()
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["views"][0]["name"] == "odds"


def test_watch_ends_at_ctrl_c(
    control: ThreadedApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = iter([None, None])

    def sleep(_: float) -> None:
        if next(turns, "end") == "end":
            raise KeyboardInterrupt

    monkeypatch.setattr("distributary.cli.status_command.time.sleep", sleep)
    assert main(["status", "--watch"]) == 0
    assert capsys.readouterr().out.count("no alarms") == 3


def test_missing_stack_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISTRIBUTARY_CONTROL_URL", raising=False)
    assert main(["status"]) == 1
    error = capsys.readouterr().err
    assert f"distributary: no stack is running in {tmp_path / '.distributary'}\n" in error
    assert "distributary up" in error


def test_unreachable_address_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISTRIBUTARY_CONTROL_URL", f"http://127.0.0.1:{free_port()}")
    assert main(["status"]) == 1
    assert "cannot connect to the control API" in capsys.readouterr().err


def test_stack_of_the_configuration_is_found(
    control: ThreadedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISTRIBUTARY_CONTROL_URL")
    (tmp_path / ".distributary").mkdir()
    part = ComponentState("control", Phase.READY, addresses={"http": control.url})
    created = birth(os.getpid())
    write(tmp_path / ".distributary", StackState("s", os.getpid(), created, Phase.READY, [part]))
    assert main(["status"]) == 0


def test_components_are_shown_without_the_control_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISTRIBUTARY_CONTROL_URL", raising=False)
    (tmp_path / ".distributary").mkdir()
    parts = [
        ComponentState("kafka", Phase.READY, 12),
        ComponentState("control", Phase.RESTARTING, addresses={"http": _nobody()}),
    ]
    created = birth(os.getpid())
    write(tmp_path / ".distributary", StackState("s", os.getpid(), created, Phase.READY, parts))
    (tmp_path / ".distributary" / "ports.json").write_text(
        json.dumps({name: {"usual": 0, "port": free_port()} for name in ("kafka", "store")})
    )
    assert main(["status"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"control +restarting", printed)
    for name in ("part-restarting: control", "store-unreachable", "kafka-unreachable"):
        assert f"! {name}" in printed, "what can be checked without it is checked"
    assert main(["status", "--check"]) == 1


def _nobody() -> str:
    return f"http://127.0.0.1:{free_port()}"
