"""``distributary users``: the SCRAM users of a Kafka cluster."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from distributary.cli.kafka_options import add_kafka, cluster_of
from distributary.cli.output import columns, print_json, print_note
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.kafka.access_admin import ScramUser

NAME = "users"
HELP = "list, add and delete users that log in with a password (SCRAM)"
EXAMPLES = (
    "distributary users list",
    "distributary users add ann                            prints a new password, once",
    "distributary users add ann --password-stdin < file    takes that of the file",
    "distributary users add ann --replace                  a new password for one that is there",
    "distributary users delete ann",
    "distributary acls add --principal User:ann --operation read --topic sportsbook.odds   what she may do",
)

_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_LONGEST = 1024


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="list them, without their passwords, which Kafka does not know")
    listed.add_argument("names", nargs="*", metavar="NAME", help="only these")
    added = actions.add_parser("add", help="add one, and print its new password")
    added.add_argument("name", metavar="NAME", help="the user; in ACLs it is User:NAME")
    added.add_argument("--password-stdin", action="store_true", help="read the password from standard input")
    added.add_argument("--replace", action="store_true", help="also where there is one of that name")
    added.add_argument(
        "--mechanism", choices=_MECHANISMS, default=_MECHANISMS[0], help=f"default: {_MECHANISMS[0]}"
    )
    added.add_argument("--iterations", type=int, metavar="N", help="4096 to 16384 (default: 8192)")
    deleted = actions.add_parser("delete", help="delete some; their ACLs stay")
    deleted.add_argument("names", nargs="+", metavar="NAME", help="which")
    deleted.add_argument("--mechanism", choices=_MECHANISMS, help="only this one's password")
    for one in (listed, added, deleted):
        add_kafka(one)


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    return {"list": _list, "add": _add, "delete": _delete}[args.action](args)


def _list(args: argparse.Namespace) -> int:
    from distributary.kafka import access_admin

    found = access_admin.list_users(cluster_of(args), args.names)
    if args.json:
        print_json([one._asdict() for one in found])
    else:
        rows = [(one.name, one.mechanism, str(one.iterations)) for one in found]
        print(columns(rows, ("USER", "MECHANISM", "ITERATIONS")))
    return 0


def _add(args: argparse.Namespace) -> int:
    from distributary.config.embedded_defaults import new_password
    from distributary.kafka import access_admin

    iterations = access_admin.ITERATIONS if args.iterations is None else args.iterations
    if iterations not in access_admin.ITERATION_LIMITS:
        raise UsageError(f"--iterations {iterations}: Kafka takes 4096 to 16384")
    _check_name(args.name)
    password = _read_password() if args.password_stdin else new_password()
    cluster = cluster_of(args)
    there = [one for one in access_admin.list_users(cluster, [args.name]) if one.mechanism == args.mechanism]
    if there and not args.replace:
        raise UsageError(
            f"there is a user {args.name} already ({args.mechanism})",
            hint="Give it another password with --replace",
        )
    access_admin.set_passwords(cluster, {args.name: password}, args.mechanism, iterations)
    user = access_admin.ScramUser(args.name, args.mechanism, iterations)
    if args.json:
        shown = {} if args.password_stdin else {"password": password}
        print_json({**user._asdict(), **shown})
        return 0
    print(f"user {args.name}: {'has another password' if there else 'added'} ({args.mechanism})")
    if not args.password_stdin:
        print(f"password: {password}")
        print_note(args, "keep it now, it is not shown again")
    return 0


def _delete(args: argparse.Namespace) -> int:
    from distributary.kafka import access_admin

    cluster = cluster_of(args)
    found = [
        one for one in access_admin.list_users(cluster, args.names) if args.mechanism in (None, one.mechanism)
    ]
    if missing := sorted(set(args.names) - {one.name for one in found}):
        raise UsageError(
            f"there is no user {', '.join(missing)}", hint="List them with: distributary users list"
        )
    access_admin.delete_credentials(cluster, found)
    _show_deleted(args, found)
    return 0


def _show_deleted(args: argparse.Namespace, found: list[ScramUser]) -> None:
    if args.json:
        print_json([one._asdict() for one in found])
        return
    for one in found:
        print(f"user {one.name}: deleted ({one.mechanism})")
    print_note(args, "what it may do stays: distributary acls list --principal User:NAME")


def _check_name(name: str) -> None:
    if not name or name != name.strip() or any(ord(char) < 32 for char in name):
        raise UsageError(f"{name!r} is no name of a user")
    if name.startswith("User:"):
        raise UsageError(f"{name!r} is a principal", hint=f"Give the name alone: {name[5:]}")


def _read_password() -> str:
    try:
        text = sys.stdin.read(_LONGEST + 1).strip("\r\n")
    except UnicodeDecodeError:
        raise UsageError("the password is not UTF-8 text") from None
    if not text:
        raise UsageError("there is no password on standard input")
    if len(text) > _LONGEST or "\n" in text:
        raise UsageError("the password on standard input must be one line, of 1024 characters at most")
    return text
