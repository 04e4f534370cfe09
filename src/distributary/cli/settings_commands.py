"""``distributary help``: explain a command, a section or a setting."""

from __future__ import annotations

import argparse

from distributary.cli.command_line import help_text, program_parser
from distributary.cli.commands import BY_NAME, load
from distributary.errors import UsageError

NAME = "help"
HELP = "explain a command, a section or a setting"
EXAMPLES = (
    "distributary help up                the command up",
    "distributary help settings          every setting",
    "distributary help kafka             the settings of [kafka]",
    "distributary help views.ttl         one setting",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("topic", nargs="?", help='a command, "settings", a section or a setting')


def run(args: argparse.Namespace) -> int:
    """Print the text; an unknown topic is an error with the nearest."""
    topic = args.topic
    if topic is None:
        program_parser().print_help()
        return 0
    command = BY_NAME.get(topic)
    if command and command.main:
        status: int = load(command).main(["--help"])  # type: ignore[attr-defined]
        return status
    print(help_text(command).rstrip() if command else _settings(topic))
    return 0


def _settings(topic: str) -> str:
    from distributary.cli.settings_help import UNITS, list_text, section_text, setting_text
    from distributary.config.problems import nearest
    from distributary.config.settings_table import GROUPS, SETTINGS

    if topic == "settings":
        return f"{list_text()}\n\n{UNITS}"
    if topic and topic in GROUPS:
        return f"{section_text(topic)}\n\n{UNITS}"
    by_key = {setting.key.replace("<name>.", ""): setting for setting in SETTINGS}
    by_env = {setting.env: setting for setting in SETTINGS}
    found = by_key.get(topic) or by_env.get(topic)
    if found:
        return setting_text(found)
    near = nearest(topic, [*BY_NAME, *GROUPS, *by_key])
    hint = f'Did you mean "{near}"?' if near else "Try: distributary help settings"
    raise UsageError(f'there is no command, section or setting "{topic}"', hint=hint)
