"""The commands about settings: ``distributary config`` and ``distributary help``."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import cast

import click

from distributary.cli.command_line import Args, Command, columns, command, load_config, print_json
from distributary.cli.commands import BY_NAME
from distributary.config.coerce import allowed_range
from distributary.config.problems import nearest
from distributary.config.setting_field import Setting, display
from distributary.config.settings_table import GROUPS, SETTINGS
from distributary.errors import UsageError

UNITS = (
    'Durations are seconds (30) or strings ("500 ms", "30 s", "5 minutes", "1h"); sizes are bytes or\n'
    'strings ("64k", "1 MiB"). Each setting can be given by its environment variable, which overrides the\n'
    "file."
)


class _CommandWithSettings(Command):
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then every setting."""
        super().format_epilog(ctx, formatter)
        formatter.write(f"\nSettings:\n{list_text()}\n\n{UNITS}\n")


@command(
    "config",
    cls=_CommandWithSettings,
    details="Shows the source of each setting: default, file or environment.",
    examples=(
        "distributary config                          check ./distributary.toml",
        "distributary --config prod.toml config --json",
        "DISTRIBUTARY_KAFKA_PORT=9192 distributary config",
    ),
)
def config_command(args: Args) -> int:
    """Print every setting with its source; mistakes are a ConfigError (exit status 2)."""
    config = load_config(args)
    rows = config.effective()
    if args.json:
        settings = [
            {"key": row.key, "value": row.value, "from": row.origin.kind, "source": row.origin.source}
            for row in rows
        ]
        exposed = list(config.exposed_secrets())
        print_json({"file": str(config.path), "settings": settings, "exposed": exposed})
        return 0
    print(columns([(row.key, row.text, str(row.origin)) for row in rows], ("SETTING", "VALUE", "FROM")))
    print(f"\n{config.path}: valid; {_count(config.feeds, 'feed')}, {_count(config.views, 'view')}")
    if warning := config.exposed_warning():
        print(f"warning: {warning}")
    return 0


def _count(items: tuple[object, ...], word: str) -> str:
    return f"{len(items)} {word}" if len(items) == 1 else f"{len(items)} {word}s"


@command(
    "help",
    examples=(
        "distributary help up                the command up",
        "distributary help settings          every setting",
        "distributary help kafka             the settings of [kafka]",
        "distributary help views.ttl         one setting",
    ),
)
@click.argument(
    "topic", required=False, metavar="[TOPIC]", help='a command, "settings", a section or a setting'
)
@click.pass_context
def help_command(ctx: click.Context, args: Args) -> int:
    """Print the text; an unknown topic is an error with the nearest."""
    program = ctx.find_root()
    group = cast(click.Group, program.command)
    if args.topic is None:
        print(program.get_help())
    elif command := group.get_command(program, args.topic):
        with click.Context(command, parent=program, info_name=args.topic) as context:
            print(command.get_help(context))
    else:
        print(_settings(args.topic))
    return 0


def _settings(topic: str) -> str:
    if topic == "settings":
        return f"{list_text()}\n\n{UNITS}"
    if topic in GROUPS:
        return f"{section_text(topic)}\n\n{UNITS}"
    by_key = {setting.key.replace("<name>.", ""): setting for setting in SETTINGS}
    by_env = {setting.env: setting for setting in SETTINGS}
    found = by_key.get(topic) or by_env.get(topic)
    if found:
        return setting_text(found)
    near = nearest(topic, [*BY_NAME, *GROUPS, *by_key])
    hint = f'Did you mean "{near}"?' if near else "See: distributary help settings"
    raise UsageError(f'no command, section or setting is called "{topic}"', hint=hint)


def list_text(settings: Sequence[Setting] = SETTINGS, width: int = 100) -> str:
    """Describe settings one after another: key, default, what it does."""
    blocks = []
    for setting in settings:
        doc = textwrap.fill(setting.info.doc, width, initial_indent="      ", subsequent_indent="      ")
        blocks.append(f"  {setting.key} = {default(setting)}\n{doc}")
    return "\n".join(blocks)


def setting_text(setting: Setting) -> str:
    """Describe one setting in full."""
    info = setting.info
    rows = [("default", default(setting)), ("type", kind(setting)), ("environment", setting.env)]
    if info.choices:
        rows.append(("one of", ", ".join(info.choices)))
    if allowed_range(info):
        rows.append(("range", allowed_range(info)))
    if info.aliases:
        rows.append(("also written", ", ".join(info.aliases)))
    if info.example:
        rows.append(("example", f"{setting.name} = {info.example}"))
    lines = "\n".join(f"  {name:<13} {text}" for name, text in rows)
    return f"{setting.key}\n  {info.doc}\n\n{lines}"


def section_text(section: str) -> str:
    """Describe all settings of a section."""
    return list_text(GROUPS[section])


def default(setting: Setting) -> str:
    """The default as in the file, or "required"."""
    return "required" if setting.required else display(setting.info, setting.default)


def kind(setting: Setting) -> str:
    """The type in words, with the unit."""
    words = {"list": "list of strings", "table": "table of strings", "start": "string or time"}
    kind = words.get(setting.info.kind, setting.info.kind)
    unit = "" if setting.info.kind in ("duration", "size") else setting.info.unit
    return f"{kind} ({unit})" if unit else kind
