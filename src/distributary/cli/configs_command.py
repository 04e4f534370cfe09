"""``distributary configs``: settings of topics, brokers and groups."""

from __future__ import annotations

import click

from distributary.cli.command_line import Args, combine, group, print_result, print_rows
from distributary.cli.kafka_options import KafkaGroup, cluster_of, cluster_options, settings_of
from distributary.errors import UsageError

_KINDS = ("topic", "broker", "group")

configs_group = group(
    "configs",
    cls=KafkaGroup,
    examples=(
        "distributary configs describe topic sportsbook.odds          its own settings; --all for every one",
        "distributary configs alter topic sportsbook.odds --set retention.ms=3600000 --unset cleanup.policy",
        "distributary configs alter broker 101 --set log.cleaner.threads=2",
        "distributary configs --describe --entity-type topics --entity-name sportsbook.odds --all",
    ),
)


_entity_options = combine(
    click.argument("kind", required=False, metavar="KIND", help="topic, broker or group"),
    click.argument("name", required=False, metavar="NAME", help="its name; a broker's id"),
    *(
        click.option(option, hidden=True)
        for option in ("--entity-type", "--entity-name", *(f"--{kind}" for kind in _KINDS))
    ),
)
"""The entity, as two words or by the options of Kafka's own tool."""


@configs_group.command("describe")
@_entity_options
@click.option("--all", is_flag=True, help="also settings with their default values")
@cluster_options
def describe_config(args: Args) -> int:
    """Show settings."""
    from distributary.kafka import config_admin

    kind, name = _target(args)
    found = [one for one in config_admin.describe_config(cluster_of(args), kind, name) if args.all or one.own]
    rows = [(one.name, _value(one.value, one.sensitive), one.source) for one in found]
    body = {"kind": kind, "name": name, "settings": [one._asdict() for one in found]}
    print_rows(args, body, rows, ("SETTING", "VALUE", "FROM"))
    if not found:
        print_result(args, f"{kind} {name}: all settings have the brokers' values; see --all")
    return 0


@configs_group.command("alter")
@_entity_options
@click.option("--set", multiple=True, metavar="NAME=VALUE", help="a setting; may be repeated")
@click.option("--unset", "--delete-config", "unset", multiple=True, metavar="NAME", help="restore a default")
@click.option("--dry-run", is_flag=True, help="let the brokers check it, change nothing")
@cluster_options
def alter_config(args: Args) -> int:
    """Change settings, or restore their defaults."""
    from distributary.kafka import config_admin

    kind, name = _target(args)
    values, removed = settings_of(args.set), [one for text in args.unset for one in text.split(",")]
    if not values and not removed:
        raise UsageError("nothing to alter", hint="Give --set NAME=VALUE or --unset NAME")
    config_admin.alter_config(cluster_of(args), kind, name, values, removed, validate_only=args.dry_run)
    line = f"{kind} {name}: {'would be ' if args.dry_run else ''}altered"
    body = {"kind": kind, "name": name, "set": values, "unset": removed, "dry_run": args.dry_run}
    print_result(args, line, body)
    return 0


def _target(args: Args) -> tuple[str, str]:
    kind, name = args.kind or args.entity_type, args.name or args.entity_name
    if args.entity_type and args.kind:
        name = args.kind
    for one in _KINDS:
        if getattr(args, one) is not None:
            kind, name = one, getattr(args, one)
    kind = (kind or "").removesuffix("s")
    if kind in ("user", "client", "ip"):
        raise UsageError(f"settings of a {kind} are quotas", hint="See: distributary quotas --help")
    if kind not in _KINDS or not name:
        raise UsageError(
            "which topic, broker or group?", hint="As in: distributary configs describe topic sportsbook.odds"
        )
    return kind, name


def _value(value: str | None, sensitive: bool) -> str:
    return "(hidden)" if sensitive else "-" if value is None else value
