from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.signed_tokens import claims, sign

from distributary.auth import audit
from distributary.auth.api_keys import create_key
from distributary.auth.audit import BURST, WINDOW, AuditLog
from distributary.config import Auth, Config


class Written:
    """An audit log in a folder, under a clock that a test moves."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.path = folder / "audit.log"
        self.audit = AuditLog("control", self.path, wall=lambda: 1_800_000_000.5, clock=lambda: self.now)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def refuse(self, user: str = "ann", address: str = "10.0.0.1") -> None:
        self.audit.write("GET /v1/status", "refused", user=user, address=address, reason="forbidden")


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def test_audit_line_has_time_user_address_action_and_result(written: Written) -> None:
    written.audit.write("PUT /v1/views/{name}", "ok", user="ann", address="10.0.0.1", target="odds")
    assert written.lines == [
        {
            "time": "2027-01-15T08:00:00.500+00:00",
            "component": "control",
            "user": "ann",
            "address": "10.0.0.1",
            "action": "PUT /v1/views/{name}",
            "target": "odds",
            "result": "ok",
        }
    ]
    assert written.path.stat().st_mode & 0o777 == 0o600


@given(st.text(), st.text(), st.text())
def test_names_from_clients_make_one_line_of_bounded_length(user: str, target: str, why: str) -> None:
    lines: list[bytes] = []
    one = AuditLog("control", Path("/nowhere"))
    one._append = lines.append  # type: ignore[assignment]
    one.write("x", "ok", user=user, address="::1", target=target, reason=why)
    (line,) = lines
    assert line.count(b"\n") == 1
    assert len(line) < 16_384
    assert json.loads(line)["user"] == user[: audit.MAX_TEXT]


def test_many_refusals_are_counted_instead_of_written(written: Written) -> None:
    for _ in range(1000):
        written.refuse()
    assert len(written.lines) == BURST
    written.refuse(user="bob")
    written.refuse(address="10.0.0.2")
    assert len(written.lines) == BURST + 2
    written.now += WINDOW
    written.refuse()
    assert written.lines[-1]["suppressed"] == 1000 - BURST
    written.refuse()
    assert "suppressed" not in written.lines[-1]


def test_changes_are_always_written(written: Written) -> None:
    for _ in range(1000):
        written.audit.write("DELETE /v1/views/{name}", "ok", user="ann", address="::1")
    assert len(written.lines) == 1000


def test_refusals_of_many_users_take_bounded_memory(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "_MAX_SOURCES", 10)
    for n in range(100):
        written.refuse(user=str(n))
    assert len(written.audit._refusals) <= 10


def test_full_log_file_is_rotated(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_BYTES", 2000)
    for n in range(100):
        written.audit.write("x", "ok", user=str(n), address="::1")
    older = written.path.with_name("audit.log.1")
    kept = [json.loads(line)["user"] for line in (older.read_text() + written.path.read_text()).splitlines()]
    assert kept[-1] == "99"
    assert kept == [str(n) for n in range(100 - len(kept), 100)]
    assert len(list(written.path.parent.iterdir())) == 2


def _write_many(path: Path, name: str) -> None:
    one = AuditLog(name, path)
    for n in range(500):
        one.write("x" * 100, "ok", user=str(n), address="::1")


def test_several_processes_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write_many, args=(path, name)) for name in ("a", "b")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for name in ("a", "b"):
        assert [line["user"] for line in found if line["component"] == name] == [str(n) for n in range(500)]


def test_full_disk_fails_no_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "audit.log").mkdir()
    AuditLog("control", tmp_path / "audit.log").write("x", "ok", user="ann", address="::1")
    assert "cannot write" in caplog.text


def test_audit_log_is_written_to_the_configured_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for folder in ("data", "logs"):
        (tmp_path / folder).mkdir()
    for name, path in (
        ("", tmp_path / "data" / "audit.log"),
        ("logs/who.jsonl", tmp_path / "logs" / "who.jsonl"),
        (str(tmp_path / "x.log"), tmp_path / "x.log"),
    ):
        auth = Auth(audit_log=name)
        config = Config(data_dir=tmp_path / "data", path=tmp_path / "d.toml", auth=auth)
        AuditLog.of("gateway", config).write("x", "ok", user="ann", address="::1")
        assert json.loads(path.read_text())["component"] == "gateway"
    AuditLog.of("gateway", Config(auth=Auth(audit_log="-"))).write("x", "ok", user="ann", address="::1")
    assert json.loads(capfd.readouterr().err)["user"] == "ann"


def test_token_in_place_of_a_name_is_masked(written: Written) -> None:
    for secret in (sign(claims()), create_key()[0], f"ds_{'x' * 43}"):
        written.audit.write("POST /v1/tokens/{id}/revoke", "ok", user="eve", address="::1", target=secret)
        assert written.lines[-1]["target"] == "***"
    written.audit.write("POST /v1/tokens/{id}/revoke", "ok", user="eve", address="::1", target="4f1c-dk_1")
    assert written.lines[-1]["target"] == "4f1c-dk_1"
