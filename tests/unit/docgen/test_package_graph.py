from __future__ import annotations

from pathlib import Path

from tests.support.doc_blocks import ROOT

from distributary.docgen import package_graph

CIRCLE = {"a": frozenset[str](), "b": frozenset({"a", "c"}), "c": frozenset({"b"}), "d": frozenset({"c"})}


def test_architecture_draws_the_present_imports() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert package_graph.section(package_graph.imports()) in text, "run python -m distributary.docgen"


def test_imports_are_read_from_every_form_of_import(tmp_path: Path) -> None:
    for name, text in {
        "errors.py": "",
        "model/__init__.py": "from distributary import errors, __version__",
        "store/__init__.py": "import distributary.errors, json",
        "store/lua/x.py": "def f():\n    from distributary.model.build import Build",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert package_graph.imports(tmp_path) == {
        "errors": frozenset(),
        "model": {"errors"},
        "store": {"errors", "model"},
    }


def test_layers_contain_only_imports_of_lower_ones() -> None:
    graph = package_graph.imports()
    seen: set[str] = set()
    for layer in package_graph.layers(graph):
        assert all(graph[name] <= seen for name in layer)
        seen |= set(layer)
    assert seen == set(graph)


def test_packages_of_a_circle_are_marked() -> None:
    assert package_graph.cyclic(CIRCLE) == {"b", "c", "d"}
    drawn = package_graph.draw(CIRCLE)
    assert drawn.count("(in a cycle)") == 3
    assert drawn.splitlines()[0] == " 0  a  -"


def test_packages_without_a_circle_are_not_marked() -> None:
    assert package_graph.cyclic(package_graph.imports()) == frozenset()
