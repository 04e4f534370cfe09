"""The source tree shows the flow: a stage knows only what stands before it, and the tests mirror it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "distributary"
TESTS = ROOT / "tests"

BASE = ("errors", "service", "deadline", "model", "config")
STAGES = (
    "setup",
    "kafka",
    "client",
    "store",
    "auth",
    "httpd",
    "reducers",
    "publisher",
    "subscriber",
    "socketio_gateway",
)
BESIDE = ("control", "gateway", "stack", "workers", "demo", "cli", "docgen")

SEES = {
    **{name: set(BASE) for name in BASE},
    **{stage: {*BASE, *STAGES[:at]} for at, stage in enumerate(STAGES)},
    "control": {*BASE, "kafka", "store", "auth", "httpd", "stack"},
    "gateway": {*BASE, *STAGES},
    "stack": {*BASE, *STAGES},
    "workers": {*BASE, *STAGES, "stack"},
    "demo": {*BASE, *STAGES, "control", "stack"},
    "cli": {*BASE, *STAGES, "control", "gateway", "stack", "workers", "demo"},
    "docgen": {*BASE, *STAGES, "control", "gateway", "stack", "workers", "demo", "cli"},
}
"""What each part may import, besides itself and the package's own version."""


def parts() -> set[str]:
    return {
        path.stem
        for path in SOURCE.iterdir()
        if (path.is_dir() and path.name != "__pycache__") or path.suffix == ".py"
    } - {"__init__"}


def modules() -> dict[str, Path]:
    """Every module by its dotted name within the package."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        words = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(word for word in words if word != "__init__")] = path
    return found


def imported(path: Path, *, inner: str = "distributary.") -> Iterator[str]:
    """Every module of ours that a file imports, anywhere in it, as a name within the package."""
    known = _known()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: imports are absolute"
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.startswith(inner) and name.removeprefix(inner) in known:
                yield name.removeprefix(inner)


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(modules())


def test_every_part_has_its_place() -> None:
    assert parts() == set(SEES), "a new part must be given its place in the flow, here and in ARCHITECTURE.md"


@pytest.mark.parametrize("part", sorted(SEES))
def test_a_part_sees_only_what_stands_before_it(part: str) -> None:
    files = [SOURCE / f"{part}.py"] if (SOURCE / f"{part}.py").exists() else (SOURCE / part).rglob("*.py")
    for path in files:
        for name in imported(path):
            other = name.split(".")[0]
            assert other == part or other in SEES[part], (
                f"{path.relative_to(ROOT)} imports {name}: {part} may see {', '.join(sorted(SEES[part]))}"
            )


def test_nothing_before_the_command_line_knows_it() -> None:
    for name, path in modules().items():
        if name.split(".")[0] not in ("cli", "docgen"):
            known = [other for other in imported(path) if other.split(".")[0] == "cli"]
            assert not known, f"{path.relative_to(ROOT)} imports {known}"


def test_the_model_does_no_io() -> None:
    io = {"os", "socket", "asyncio", "pathlib", "redis", "confluent_kafka", "aiohttp", "subprocess", "time"}
    for path in (SOURCE / "model").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        used = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        used |= {(node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
        assert not used & io, f"{path.relative_to(ROOT)} imports {used & io}"


@pytest.mark.parametrize("part", sorted(path.name for path in SOURCE.iterdir() if path.is_dir()))
def test_every_folder_has_tests(part: str) -> None:
    if part == "__pycache__":
        return
    folders = [TESTS / kind / part for kind in ("unit", "integration")]
    assert any(list(folder.rglob("test_*.py")) for folder in folders), f"no tests for {part}/"


def test_every_module_is_reached_from_a_test_a_process_or_a_command() -> None:
    """Unit tests mirror the source, integration tests mirror behaviours; one out of reach is dead."""
    files = [path for path in TESTS.rglob("*.py") if "node_modules" not in path.parts]
    found = modules()
    open_names = {name for path in files for name in imported(path)}
    open_names |= {name for name, path in found.items() if name.startswith("cli.") or _is_run(path)}
    reached: set[str] = set()
    while open_names:
        name = open_names.pop()
        reached.add(name)
        open_names |= set(imported(found[name])) - reached
    dead = [name for name, path in found.items() if name and name not in reached and _logic(path)]
    assert not dead, f"nothing imports {', '.join(sorted(dead))}"


def _is_run(path: Path) -> bool:
    return path.stem == "__main__" or 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")


def _logic(path: Path) -> bool:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(isinstance(node, kinds) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
