"""``distributary quotas``: who may write, read and ask how much."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from distributary.cli.kafka_options import add_kafka, cluster_of, settings_of
from distributary.cli.output import columns, print_json
from distributary.errors import UsageError

NAME = "quotas"
HELP = "list, set and delete quotas of users and client ids"
EXAMPLES = (
    "distributary quotas list",
    "distributary quotas set --client-id web --producer-byte-rate 1048576 --consumer-byte-rate 2097152",
    "distributary quotas set --user ann --request-percentage 50",
    "distributary quotas set --user-default --consumer-byte-rate 1000000   users without one of their own",
    "distributary quotas delete --client-id web consumer_byte_rate         without names: all of them",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    from distributary.kafka.quota_admin import KEYS

    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="list the quotas")
    made = actions.add_parser("set", help="set some; others stay as they are")
    deleted = actions.add_parser("delete", help="take some away, or all")
    deleted.add_argument("keys", nargs="*", metavar="QUOTA", help=f"which: {', '.join(KEYS)}")
    for key, doc in KEYS.items():
        made.add_argument(f"--{key.replace('_', '-')}", dest=key, metavar="N", help=doc)
    made.add_argument("--set", action="append", metavar="NAME=VALUE", help=argparse.SUPPRESS)
    for one in (listed, made, deleted):
        for kind, doc in (("user", "a user"), ("client-id", "a client id"), ("ip", "an address")):
            one.add_argument(f"--{kind}", metavar="NAME", help=f"of {doc}")
            one.add_argument(
                f"--{kind}-default", action="store_true", help=f"of {doc} without one of its own"
            )
        add_kafka(one)


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    return {"list": _list, "set": _set, "delete": _delete}[args.action](args)


def _list(args: argparse.Namespace) -> int:
    from distributary.kafka import quota_admin

    found = quota_admin.describe(cluster_of(args), _entity(args) or None)
    if args.json:
        print_json([{"of": dict(one.entity), "values": dict(one.values)} for one in found])
    else:
        rows = [
            (quota_admin.title(one.entity), key, f"{value:,g}" if value < 1e6 else f"{value:,.0f}")
            for one in found
            for key, value in sorted(one.values.items())
        ]
        print(columns(rows, ("OF", "QUOTA", "VALUE")))
    return 0


def _set(args: argparse.Namespace) -> int:
    from distributary.kafka import quota_admin

    entity = _needed(args)
    given = {key: getattr(args, key) for key in quota_admin.KEYS if getattr(args, key) is not None}
    values = quota_admin.read_values({**settings_of(args.set), **given})
    if not values:
        raise UsageError("which quota?", hint="As in: --producer-byte-rate 1048576")
    quota_admin.alter(cluster_of(args), entity, values)
    return _done(args, entity, f"set to {', '.join(f'{key}={value:g}' for key, value in values.items())}")


def _delete(args: argparse.Namespace) -> int:
    from distributary.kafka import quota_admin

    entity = _needed(args)
    for key in args.keys:
        quota_admin.check_key(key)
    cluster = cluster_of(args)
    held = {key for one in quota_admin.describe(cluster, entity) for key in one.values}
    if not held or not held.issuperset(args.keys):
        raise quota_admin.missing(entity)
    gone = args.keys or sorted(held)
    quota_admin.alter(cluster, entity, {}, gone)
    return _done(args, entity, f"without {', '.join(gone)}")


def _done(args: argparse.Namespace, entity: dict[str, str | None], what: str) -> int:
    from distributary.kafka import quota_admin

    if args.json:
        print_json({"of": entity, "done": what})
    else:
        print(f"quota of {quota_admin.title(entity)}: {what}", file=sys.stderr)
    return 0


def _entity(args: argparse.Namespace) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for kind, option in (("user", "user"), ("client", "client_id"), ("ip", "ip")):
        name, default = getattr(args, option), getattr(args, f"{option}_default")
        if name is not None and default:
            raise UsageError(f"--{option.replace('_', '-')}: a name or the default, not both")
        if name is not None or default:
            found[kind] = name
    if "ip" in found and len(found) > 1:
        raise UsageError("an address has quotas of its own", hint="Leave --user and --client-id out")
    return found


def _needed(args: Any) -> dict[str, str | None]:
    found = _entity(args)
    if not found:
        raise UsageError("of whom?", hint="Give --user, --client-id or both, or --ip; or one of the defaults")
    return found
