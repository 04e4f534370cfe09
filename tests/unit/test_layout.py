"""Packages import only earlier ones, module names are unique, and every module is reached from a test."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributary.docgen import package_graph

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "distributary"
TESTS = ROOT / "tests"

IMPORTS = {
    "errors": "",
    "model": "errors",
    "service": "errors",
    "deadline": "errors",
    "config": "errors model",
    "setup": "errors config",
    "kafka": "errors model config deadline",
    "client": "errors model config kafka",
    "store": "errors model config",
    "auth": "errors model config",
    "httpd": "errors model config auth",
    "reducers": "errors model config service setup kafka store auth",
    "subscriber": "errors model auth",
    "publisher": "errors model config service kafka store auth httpd",
    "socketio_gateway": "errors model config service auth httpd publisher subscriber",
    "stack": "errors model config service setup kafka store auth httpd",
    "control": "errors model config service kafka store auth httpd stack",
    "gateway": "errors model config service deadline kafka store auth httpd",
    "workers": "errors model config service kafka client stack",
    "demo": "errors model config service kafka subscriber stack",
    "cli": "errors model config service setup kafka client store auth httpd subscriber publisher "
    "socketio_gateway stack control gateway workers demo",
    "docgen": "errors model config kafka store auth httpd publisher stack control gateway cli",
}
"""What each package may import, besides itself and the version. ARCHITECTURE.md draws what it does import."""

STEMS_THAT_REPEAT = {"__init__", "__main__", "errors"}


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


def test_every_package_is_listed() -> None:
    assert parts() == set(IMPORTS), "list a new package here and in ARCHITECTURE.md"


@pytest.mark.parametrize("part", sorted(IMPORTS))
def test_package_imports_only_what_it_may(part: str) -> None:
    files = [SOURCE / f"{part}.py"] if (SOURCE / f"{part}.py").exists() else (SOURCE / part).rglob("*.py")
    allowed = IMPORTS[part].split()
    for path in files:
        for name in imported(path):
            other = name.split(".")[0]
            assert other == part or other in allowed, (
                f"{path.relative_to(ROOT)} imports {name}: {part} may import {', '.join(allowed)}"
            )


def test_packages_do_not_import_each_other_in_a_circle() -> None:
    order = list(IMPORTS)
    for part, allowed in IMPORTS.items():
        later = [name for name in allowed.split() if order.index(name) >= order.index(part)]
        assert not later, f"{part} may import {later}, which come after it"
    assert not package_graph.cyclic(package_graph.imports())


def test_module_names_are_unique() -> None:
    """A name in a traceback or in an editor's tab says which module it is."""
    found: dict[str, list[str]] = {}
    for name, path in modules().items():
        found.setdefault(path.stem, []).append(name)
    repeated = {stem: names for stem, names in found.items() if len(names) > 1}
    assert set(repeated) <= STEMS_THAT_REPEAT, repeated


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
