"""``distributary users``: the SCRAM users of a Kafka cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from distributary.cli.command_line import Args, group
from distributary.cli.kafka_options import cluster_of, cluster_options
from distributary.cli.output import print_json, print_note, print_rows
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.kafka.access_admin import ScramUser

_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_MAX_PASSWORD = 1024

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
