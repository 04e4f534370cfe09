"""``python -m distributary.docgen``: write the reference pages, or with ``--check`` report which differ."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from distributary.docgen import (
    alarms_page,
    client_page,
    commands_page,
    errors_page,
    metrics_page,
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
    parser = argparse.ArgumentParser("python -m distributary.docgen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page differs")
    parser.add_argument(
        "--root", type=Path, default=Path(), metavar="DIR", help="the repository (default: .)"
    )
    args = parser.parse_args(argv)
    status = 0
    for name, page in PAGES.items():
        file = args.root / name
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
