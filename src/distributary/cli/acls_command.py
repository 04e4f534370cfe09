"""``distributary acls``: who may do what with which topics and groups."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from distributary.cli.kafka_options import add_kafka, cluster_of
from distributary.cli.kafka_options import habits as understood
from distributary.cli.output import columns, print_json
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.kafka.access_admin import Acl

NAME = "acls"
HELP = "list, add and remove access control lists"
EXAMPLES = (
    "distributary acls list --topic sportsbook.odds",
    "distributary acls add --principal User:ann --operation read --topic sportsbook. --prefixed",
    "distributary acls add --principal User:ann --consumer --topic sportsbook.odds --group sportsbook.board",
    "distributary acls add --principal User:bob --operation write --topic sportsbook.odds --deny",
    "distributary acls remove --principal User:ann                  shows which; --execute removes them",
    "distributary acls --add --allow-principal User:ann --operation Read --topic sportsbook.odds",
)

_ACTIONS = {
    "list": "list them",
    "add": "add some",
    "remove": "remove all that match; without --execute only show them",
}
_KINDS = ("topic", "group", "transactional-id")
_SETS: dict[str, dict[str, tuple[str, ...]]] = {
    "producer": {"topic": ("write", "describe", "create")},
    "consumer": {"topic": ("read", "describe"), "group": ("read",)},
}


def habits(words: Sequence[str]) -> list[str]:
    """Understand what users of kafka-acls.sh type."""
    found = understood(words, _ACTIONS)
    if "--deny-principal" in found:
        found.append("--deny")
    renamed = {
        "--allow-principal": "--principal",
        "--deny-principal": "--principal",
        "--allow-host": "--host",
        "--deny-host": "--host",
    }
    return [renamed.get(word, word) for word in found]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    made = {name: actions.add_parser(name, help=text) for name, text in _ACTIONS.items()}
    for name, one in made.items():
        one.add_argument("--principal", metavar="User:NAME", help="who")
        one.add_argument("--operation", action="append", metavar="OPERATION", help="what: read, write, all …")
        for kind in _KINDS:
            one.add_argument(f"--{kind}", action="append", metavar="NAME", help=f"on this {kind}; * for all")
        one.add_argument("--cluster", action="store_true", help="on the cluster itself")
        one.add_argument("--prefixed", action="store_true", help="on all whose name begins so")
        one.add_argument("--resource-pattern-type", help=argparse.SUPPRESS)
        one.add_argument("--host", help="from this address (default: any)")
        one.add_argument("--deny", action="store_true", help="deny it instead of allowing it")
        if name == "add":
            one.add_argument("--producer", action="store_true", help="all that a producer needs on --topic")
            one.add_argument(
                "--consumer", action="store_true", help="all that a consumer needs on --topic and --group"
            )
        if name == "remove":
            one.add_argument("--execute", "--force", action="store_true", help="do it")
        add_kafka(one)


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    from distributary.kafka import access_admin

    args.prefixed = args.prefixed or (args.resource_pattern_type or "").lower() == "prefixed"
    if args.principal is not None:
        access_admin.check_principal(args.principal)
    args.operation = [access_admin.parse_operation(one) for one in args.operation or ()]
    return _add(args) if args.action == "add" else _matching(args)


def _add(args: argparse.Namespace) -> int:
    from distributary.kafka import access_admin

    wanted = _new(args)
    access_admin.add_acls(cluster_of(args), wanted)
    _show(args, wanted)
    return 0


def _matching(args: argparse.Namespace) -> int:
    from distributary.kafka import access_admin

    cluster = cluster_of(args)
    things: list[tuple[str, str] | tuple[None, None]] = [*_things(args)] or [(None, None)]
    filters = [
        access_admin.AclFilter(
            kind,
            name,
            args.principal,
            operation,
            args.host,
            False if args.deny else None,
            True if args.prefixed else None,
        )
        for kind, name in things
        for operation in args.operation or [None]
    ]
    if args.action == "remove" and filters == [access_admin.AclFilter()]:
        raise UsageError(
            "which?", hint="Give --principal, --topic, --group … ; all of them at once is too much"
        )
    found: dict[Acl, None] = {}
    for one in filters:
        execute = args.action == "remove" and args.execute
        found |= dict.fromkeys(
            access_admin.remove_acls(cluster, one) if execute else access_admin.list_acls(cluster, one)
        )
    _show(args, list(found))
    if args.action == "remove" and not args.json:
        said = "removed" if args.execute else "nothing was changed; remove them with --execute"
        print(f"{len(found)} ACLs: {said}", file=sys.stderr)
    return 0


def _new(args: argparse.Namespace) -> list[Acl]:
    from distributary.kafka.access_admin import Acl

    things, host = _things(args), args.host or "*"
    if args.principal is None:
        raise UsageError("who?", hint="Give --principal User:NAME")
    if not things:
        raise UsageError("on what?", hint="Give --topic NAME, --group NAME or --cluster")
    wanted = {kind: list(args.operation) for kind, _ in things}
    for name, sets in _SETS.items():
        if getattr(args, name):
            if missing := set(sets) - wanted.keys():
                raise UsageError(f"--{name} needs --{min(missing)}")
            for kind, operations in sets.items():
                wanted[kind] += operations
    if not any(wanted.values()):
        raise UsageError("what may be done?", hint="Give --operation read, --producer or --consumer")
    return [
        Acl(kind, name, args.principal, operation, host, not args.deny, args.prefixed)
        for kind, name in things
        for operation in dict.fromkeys(wanted[kind])
    ]


def _things(args: argparse.Namespace) -> list[tuple[str, str]]:
    from distributary.kafka.access_admin import CLUSTER

    found = [(kind, name) for kind in _KINDS for name in getattr(args, kind.replace("-", "_")) or ()]
    return [*found, *([("cluster", CLUSTER)] if args.cluster else [])]


def _show(args: argparse.Namespace, acls: Sequence[Acl]) -> None:
    if args.json:
        print_json([one._asdict() for one in acls])
        return
    rows = [
        (
            one.principal,
            "allow" if one.allow else "deny",
            one.operation,
            f"{one.kind} {one.name}{'*' if one.prefixed else ''}",
            one.host,
        )
        for one in acls
    ]
    print(columns(rows, ("PRINCIPAL", "MAY", "OPERATION", "ON", "FROM")))
