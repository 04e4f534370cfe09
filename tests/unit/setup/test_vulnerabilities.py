from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import free_port
from tests.unit.setup.osv_server import OsvServer, serving

from distributary.errors import ConfigError
from distributary.setup import osv, sbom
from distributary.setup.sbom import Component
from distributary.setup.vulnerabilities import Ignore, main, read_ignores

LOCK = f"aiohttp==3.0 \\\n    --hash=sha256:{'a' * 64}\nredis==5.0 \\\n    --hash=sha256:{'b' * 64}\n"
BAD, WORSE = "pkg:pypi/redis@5.0", "pkg:maven/org.apache.kafka/kafka-clients@3.9.2"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source folder with a small lock, and no jars inside wheels."""
    monkeypatch.chdir(tmp_path)
    Path("requirements.lock").write_text(LOCK)
    monkeypatch.setattr(sbom, "of_wheels", lambda: iter(()))
    monkeypatch.setattr(osv, "TRIES", 1)
    return tmp_path


@pytest.fixture
def server() -> Iterator[OsvServer]:
    with serving(OsvServer({})) as running:
        yield running


def test_audit_without_advisories_exits_0(server: OsvServer, capsys: Captured) -> None:
    assert main(["--osv", server.url], {}) == 0
    out = capsys.readouterr().out
    assert "no advisory; " in out
    assert f"{len(set(server.requested))} components were looked up" in out
    assert len(set(server.requested)) > 40
    assert Path("build/sbom.cdx.json").is_file()


def test_audit_with_advisories_exits_1_with_a_table(server: OsvServer, capsys: Captured) -> None:
    server.known = {BAD: ["PYSEC-1", "GHSA-2", "GHSA-3"], WORSE: ["CVE-9"]}
    assert main([], {"DISTRIBUTARY_OSV_URL": server.url}) == 1
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert ["COMPONENT", "VERSION", "ADVISORIES"] in lines
    assert ["redis", "5.0", "GHSA-2, GHSA-3, PYSEC-1"] in lines
    assert ["org.apache.kafka:kafka-clients", "3.9.2", "CVE-9"] in lines
    assert "4 advisories of 2 components" in " ".join(map(" ".join, lines))


def test_audit_prints_everything_as_json(server: OsvServer, capsys: Captured) -> None:
    server.known = {BAD: ["PYSEC-1"]}
    assert main(["--osv", server.url, "--json"], {}) == 1
    output: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert output["found"] == [
        {
            "component": "redis",
            "version": "5.0",
            "purl": BAD,
            "advisories": ["PYSEC-1"],
            "locations": ["requirements.lock"],
        }
    ]
    assert output["looked_up"] == len(set(server.requested))


def test_audit_that_could_not_look_up_exits_3(capsys: Captured) -> None:
    assert main(["--osv", f"http://127.0.0.1:{free_port()}"], {}) == 3
    output = capsys.readouterr()
    assert "no advisory was looked up" in output.err
    assert output.out == ""
    assert main(["--osv", f"http://127.0.0.1:{free_port()}", "--json"], {}) == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "advisories-unavailable"


def test_audit_names_components_that_cannot_be_looked_up(
    server: OsvServer, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sbom, "of_wheels", lambda: iter([Component("maven", None, "odd", "7")]))
    assert main(["--osv", server.url], {}) == 3
    assert "not looked up, unknown Maven group: odd 7" in capsys.readouterr().out
    server.known = {BAD: ["PYSEC-1"]}
    assert main(["--osv", server.url], {}) == 1


def test_ignored_advisory_is_listed_and_expires(server: OsvServer, capsys: Captured) -> None:
    server.known = {BAD: ["PYSEC-1"]}
    entry = '[[ignore]]\nid = "PYSEC-1"\nreason = "not reached"\nuntil = {}\n'
    Path("audit-ignore.toml").write_text(entry.format("9999-01-01"))
    assert main(["--osv", server.url], {}) == 0
    assert "ignored until 9999-01-01: PYSEC-1 (not reached)" in capsys.readouterr().out
    Path("audit-ignore.toml").write_text(entry.format("2020-01-01"))
    assert main(["--osv", server.url], {}) == 1
    assert "no longer ignored, expired on 2020-01-01: PYSEC-1" in capsys.readouterr().out
    server.known = {}
    assert main(["--osv", server.url], {}) == 0
    assert "no longer needed in the ignore list: PYSEC-1" in capsys.readouterr().out


def test_invalid_ignore_list_exits_2_before_any_lookup(server: OsvServer, capsys: Captured) -> None:
    Path("audit-ignore.toml").write_text('[[ignore]]\nid = "PYSEC-1"\nuntil = 2030-01-01\n')
    assert main(["--osv", server.url], {}) == 2
    assert "reason is missing" in capsys.readouterr().err
    assert server.requested == []


def test_missing_lock_exits_3_with_a_hint(server: OsvServer, capsys: Captured) -> None:
    Path("requirements.lock").unlink()
    assert main(["--osv", server.url], {}) == 3
    assert "--requirements" in capsys.readouterr().err


def test_sbom_on_standard_output_has_nothing_beside_it(server: OsvServer, capsys: Captured) -> None:
    assert main(["--osv", server.url, "--output", "-"], {}) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["bomFormat"] == "CycloneDX"
    assert "no advisory" in output.err


GOOD = '[[ignore]]\nid = "GHSA-1"\nreason = "not reached"\nuntil = 2027-01-31\n'


def test_ignore_entry_has_id_reason_and_end(tmp_path: Path) -> None:
    file = tmp_path / "audit-ignore.toml"
    assert read_ignores(file) == []
    file.write_text(GOOD)
    (one,) = read_ignores(file)
    assert one == Ignore("GHSA-1", "not reached", date(2027, 1, 31))
    assert not one.expired(date(2027, 1, 31))
    assert one.expired(date(2027, 2, 1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace('reason = "not reached"\n', ""), "entry 1: reason is missing"),
        (GOOD.replace("not reached", "  "), "entry 1: reason is missing"),
        (GOOD.replace('id = "GHSA-1"\n', ""), "entry 1: id is missing"),
        (GOOD.replace("until = 2027-01-31\n", ""), "entry 1: until is missing"),
        (GOOD.replace("2027-01-31", '"2027-01-31"'), "entry 1: until is missing, or not a date"),
        (GOOD.replace("2027-01-31", "2027-01-31T00:00:00Z"), "entry 1: until is missing, or not a date"),
        (GOOD + 'what = "x"\n', "entry 1: expected a table with id, reason, until"),
        (GOOD + GOOD, "duplicate ids: GHSA-1"),
        (GOOD + "[other]\n", "nothing else"),
        ("ignore = 1\n", "expected \\[\\[ignore\\]\\]"),
        ("ignore = [1]\n", "entry 1"),
        ("not toml [", "not valid TOML"),
    ],
)
def test_incomplete_ignore_entry_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "audit-ignore.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_ignores(file)
