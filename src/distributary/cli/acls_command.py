"""``distributary acls``: who may do what with which topics and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from distributary.cli.command_line import Args, combine, group
from distributary.cli.kafka_options import KafkaGroup, cluster_of, cluster_options
from distributary.cli.output import print_result, print_rows
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.kafka.access_admin import Acl

_KINDS = ("topic", "group", "transactional-id")
_ROLES: dict[str, dict[str, tuple[str, ...]]] = {
    "producer": {"topic": ("write", "describe", "create")},
    "consumer": {"topic": ("read", "describe"), "group": ("read",)},
}

acls_group = group(
    "acls",
    cls=KafkaGroup,
    renamed={"--allow-principal": "--principal", "--allow-host": "--host", "--deny-host": "--host"},
    examples=(
        "distributary acls list --topic sportsbook.odds",
        "distributary acls add --principal User:ann --operation read --topic sportsbook. --prefixed",
        "distributary acls add --principal User:ann --consumer --topic sportsbook.odds --group board",
        "distributary acls add --principal User:bob --operation write --topic sportsbook.odds --deny",
        "distributary acls remove --principal User:ann                  shows them; --execute removes them",
        "distributary acls --add --allow-principal User:ann --operation Read --topic sportsbook.odds",
    ),
)


_acl_options = combine(
    click.option("--principal", metavar="User:NAME", help="the user"),
    click.option("--deny-principal", hidden=True),
    click.option("--operation", multiple=True, metavar="OPERATION", help="read, write, all …"),
    *(
        click.option(f"--{kind}", multiple=True, metavar="NAME", help=f"a {kind}; * for all")
        for kind in _KINDS
    ),
    click.option("--cluster", is_flag=True, help="the cluster itself"),
    click.option("--prefixed", is_flag=True, help="all whose name begins with NAME"),
    click.option("--resource-pattern-type", hidden=True),
    click.option("--host", metavar="ADDRESS", help="only from this address (default: any)"),
    click.option("--deny", is_flag=True, help="deny instead of allow"),
)


@acls_group.command("list")
@_acl_options
@cluster_options
def list_acls(args: Args) -> int:
    """List the ACLs that match."""
    _show(args, _matching(args))
    return 0


@acls_group.command("add")
@_acl_options
@click.option("--producer", is_flag=True, help="everything that a producer needs on --topic")
@click.option("--consumer", is_flag=True, help="everything that a consumer needs on --topic and --group")
@cluster_options
def add_acls(args: Args) -> int:
    """Add ACLs."""
    from distributary.kafka import access_admin

    _normalize(args)
    added = _new(args)
    access_admin.add_acls(cluster_of(args), added)
    _show(args, added)
    return 0


@acls_group.command("remove")
@_acl_options
@click.option("--execute", "--force", "execute", is_flag=True, help="do it")
@cluster_options
def remove_acls(args: Args) -> int:
    """Remove all ACLs that match; without --execute only show them."""
    found = _matching(args, remove=True)
    _show(args, found)
    outcome = "removed" if args.execute else "nothing was changed; remove them with --execute"
    print_result(args, f"{len(found)} ACLs: {outcome}")
    return 0


def _normalize(args: Args) -> None:
    """Check the values, and read those of Kafka's own tool."""
    from distributary.kafka import access_admin

    if args.deny_principal is not None:
        args.principal, args.deny = args.deny_principal, True
    args.prefixed = args.prefixed or (args.resource_pattern_type or "").lower() == "prefixed"
    if args.principal is not None:
        access_admin.check_principal(args.principal)
    args.operation = [access_admin.parse_operation(one) for one in args.operation]


def _matching(args: Args, *, remove: bool = False) -> list[Acl]:
    """Find what the options match; with ``remove`` and --execute, remove it."""
    from distributary.kafka import access_admin

    _normalize(args)
    cluster = cluster_of(args)
    resources: list[tuple[str, str] | tuple[None, None]] = [*_resources(args)] or [(None, None)]
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
        for kind, name in resources
        for operation in args.operation or [None]
    ]
    if remove and filters == [access_admin.AclFilter()]:
        raise UsageError("which ACLs?", hint="Give at least one of --principal, --topic, --group …")
    action = access_admin.remove_acls if remove and args.execute else access_admin.list_acls
    found: dict[Acl, None] = {}
    for one in filters:
        found |= dict.fromkeys(action(cluster, one))
    return list(found)


def _new(args: Args) -> list[Acl]:
    from distributary.kafka.access_admin import Acl

    resources, host = _resources(args), args.host or "*"
    if args.principal is None:
        raise UsageError("which user?", hint="Give --principal User:NAME")
    if not resources:
        raise UsageError("which topic or group?", hint="Give --topic NAME, --group NAME or --cluster")
    operations_on = {kind: list(args.operation) for kind, _ in resources}
    for name, operations_of in _ROLES.items():
        if getattr(args, name):
            if missing := set(operations_of) - operations_on.keys():
                raise UsageError(f"--{name} needs --{min(missing)}")
            for kind, operations in operations_of.items():
                operations_on[kind] += operations
    if not any(operations_on.values()):
        raise UsageError("which operation?", hint="Give --operation read, --producer or --consumer")
    return [
        Acl(kind, name, args.principal, operation, host, not args.deny, args.prefixed)
        for kind, name in resources
        for operation in dict.fromkeys(operations_on[kind])
    ]


def _resources(args: Args) -> list[tuple[str, str]]:
    from distributary.kafka.access_admin import CLUSTER

    found = [(kind, name) for kind in _KINDS for name in getattr(args, kind.replace("-", "_")) or ()]
    return [*found, *([("cluster", CLUSTER)] if args.cluster else [])]


def _show(args: Args, acls: Sequence[Acl]) -> None:
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
    heads = ("PRINCIPAL", "MAY", "OPERATION", "ON", "FROM")
    print_rows(args, [one._asdict() for one in acls], rows, heads)
