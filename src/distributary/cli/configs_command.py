"""``distributary configs``: settings of topics, brokers and groups."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from distributary.cli.kafka_options import add_kafka, cluster_of, settings_of
from distributary.cli.kafka_options import habits as understood
from distributary.cli.output import columns, print_json
from distributary.errors import UsageError

NAME = "configs"
HELP = "show and change settings of topics, brokers and groups"
EXAMPLES = (
    "distributary configs describe topic sportsbook.odds          those that were set; --all for every one",
    "distributary configs alter topic sportsbook.odds --set retention.ms=3600000 --unset cleanup.policy",
    "distributary configs alter broker 101 --set log.cleaner.threads=2",
    "distributary configs --describe --entity-type topics --entity-name sportsbook.odds --all",
)

_ACTIONS = {"describe": "show settings", "alter": "set some, give others back to their defaults"}
_KINDS = ("topic", "broker", "group")


def habits(words: Sequence[str]) -> list[str]:
    """Understand what users of kafka-configs.sh type."""
    return understood(words, _ACTIONS)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    made = {name: actions.add_parser(name, help=text) for name, text in _ACTIONS.items()}
    for one in made.values():
        one.add_argument("kind", nargs="?", help="topic, broker or group")
        one.add_argument("name", nargs="?", help="its name; a broker's id")
        one.add_argument("--entity-type", help=argparse.SUPPRESS)
        one.add_argument("--entity-name", help=argparse.SUPPRESS)
        for kind in _KINDS:
            one.add_argument(f"--{kind}", help=argparse.SUPPRESS)
        add_kafka(one)
    made["describe"].add_argument("--all", action="store_true", help="those with their default values too")
    made["alter"].add_argument("--set", action="append", metavar="NAME=VALUE", help="a setting")
    made["alter"].add_argument(
        "--unset", "--delete-config", action="append", metavar="NAME", help="back to its default"
    )
    made["alter"].add_argument("--dry-run", action="store_true", help="let the brokers check it only")


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    kind, name = _target(args)
    return _describe(args, kind, name) if args.action == "describe" else _alter(args, kind, name)


def _describe(args: argparse.Namespace, kind: str, name: str) -> int:
    from distributary.kafka import config_admin

    found = [one for one in config_admin.describe_config(cluster_of(args), kind, name) if args.all or one.own]
    if args.json:
        print_json({"kind": kind, "name": name, "settings": [one._asdict() for one in found]})
        return 0
    rows = [(one.name, _value(one.value, one.sensitive), one.source) for one in found]
    print(columns(rows, ("SETTING", "VALUE", "FROM")))
    if not found:
        print(f"{kind} {name}: all as the brokers have it; see --all", file=sys.stderr)
    return 0


def _alter(args: argparse.Namespace, kind: str, name: str) -> int:
    from distributary.kafka import config_admin

    values, removed = settings_of(args.set), [one for text in args.unset or () for one in text.split(",")]
    if not values and not removed:
        raise UsageError("nothing to alter", hint="Give --set NAME=VALUE or --unset NAME")
    config_admin.alter_config(cluster_of(args), kind, name, values, removed, validate_only=args.dry_run)
    if args.json:
        print_json({"kind": kind, "name": name, "set": values, "unset": removed, "dry_run": args.dry_run})
    else:
        print(f"{kind} {name}: {'would be ' if args.dry_run else ''}altered", file=sys.stderr)
    return 0


def _target(args: argparse.Namespace) -> tuple[str, str]:
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
        raise UsageError("of what?", hint="As in: distributary configs describe topic sportsbook.odds")
    return kind, name


def _value(value: str | None, sensitive: bool) -> str:
    return "(hidden)" if sensitive else "-" if value is None else value
