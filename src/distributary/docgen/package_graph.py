"""The picture of which package imports which, drawn from the imports in the code."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[1]
WIDTH = 100
BEGIN, END = "<!-- graph -->", "<!-- /graph -->"

_INTRO = """\
Each package imports only packages of lower layers (`python -m distributary.docgen graph` draws this):
"""

Graph = Mapping[str, frozenset[str]]
"""By package or top-level module: what it imports directly."""


def imports(source: Path = SOURCE) -> Graph:
    """Find which package imports which, anywhere in its modules."""
    names = {
        path.stem for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    names.discard("__init__")
    graph: dict[str, set[str]] = {name: set() for name in names}
    for path in source.rglob("*.py"):
        package = path.relative_to(source).parts[0].removesuffix(".py")
        if package in graph:
            graph[package] |= {name for name in _imported(path) if name in names} - {package}
    return {name: frozenset(found) for name, found in graph.items()}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "distributary":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("distributary."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            dotted = (alias.name.split(".") for alias in node.names)
            yield from (parts[1] for parts in dotted if parts[0] == "distributary" and len(parts) > 1)


def layers(graph: Graph) -> list[list[str]]:
    """Sort packages so that each imports only from the layers before its own; those of cycles come last."""
    found: list[list[str]] = []
    left = dict(graph)
    while left:
        layer = sorted(name for name, imported in left.items() if not imported & left.keys())
        if not layer:
            return [*found, sorted(left)]
        found.append(layer)
        left = {name: imported for name, imported in left.items() if name not in layer}
    return found


def cyclic(graph: Graph) -> frozenset[str]:
    """Return the packages that import each other in a circle, and those above them."""
    above = layers(graph)[-1]
    return frozenset(above) if any(graph[name] & set(above) for name in above) else frozenset()


def draw(graph: Graph) -> str:
    """Draw the layers, the lowest first, each package with what it imports."""
    order = [name for layer in layers(graph) for name in layer]
    circle = cyclic(graph)
    width = max(map(len, order))
    lines = []
    for number, layer in enumerate(layers(graph)):
        for name in layer:
            imported = " ".join(sorted(graph[name], key=order.index))
            mark = "  (in a cycle)" if name in circle else ""
            head = f"{number:>2}  {name:<{width}}  "
            lines += textwrap.wrap(
                f"{imported or '-'}{mark}", WIDTH, initial_indent=head, subsequent_indent=" " * len(head)
            )
        lines.append("")
    return "\n".join(lines[:-1])


def section(graph: Graph) -> str:
    """Return the text between the two markers of ARCHITECTURE.md."""
    return f"{BEGIN}\n{_INTRO}\n```text\n{draw(graph)}\n```\n{END}"


def page(root: Path) -> str:
    """Return ARCHITECTURE.md with the present picture in it."""
    text = (root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, marker, after = rest.partition(END)
    return f"{before}{section(imports())}{after}" if marker else text
