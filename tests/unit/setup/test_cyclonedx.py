"""The SBOM has what CycloneDX 1.6 documents as required, and nothing that it does not know."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from distributary.setup import cyclonedx
from distributary.setup.sbom import Component, merged, of_jars, of_requirements, of_wheels
from distributary.setup.vulnerabilities import main

ROOT = Path(__file__).parents[3]
TOP = {
    "$schema",
    "bomFormat",
    "specVersion",
    "serialNumber",
    "version",
    "metadata",
    "components",
    "dependencies",
}
COMPONENT = {"type", "bom-ref", "group", "name", "version", "hashes", "purl", "properties", "evidence"}
KINDS = {"application", "framework", "library", "container", "platform", "operating-system", "device", "file"}


def check(document: dict[str, Any]) -> None:
    """What https://cyclonedx.org/docs/1.6/json/ asks for of the fields that are used here."""
    assert set(document) <= TOP
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", document["serialNumber"])
    assert isinstance(document["version"], int)
    assert document["version"] >= 1
    every = [document["metadata"]["component"], *document["components"]]
    for one in every:
        assert set(one) <= COMPONENT
        assert one["type"] in KINDS
        assert isinstance(one["name"], str)
        assert one["name"]
        assert isinstance(one["version"], str)
        for hash in one.get("hashes", ()):
            assert set(hash) == {"alg", "content"}
            assert hash["alg"] == "SHA-256"
            assert re.fullmatch(r"[a-f0-9]{64}", hash["content"])
        for entry in one.get("properties", ()):
            assert set(entry) == {"name", "value"}
        for place in one.get("evidence", {}).get("occurrences", ()):
            assert set(place) == {"location"}
            assert place["location"]
        assert re.fullmatch(r"pkg:(pypi/[^/@]+|maven/[^/@]+/[^/@]+)@[^@]+", one.get("purl", "pkg:pypi/x@1"))
    names = [one["bom-ref"] for one in every]
    assert len(set(names)) == len(names), "bom-ref must be unique"
    for one in document["dependencies"]:
        assert set(one) <= {"ref", "dependsOn"}
        assert {one["ref"], *one["dependsOn"]} <= set(names)


@pytest.fixture(scope="module")
def real() -> list[Component]:
    return merged(chain(of_requirements(ROOT / "requirements.lock"), of_jars(), of_wheels()))


def test_real_sbom_is_cyclonedx(real: list[Component]) -> None:
    document = cyclonedx.document(real)
    check(document)
    assert len(document["components"]) > 400
    assert all("purl" in one for one in document["components"])
    jars = [one for one in document["components"] if "properties" in one]
    assert len(jars) > 250
    order = [(one["purl"].split("/")[0], one.get("group", ""), one["name"]) for one in document["components"]]
    assert order == sorted(order)


def test_check_finds_what_is_wrong(real: list[Component]) -> None:
    for spoil in ({"bomFormat": "Other"}, {"serialNumber": "1"}, {"created": "now"}, {"version": 0}):
        with pytest.raises(AssertionError):
            check(cyclonedx.document(real) | spoil)


def test_equal_locks_give_equal_documents_in_any_order(real: list[Component]) -> None:
    shuffled = list(real)
    random.Random(1).shuffle(shuffled)
    assert cyclonedx.text(merged(shuffled)) == cyclonedx.text(real)
    assert cyclonedx.document(real[1:])["serialNumber"] != cyclonedx.document(real)["serialNumber"]
    assert not re.search(r"\d{4}-\d{2}-\d{2}T", cyclonedx.text(real)), "there is a time in it"


def test_unknown_jar_is_listed_without_a_purl() -> None:
    document = cyclonedx.document([Component("maven", None, "odd", "1", places=frozenset(("w: odd-1.jar",)))])
    check(document)
    assert "purl" not in document["components"][0]


def test_command_writes_it_and_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    output = tmp_path / "new" / "sbom.json"
    assert main(["--sbom-only", "--output", str(output), "--osv", "http://127.0.0.1:9"]) == 0
    check(json.loads(output.read_text()))
    done = subprocess.run(
        [sys.executable, "-m", "distributary.setup.vulnerabilities", "--sbom-only", "--output", "-"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == output.read_text()


def test_output_that_cannot_be_written_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    (tmp_path / "file").write_text("")
    assert main(["--sbom-only", "--output", str(tmp_path / "file" / "x.json")]) == 3
    assert "cannot be written" in capsys.readouterr().err
