"""What people read: links lead somewhere, tests that are named exist, examples are well formed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.support.clock import LIMIT
from tests.support.doc_blocks import ROOT, Block, blocks, missing

from distributary.config import load, parse_views
from distributary.config.settings_table import SETTINGS

PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)
HOSTS = {"127.0.0.1", "host", "semver.org", "example.com", "kafka-1", "kafka-2", "redis.internal"}
"""The only hosts that a page may name: this machine, made-up ones, and where a format is described."""

FORBIDDEN = re.compile(
    r"(?<![\w.])/(?:work|home|root|tmp|mnt|Users)/|\bsession \d|\bagents?\b|docker\.io|ghcr\.io|quay\.io"
    r"|maven\.org|maven\.apache|npmjs|pypi\.org|artifactory|nexus",
    re.IGNORECASE,
)


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made by those who show Markdown."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES)
def test_links_have_a_target(page: str) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", read(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), f"{page}: {link}"
        assert not anchor or anchor in anchors(target), f"{page}: {link}"


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_no_machine_and_no_registry(page: str) -> None:
    text = read(page)
    assert not FORBIDDEN.search(text), FORBIDDEN.search(text)
    for host in re.findall(r"\w+://([\w.-]+)", text):
        assert host in HOSTS or host.endswith(".example.com") or "." not in host or page in GENERATED, host


PACKAGES = "|".join(path.name for path in (ROOT / "src" / "distributary").iterdir() if path.is_dir())
GENERATED = {page for page in PAGES if page.startswith("docs/reference/")}


@pytest.mark.parametrize("page", PAGES)
def test_named_tests_and_files_exist(page: str) -> None:
    text = read(page)
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        assert (ROOT / path).is_file(), f"{page}: {path}"
        if name:
            assert re.search(rf"def {name}\(", read(path)), f"{page}: {path} has no {name}"
    for path in re.findall(r"`((?:src|bench|examples)/[\w/.-]+)`", text):
        assert (ROOT / path).exists(), f"{page}: {path}"
    for path in re.findall(rf"`((?:{PACKAGES})/[\w/]*[\w.]*)`", text):
        assert (ROOT / "src" / "distributary" / path).exists(), f"{page}: {path}"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_classes_and_functions_named_with_their_file_exist(page: str) -> None:
    named = re.findall(rf"`((?:{PACKAGES})/[\w/]+\.py):(\w+)`", read(page))
    assert named
    for path, name in named:
        source = read(f"src/distributary/{path}")
        assert re.search(rf"^ *(?:class |(?:async )?def )?{name}\b", source, re.MULTILINE), (
            f"{path} has no {name}"
        )


def test_every_rule_in_the_code_is_in_the_architecture() -> None:
    rules = set(re.findall(r"^\*\*R(\d+)\b", read("ARCHITECTURE.md"), re.MULTILINE))
    assert rules == {str(n) for n in range(1, 21)}
    for path in (ROOT / "src").rglob("*"):
        if path.suffix in (".py", ".lua"):
            used = set(re.findall(r"\(R(\d+)\)", path.read_text(encoding="utf-8")))
            assert used <= rules, f"{path}: R{used - rules}"


def test_make_targets_exist() -> None:
    verbs = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    for page in PAGES:
        for verb in re.findall(r"(?:`|^)make ([a-z-]+)", read(page), re.MULTILINE):
            assert verb in verbs, f"{page}: make {verb}"


def of_language(language: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.language == language]


@pytest.mark.parametrize("block", of_language("toml"), ids=lambda block: block.place)
def test_configurations_are_valid(block: Block, tmp_path: Path) -> None:
    document = tomllib.loads(block.text)
    if "topics" in document or ("feeds" in document and set(document) - {"feeds", "views"}):
        (tmp_path / "distributary.toml").write_text(block.text)
        load(tmp_path / "distributary.toml", env={})
        return
    if "views" in document:
        feeds = {view["feed"] for view in document["views"]}
        only = {name: document[name] for name in ("feeds", "views") if name in document}
        assert set(document) == set(only)
        parse_views(block.text, feeds)
        return
    known = {setting.key.replace("<name>.", "") for setting in SETTINGS}
    for section, settings in document.items():
        names = (
            [f"{section}.{name}" for name in settings] if isinstance(settings, dict) else [f"views.{section}"]
        )
        assert set(names) <= known, block.place


@pytest.mark.parametrize("block", of_language("python"), ids=lambda block: block.place)
def test_python_blocks_compile(block: Block) -> None:
    compile(block.text, block.place, "exec")


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("block", of_language("js"), ids=lambda block: block.place)
def test_javascript_blocks_parse(block: Block) -> None:
    done = subprocess.run(
        ["node", "--input-type=module", "--check"],
        input=block.text,
        text=True,
        capture_output=True,
        timeout=30 * LIMIT,
    )
    assert done.returncode == 0, done.stderr


def test_examples_compile() -> None:
    found = list((ROOT / "examples").rglob("*.py"))
    assert found
    for path in found:
        compile(path.read_text(), str(path), "exec")


def test_missing_compares_line_by_line() -> None:
    printed = "one 1\ntwo 2\nthree (3)\n"
    assert missing("one …\nthree (…)", printed) == ""
    assert missing("two\none", printed) == "one"
    assert missing("two\none", printed, ordered=False) == ""
    assert missing("four", printed) == "four"


def test_every_mark_belongs_to_a_block() -> None:
    found = blocks("README.md")
    assert {"file: distributary.toml", "run: in the background", "run: needs curl", "shows"} <= {
        block.mark for block in found
    }
    for page in PAGES:
        marks = len(re.findall(r"^<!-- (?:file|run|shows)\b", read(page), re.MULTILINE))
        assert marks == sum(bool(block.mark) for block in blocks(page)), f"{page}: a mark before no block"
