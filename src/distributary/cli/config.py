"""``distributary config``: check the configuration and print the settings in force."""

from __future__ import annotations

import argparse

from distributary.cli.output import columns, config_of, print_json
from distributary.cli.settings_help import UNITS, list_text

NAME = "config"
HELP = "check the configuration and print the settings in force"
EXAMPLES = (
    "distributary config                          check ./distributary.toml",
    "distributary --config prod.toml config --json",
    "DISTRIBUTARY_KAFKA_PORT=9192 distributary config",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments; the settings themselves follow in the help."""
    parser.description = f"{parser.description}\nSays where each came from: default, file or environment."
    parser.epilog = f"{parser.epilog}\n\nsettings:\n{list_text()}\n\n{UNITS}"


def run(args: argparse.Namespace) -> int:
    """Print every setting with its origin; mistakes are a ConfigError (exit status 2)."""
    from distributary.config.exposed import exposed_secrets, exposed_warning

    config = config_of(args)
    rows = config.effective()
    if args.json:
        settings = [
            {"key": row.key, "value": row.value, "from": row.origin.kind, "place": row.origin.place}
            for row in rows
        ]
        exposed = list(exposed_secrets(config))
        print_json({"file": str(config.path), "settings": settings, "exposed": exposed})
        return 0
    print(columns([(row.key, row.text, str(row.origin)) for row in rows], ("SETTING", "VALUE", "FROM")))
    print(f"\n{config.path}: good; {_count(config.feeds, 'feed')}, {_count(config.views, 'view')}")
    if warning := exposed_warning(config):
        print(f"warning: {warning}")
    return 0


def _count(items: tuple[object, ...], word: str) -> str:
    return f"{len(items)} {word}" if len(items) == 1 else f"{len(items)} {word}s"
