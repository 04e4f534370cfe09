"""The commands about access to a cluster: ``distributary acls`` and ``distributary users`` (SCRAM)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from distributary.cli.command_line import (
    Args,
    combine,
    group,
    print_json,
    print_note,
    print_result,
    print_rows,
)
from distributary.cli.kafka_options import KafkaGroup, cluster_of, cluster_options
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.kafka.access_admin import Acl, ScramUser

_KINDS = ("topic", "group", "transactional-id")
_ROLES: dict[str, dict[str, tuple[str, ...]]] = {
    "producer": {"topic": ("write", "describe", "create")},
    "consumer": {"topic": ("read", "describe"), "group": ("read",)},
}

_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_MAX_PASSWORD = 1024

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
            kind=kind,
            name=name,
            principal=args.principal,
            operation=operation,
            host=args.host,
            allow=False if args.deny else None,
            prefixed=True if args.prefixed else None,
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
        Acl(
            kind=kind,
            name=name,
            principal=args.principal,
            operation=operation,
            host=host,
            allow=not args.deny,
            prefixed=args.prefixed,
        )
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


users_group = group(
    "users",
    details="Their passwords are checked with SCRAM.",
    examples=(
        "distributary users list",
        "distributary users add ann                            prints a new password, once",
        "distributary users add ann --password-stdin < file    uses the password in the file",
        "distributary users add ann --replace                  a new password for a user that exists",
        "distributary users delete ann",
        "distributary acls add --principal User:ann --operation read --topic sportsbook.odds   grant access",
    ),
)


@users_group.command("list")
@click.argument("names", nargs=-1, metavar="[NAME]…", help="only these users")
@cluster_options
def list_users(args: Args) -> int:
    """List the users, without their passwords."""
    from distributary.kafka import access_admin

    found = access_admin.list_users(cluster_of(args), args.names)
    rows = [(one.name, one.mechanism, str(one.iterations)) for one in found]
    print_rows(args, [one._asdict() for one in found], rows, ("USER", "MECHANISM", "ITERATIONS"))
    return 0


@users_group.command("add")
@click.argument("name", metavar="NAME", help="the user; in ACLs it is User:NAME")
@click.option("--password-stdin", is_flag=True, help="read the password from standard input")
@click.option("--replace", is_flag=True, help="replace the password of a user that exists")
@click.option(
    "--mechanism",
    type=click.Choice(_MECHANISMS),
    default=_MECHANISMS[0],
    help=f"how passwords are checked (default: {_MECHANISMS[0]})",
)
@click.option("--iterations", type=int, metavar="N", help="4096 to 16384 (default: 8192)")
@cluster_options
def add_user(args: Args) -> int:
    """Add a user, and print its new password."""
    from distributary.config.embedded_defaults import new_password
    from distributary.kafka import access_admin

    iterations = access_admin.ITERATIONS if args.iterations is None else args.iterations
    if iterations not in access_admin.ITERATION_LIMITS:
        raise UsageError(f"--iterations {iterations}: expected 4096 to 16384")
    _check_name(args.name)
    password = _read_password() if args.password_stdin else new_password()
    cluster = cluster_of(args)
    existing = [
        one for one in access_admin.list_users(cluster, [args.name]) if one.mechanism == args.mechanism
    ]
    if existing and not args.replace:
        raise UsageError(
            f"user {args.name} exists already ({args.mechanism})",
            hint="Replace its password with --replace",
        )
    access_admin.set_passwords(cluster, {args.name: password}, args.mechanism, iterations)
    user = access_admin.ScramUser(args.name, args.mechanism, iterations)
    if args.json:
        shown = {} if args.password_stdin else {"password": password}
        print_json({**user._asdict(), **shown})
        return 0
    print(f"user {args.name}: {'has a new password' if existing else 'added'} ({args.mechanism})")
    if not args.password_stdin:
        print(f"password: {password}")
        print_note(args, "store it now, it is not shown again")
    return 0


@users_group.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME…", help="the users")
@click.option("--mechanism", type=click.Choice(_MECHANISMS), help="delete only the password for this one")
@cluster_options
def delete_users(args: Args) -> int:
    """Delete users; their ACLs remain."""
    from distributary.kafka import access_admin

    cluster = cluster_of(args)
    found = [
        one for one in access_admin.list_users(cluster, args.names) if args.mechanism in (None, one.mechanism)
    ]
    if missing := sorted(set(args.names) - {one.name for one in found}):
        raise UsageError(
            f"no such user: {', '.join(missing)}", hint="List them with: distributary users list"
        )
    access_admin.delete_credentials(cluster, found)
    _show_deleted(args, found)
    return 0


def _show_deleted(args: Args, found: list[ScramUser]) -> None:
    if args.json:
        print_json([one._asdict() for one in found])
        return
    for one in found:
        print(f"user {one.name}: deleted ({one.mechanism})")
    print_note(args, "its ACLs remain: distributary acls list --principal User:NAME")


def _check_name(name: str) -> None:
    if not name or name != name.strip() or any(ord(char) < 32 for char in name):
        raise UsageError(f"{name!r} is not a valid user name")
    if name.startswith("User:"):
        raise UsageError(f"{name!r} is a principal", hint=f"Give the name alone: {name[5:]}")


def _read_password() -> str:
    try:
        text = sys.stdin.read(_MAX_PASSWORD + 1).strip("\r\n")
    except UnicodeDecodeError:
        raise UsageError("the password is not valid UTF-8") from None
    if not text:
        raise UsageError("standard input contains no password")
    if len(text) > _MAX_PASSWORD or "\n" in text:
        raise UsageError(f"the password must be one line of at most {_MAX_PASSWORD} characters")
    return text
