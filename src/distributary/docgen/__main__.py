"""``python -m distributary.docgen``: write the reference pages, or with ``--check`` report which differ.

``python -m distributary.docgen graph`` prints which package imports which.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from distributary.docgen import (
    alarms_page,
    client_page,
    commands_page,
    errors_page,
    metrics_page,
    package_graph,
    protocol_page,
    rest_page,
    settings_page,
)

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/configuration.md": settings_page.page,
    "docs/reference/cli.md": commands_page.page,
    "docs/reference/client.md": client_page.page,
    "docs/reference/rest.md": rest_page.page,
    "docs/reference/protocol.md": protocol_page.page,
    "docs/reference/errors.md": errors_page.page,
    "docs/reference/metrics.md": metrics_page.page,
    "docs/reference/alarms.md": alarms_page.page,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when all pages are written (or up to date), 1 when ``--check`` finds one that differs."""
    parser = argparse.ArgumentParser(
        "python -m distributary.docgen", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("what", nargs="?", choices=("pages", "graph"), default="pages", help="default: pages")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page differs")
    parser.add_argument(
        "--root", type=Path, default=Path(), metavar="DIR", help="the repository (default: .)"
    )
    args = parser.parse_args(argv)
    if args.what == "graph":
        print(package_graph.draw(package_graph.imports()))
        return 0
    status = 0
    architecture: Callable[[], str] = functools.partial(package_graph.page, args.root)
    pages = {**PAGES, "ARCHITECTURE.md": architecture}
    for name, page in pages.items():
        file = args.root / name
        if name not in PAGES and not file.is_file():
            continue
        text = page()
        if file.is_file() and file.read_text(encoding="utf-8") == text:
            continue
        if args.check:
            print(f"{file} differs: run python -m distributary.docgen", file=sys.stderr)
            status = 1
            continue
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            print(f"cannot write {file}: {error.strerror}", file=sys.stderr)
            return 1
        print(f"wrote {file}")
    return status


if __name__ == "__main__":
    sys.exit(main())
