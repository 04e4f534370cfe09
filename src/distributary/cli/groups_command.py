"""``distributary groups``: list, describe, set back and delete consumer groups."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distributary.cli.kafka_options import add_kafka, cluster_of, names_of
from distributary.cli.kafka_options import habits as understood
from distributary.cli.output import columns, print_json
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.kafka.group_admin import Group, PartitionProgress
    from distributary.kafka.offset_spec import OffsetSpec

NAME = "groups"
HELP = "list, describe, set back and delete consumer groups"
EXAMPLES = (
    "distributary groups list",
    "distributary groups describe shop.billing                  offsets and lag of each partition",
    "distributary groups reset shop.billing --topic shop.orders --to-earliest             what it would do",
    "distributary groups reset shop.billing --topic shop.orders:0,1 --to-offset 42 --execute",
    'distributary groups reset shop.billing --all-topics --to-datetime "2026-01-31T08:00:00Z" --execute',
    "distributary groups delete shop.billing",
    "distributary groups --describe --group shop.billing --members",
)

_ACTIONS = {
    "list": "list the groups",
    "describe": "show how far a group is, or who is in it",
    "reset": "set a group's offsets; without --execute only show what it would do",
    "delete": "forget groups and their offsets",
}


def habits(words: Sequence[str]) -> list[str]:
    """Understand what users of kafka-consumer-groups.sh type."""
    return understood(words, _ACTIONS, {"--reset-offsets": "reset"})


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    parser.set_defaults(command=NAME)
    made = {name: actions.add_parser(name, help=text) for name, text in _ACTIONS.items()}
    for name, one in made.items():
        if name != "list":
            one.add_argument("names", nargs="*", metavar="GROUP", help="the group, or several")
            one.add_argument("--group", dest="option", action="append", help=argparse.SUPPRESS)
        if name in ("describe", "delete"):
            one.add_argument("--all-groups", action="store_true", help="every group")
        add_kafka(one)
    made["list"].add_argument("--state", metavar="STATE", help="only those in this state: stable, empty …")
    described = made["describe"]
    described.add_argument("--members", action="store_true", help="who is in it, and what each reads")
    described.add_argument("--state", action="store_true", help="its state and its coordinator")
    described.add_argument("--offsets", action="store_true", help=argparse.SUPPRESS)
    reset = made["reset"]
    reset.add_argument(
        "--topic", action="append", metavar="TOPIC[:0,1]", help="of this topic, or some of its partitions"
    )
    reset.add_argument("--all-topics", action="store_true", help="of every topic that it has offsets in")
    to = reset.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-earliest", action="store_true", help="to the first records that are there")
    to.add_argument("--to-latest", action="store_true", help="to the end")
    to.add_argument("--to-offset", type=int, metavar="N", help="to an offset")
    to.add_argument("--to-datetime", metavar="TIME", help="to the first record of that time or later")
    to.add_argument("--by-duration", metavar="TIME", help='back by so long: "15 m", PT15M')
    to.add_argument("--shift-by", type=int, metavar="N", help="by N records, back if negative")
    to.add_argument("--to-current", action="store_true", help="where it is now")
    done = reset.add_mutually_exclusive_group()
    done.add_argument("--execute", action="store_true", help="do it")
    done.add_argument("--dry-run", action="store_true", help="only show it (as without --execute)")


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    return {"list": _list, "describe": _describe, "reset": _reset, "delete": _delete}[args.action](args)


def _list(args: argparse.Namespace) -> int:
    from distributary.kafka import group_admin

    wanted = (args.state or "").lower()
    found = [
        (name, state) for name, state in group_admin.list_groups(cluster_of(args)) if wanted in ("", state)
    ]
    if args.json:
        print_json([{"name": name, "state": state} for name, state in found])
    else:
        print(columns(found, ("GROUP", "STATE")))
    return 0


def _wanted(args: argparse.Namespace, cluster: Any) -> list[str]:
    from distributary.kafka import group_admin

    return (
        [name for name, _ in group_admin.list_groups(cluster)] if args.all_groups else names_of(args, "group")
    )


def _describe(args: argparse.Namespace) -> int:
    from distributary.kafka import group_admin

    cluster = cluster_of(args)
    found = [group_admin.get_group(cluster, name) for name in _wanted(args, cluster)]
    whole = [(group, group_admin.group_progress(cluster, group)) for group in found]
    if args.json:
        print_json([as_json(group, rows) for group, rows in whole])
    elif args.members:
        print("\n\n".join(members_text(group) for group, _ in whole))
    elif args.state:
        rows = [(g.name, g.state, g.protocol, g.coordinator, str(len(g.members))) for g, _ in whole]
        print(columns(rows, ("GROUP", "STATE", "ASSIGNOR", "COORDINATOR", "MEMBERS")))
    else:
        print("\n\n".join(offsets_text(group, rows) for group, rows in whole))
    return 0


def _reset(args: argparse.Namespace) -> int:
    from distributary.kafka import group_admin

    (name, *more) = names_of(args, "group")
    if more:
        raise UsageError("one group at a time", hint="Reset each by itself")
    if bool(args.topic) == args.all_topics:
        raise UsageError("which topics?", hint="Give --topic TOPIC, --topic TOPIC:0,1 or --all-topics")
    to = _offset_spec(args)
    wanted = dict(map(_topic, args.topic or ()))
    cluster = cluster_of(args)
    if args.all_topics:
        wanted = dict.fromkeys(sorted({topic for topic, _ in group_admin.committed_offsets(cluster, name)}))
        if not wanted:
            group_admin.get_group(cluster, name)
            raise UsageError(f"group {name} has no offsets yet", hint="Name the topic: --topic TOPIC")
    changes = group_admin.plan_reset(cluster, name, to, wanted)
    if args.execute:
        group_admin.reset_offsets(cluster, name, changes)
    if args.json:
        rows = [
            {"topic": m.topic, "partition": m.partition, "before": m.before, "after": m.after}
            for m in changes
        ]
        print_json({"group": name, "executed": args.execute, "moves": rows})
        return 0
    table = [(m.topic, str(m.partition), _number(m.before), str(m.after), _step(m)) for m in changes]
    print(columns(table, ("TOPIC", "PARTITION", "BEFORE", "AFTER", "RECORDS")))
    for change in changes:
        if to.kind == "offset" and change.after != to.value:
            there = f"topic {change.topic}, partition {change.partition}: there is no offset {to.value}"
            print(f"{there}, {change.after} is the nearest", file=sys.stderr)
    said = "done" if args.execute else "nothing was changed; do it with --execute"
    print(f"group {name}: {said}", file=sys.stderr)
    return 0


def _delete(args: argparse.Namespace) -> int:
    from distributary.kafka import group_admin

    cluster = cluster_of(args)
    names = _wanted(args, cluster)
    for name in names:
        group = group_admin.get_group(cluster, name)
        if group.live:
            raise group_admin.group_busy_error(group, "it cannot be deleted")
        group_admin.delete_group(cluster, name)
        if not args.json:
            print(f"group {name}: deleted", file=sys.stderr)
    if args.json:
        print_json({"deleted": names})
    return 0


def _offset_spec(args: argparse.Namespace) -> OffsetSpec:
    from distributary.kafka.offset_spec import OffsetSpec, parse_time

    if args.to_offset is not None:
        return OffsetSpec("offset", args.to_offset)
    if args.shift_by is not None:
        return OffsetSpec("shift", args.shift_by)
    if args.to_datetime or args.by_duration:
        return OffsetSpec("time", parse_time(args.to_datetime or args.by_duration))
    return OffsetSpec("earliest" if args.to_earliest else "latest" if args.to_latest else "current")


def _topic(text: str) -> tuple[str, list[int] | None]:
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(one) for one in numbers.split(",")]
    except ValueError:
        raise UsageError(
            f"--topic {text!r}: after the colon come numbers", hint="As in: orders:0,1"
        ) from None


def offsets_text(group: Group, rows: Sequence[PartitionProgress]) -> str:
    """How far a group is, as Kafka's own tool shows it."""
    table = [
        (
            one.topic,
            str(one.partition),
            _number(one.offset),
            _number(one.end),
            _number(one.lag),
            one.member.client_id if one.member else "-",
            one.member.host if one.member else "-",
        )
        for one in rows
    ]
    heads = ("TOPIC", "PARTITION", "OFFSET", "END", "LAG", "CLIENT", "HOST")
    total = sum(one.lag or 0 for one in rows)
    head = f"group {group.name}: {group.state}, {len(group.members)} members, lag {total:,}"
    return f"{head}\n{columns(table, heads)}"


