"""The SBOM has what CycloneDX 1.6 requires, and no other fields."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, distribution
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from distributary.errors import SetupError
from distributary.setup import sbom
from distributary.setup.sbom import Component, merged, of_jar, of_jars, of_requirements, of_wheels
from distributary.setup.vulnerabilities import main

ROOT = Path(__file__).parents[3]
HASH_A, HASH_B = "a" * 64, "b" * 64


def jar(folder: Path, name: str, *poms: tuple[str, str, str]) -> Path:
    file = folder / name
    with zipfile.ZipFile(file, "w") as archive:
        for group, artifact, version in poms:
            text = f"#made\nartifactId={artifact}\nversion={version}\n"
            archive.writestr(f"META-INF/maven/{group}/{artifact}/pom.properties", text)
    return file


def test_requirements_have_names_versions_and_all_hashes(tmp_path: Path) -> None:
    file = tmp_path / "requirements.lock"
    file.write_text(
        f"Some_Thing==1.2.post1 \\\n    --hash=sha256:{HASH_A} \\\n    --hash=sha256:{HASH_B}\n"
        "    # via x==3\n"
        f"other[extra]==2+local ; python_version < '3.12' \\\n    --hash=sha256:{HASH_A}\n"
    )
    one, two = of_requirements(file)
    assert (one.name, one.version, sorted(one.hashes)) == ("Some_Thing", "1.2.post1", [HASH_A, HASH_B])
    assert one.purl == "pkg:pypi/some-thing@1.2.post1"
    assert (two.purl, list(two.hashes)) == ("pkg:pypi/other@2%2Blocal", [HASH_A])


@pytest.mark.parametrize("text", [None, "", "# nothing\n"])
def test_requirements_without_packages_are_refused(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "requirements.lock"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SetupError, match=r"requirements\.lock"):
        list(of_requirements(file))


def test_every_package_and_jar_of_the_real_locks_is_listed() -> None:
    text = (ROOT / "requirements.lock").read_text()
    packages = list(of_requirements(ROOT / "requirements.lock"))
    assert len(packages) == sum("==" in line and line[:1].isalnum() for line in text.splitlines())
    assert sum(len(one.hashes) for one in packages) == text.count("--hash=sha256:")
    jars = list(of_jars())
    assert "pkg:maven/org.apache.kafka/kafka_2.13@4.3.1" in {one.purl for one in jars}
    assert all(one.purl and len(one.hashes) == 1 for one in jars)


def test_jar_and_shaded_jars_are_identified_by_their_pom(tmp_path: Path) -> None:
    file = jar(tmp_path, "thing-1.0-linux.jar", ("g.h", "thing", "1.0"), ("x.y", "inner", "7"))
    itself, inner = of_jar(file, "w: thing.jar", "w 1")
    assert itself.purl == "pkg:maven/g.h/thing@1.0"
    assert (len(itself.hashes), *itself.wheels, *itself.locations) == (1, "w 1", "w: thing.jar")
    assert (inner.purl, *inner.locations) == ("pkg:maven/x.y/inner@7", "w: thing.jar (shaded)")


@pytest.mark.parametrize(
    ("name", "purl"),
    [
        ("scala-library-2.13.18.jar", "pkg:maven/org.scala-lang/scala-library@2.13.18"),
        ("breeze_2.13-2.1.0.jar", "pkg:maven/org.scalanlp/breeze_2.13@2.1.0"),
        ("py4j0.10.9.9.jar", "pkg:maven/net.sf.py4j/py4j@0.10.9.9"),
        ("nobody-knows-1.jar", ""),
    ],
)
def test_jar_without_a_pom_is_identified_by_its_file_name(tmp_path: Path, name: str, purl: str) -> None:
    (one,) = of_jar(jar(tmp_path, name), name, "w 1")
    assert one.purl == purl


def test_broken_jar_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "x.jar").write_bytes(b"no zip")
    with pytest.raises(SetupError, match=r"cannot read the jar .*x\.jar"):
        list(of_jar(tmp_path / "x.jar", "x", "w"))


def test_jars_inside_wheels_have_coordinates_and_name_their_wheel() -> None:
    """A new jar without coordinates needs a line in maven-groups.toml, or it is not looked up."""
    found = list(of_wheels([distribution("pyspark"), distribution("py4j")]))
    assert len(found) > 250
    assert not [one.name for one in found if not one.purl]
    assert {wheel.split()[0] for one in found for wheel in one.wheels} == {"pyspark", "py4j"}
    assert "org.apache.spark:spark-core_2.13" in {one.title for one in found}


def test_every_installed_wheel_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []

    def every() -> list[Distribution]:
        requested.append("all")
        return []

    monkeypatch.setattr(sbom, "distributions", every)
    assert list(of_wheels()) == []
    assert requested == ["all"]


def test_component_in_two_locations_is_merged() -> None:
    def at(place: str, hash: str) -> Component:
        return Component("maven", "g", "n", "1", frozenset((hash,)), frozenset((place,)))

    (one,) = merged([at("x", HASH_A), at("y", HASH_B)])
    assert (sorted(one.hashes), sorted(one.locations)) == ([HASH_A, HASH_B], ["x", "y"])


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
    """What https://sbom.org/docs/1.6/json/ asks for of the fields that are used here."""
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
    document = sbom.document(real)
    check(document)
    assert len(document["components"]) > 400
    assert all("purl" in one for one in document["components"])
    jars = [one for one in document["components"] if "properties" in one]
    assert len(jars) > 250
    order = [(one["purl"].split("/")[0], one.get("group", ""), one["name"]) for one in document["components"]]
    assert order == sorted(order)


def test_check_fails_on_invalid_documents(real: list[Component]) -> None:
    for spoil in ({"bomFormat": "Other"}, {"serialNumber": "1"}, {"created": "now"}, {"version": 0}):
        with pytest.raises(AssertionError):
            check(sbom.document(real) | spoil)


def test_equal_locks_give_equal_documents_in_any_order(real: list[Component]) -> None:
    shuffled = list(real)
    random.Random(1).shuffle(shuffled)
    assert sbom.to_json(merged(shuffled)) == sbom.to_json(real)
    assert sbom.document(real[1:])["serialNumber"] != sbom.document(real)["serialNumber"]
    assert not re.search(r"\d{4}-\d{2}-\d{2}T", sbom.to_json(real)), "there is a time in it"


def test_unknown_jar_is_listed_without_a_purl() -> None:
    document = sbom.document([Component("maven", None, "odd", "1", locations=frozenset(("w: odd-1.jar",)))])
    check(document)
    assert "purl" not in document["components"][0]


def test_sbom_only_writes_the_sbom_and_looks_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert "cannot write the SBOM" in capsys.readouterr().err