def members_text(group: Group) -> str:
    """Who is in a group."""
    table = [(one.client_id, one.host, _places(one.partitions), one.id) for one in group.members]
    head = f"group {group.name}: {group.state}, {len(group.members)} members"
    return f"{head}\n{columns(table, ('CLIENT', 'HOST', 'READS', 'MEMBER'))}"


def as_json(group: Group, rows: Sequence[PartitionProgress]) -> dict[str, Any]:
    """All of a group as JSON."""
    return {
        "name": group.name,
        "state": group.state,
        "assignor": group.protocol,
        "coordinator": group.coordinator,
        "lag": sum(one.lag or 0 for one in rows),
        "members": [
            {
                "client_id": one.client_id,
                "host": one.host,
                "member": one.id,
                "reads": [{"topic": topic, "partition": number} for topic, number in one.partitions],
            }
            for one in group.members
        ],
        "offsets": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "offset": one.offset,
                "end": one.end,
                "lag": one.lag,
                "client_id": one.member.client_id if one.member else None,
            }
            for one in rows
        ],
    }


def _places(places: Sequence[tuple[str, int]]) -> str:
    found: dict[str, list[str]] = {}
    for topic, number in places:
        found.setdefault(topic, []).append(str(number))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in found.items()) or "-"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _step(change: Any) -> str:
    return "-" if change.before is None else f"{change.after - change.before:+d}"
