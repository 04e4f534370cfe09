"""``distributary groups``: list, describe, reset and delete consumer groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.command_line import (
    Args,
    check_exclusive,
    columns,
    group,
    print_json,
    print_result,
    print_rows,
)
from distributary.cli.kafka_options import KafkaGroup, cluster_of, cluster_options, names_argument, names_of
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.kafka.group_admin import Group, PartitionProgress
    from distributary.kafka.topic_offsets import OffsetSpec

groups_group = group(
    "groups",
    cls=KafkaGroup,
    flags={"--reset-offsets": "reset"},
    examples=(
        "distributary groups list",
        "distributary groups describe shop.billing                  offsets and lag of each partition",
        "distributary groups reset shop.billing --topic shop.orders --to-earliest             only show it",
        "distributary groups reset shop.billing --topic shop.orders:0,1 --to-offset 42 --execute",
        'distributary groups reset shop.billing --all-topics --to-datetime "2026-01-31T08:00:00Z" --execute',
        "distributary groups delete shop.billing",
        "distributary groups --describe --group shop.billing --members",
    ),
)

_names = names_argument("GROUP", "--group")
_every_group = click.option("--all-groups", is_flag=True, help="all groups")

_TARGETS = (
    "--to-earliest",
    "--to-latest",
    "--to-offset",
    "--to-datetime",
    "--by-duration",
    "--shift-by",
    "--to-current",
)


@groups_group.command("list")
@click.option("--state", metavar="STATE", help="only groups in this state: stable, empty …")
@cluster_options
def list_groups(args: Args) -> int:
    """List the groups."""
    from distributary.kafka import group_admin

    wanted = (args.state or "").lower()
    found = [
        (name, state) for name, state in group_admin.list_groups(cluster_of(args)) if wanted in ("", state)
    ]
    print_rows(args, [{"name": name, "state": state} for name, state in found], found, ("GROUP", "STATE"))
    return 0


@groups_group.command("describe")
@_names
@_every_group
@click.option("--members", is_flag=True, help="show the members, and what each reads")
@click.option("--state", is_flag=True, help="show the state and the coordinator")
@click.option("--offsets", is_flag=True, hidden=True)
@cluster_options
def describe_groups(args: Args) -> int:
    """Show the offsets and the lag of a group, or its members."""
    from distributary.kafka import group_admin

    cluster = cluster_of(args)
    found = [group_admin.get_group(cluster, name) for name in _group_names(args, cluster)]
    described = [(group, group_admin.group_progress(cluster, group)) for group in found]
    if args.json:
        print_json([as_json(group, rows) for group, rows in described])
    elif args.members:
        print("\n\n".join(members_text(group) for group, _ in described))
    elif args.state:
        rows = [(g.name, g.state, g.protocol, g.coordinator, str(len(g.members))) for g, _ in described]
        print(columns(rows, ("GROUP", "STATE", "ASSIGNOR", "COORDINATOR", "MEMBERS")))
    else:
        print("\n\n".join(offsets_text(group, rows) for group, rows in described))
    return 0


@groups_group.command("reset")
@_names
@click.option(
    "--topic", multiple=True, metavar="TOPIC[:0,1]", help="reset this topic, or some of its partitions"
)
@click.option("--all-topics", is_flag=True, help="reset every topic for which the group has offsets")
@click.option("--to-earliest", is_flag=True, help="to the first records that exist")
@click.option("--to-latest", is_flag=True, help="to the end")
@click.option("--to-offset", type=int, metavar="N", help="to an offset")
@click.option("--to-datetime", metavar="TIME", help="to the first record of that time or later")
@click.option("--by-duration", metavar="TIME", help='back by a duration: "15 m", PT15M')
@click.option("--shift-by", type=int, metavar="N", help="by N records, back if negative")
@click.option("--to-current", is_flag=True, help="to where it is now")
@click.option("--execute", is_flag=True, help="do it")
@click.option("--dry-run", is_flag=True, help="only show it (as without --execute)")
@cluster_options
def reset_group(args: Args) -> int:
    """Reset the offsets of a group; without --execute only show them."""
    from distributary.kafka import group_admin

    check_exclusive(args, *_TARGETS, required=True)
    check_exclusive(args, "--execute", "--dry-run")
    (name, *more) = names_of(args, "group")
    if more:
        raise UsageError("only one group can be reset at a time", hint="Reset each by itself")
    if bool(args.topic) == args.all_topics:
        raise UsageError("which topics?", hint="Give --topic TOPIC, --topic TOPIC:0,1 or --all-topics")
    to = _offset_spec(args)
    wanted = dict(map(_partitions, args.topic))
    cluster = cluster_of(args)
    if args.all_topics:
        wanted = dict.fromkeys(sorted({topic for topic, _ in group_admin.committed_offsets(cluster, name)}))
        if not wanted:
            group_admin.get_group(cluster, name)
            raise UsageError(f"group {name} has no offsets yet", hint="Name the topic: --topic TOPIC")
    changes = group_admin.plan_reset(cluster, name, to, wanted)
    if args.execute:
        group_admin.reset_offsets(cluster, name, changes)
    moves = [
        {"topic": one.topic, "partition": one.partition, "before": one.before, "after": one.after}
        for one in changes
    ]
    rows = [
        (one.topic, str(one.partition), _number(one.before), str(one.after), _shift(one)) for one in changes
    ]
    body = {"group": name, "executed": args.execute, "moves": moves}
    print_rows(args, body, rows, ("TOPIC", "PARTITION", "BEFORE", "AFTER", "RECORDS"))
    for change in changes:
        if to.kind == "offset" and change.after != to.value:
            partition = f"topic {change.topic}, partition {change.partition}"
            print_result(args, f"{partition}: there is no offset {to.value}, {change.after} is the nearest")
    outcome = "reset" if args.execute else "nothing was changed; do it with --execute"
    print_result(args, f"group {name}: {outcome}")
    return 0


@groups_group.command("delete")
@_names
@_every_group
@cluster_options
def delete_groups(args: Args) -> int:
    """Delete groups with their offsets."""
    from distributary.kafka import group_admin

    cluster = cluster_of(args)
    names = _group_names(args, cluster)
    for name in names:
        group = group_admin.get_group(cluster, name)
        if group.live:
            raise group_admin.group_busy_error(group, "it cannot be deleted")
        group_admin.delete_group(cluster, name)
        print_result(args, f"group {name}: deleted")
    if args.json:
        print_json({"deleted": names})
    return 0


def _group_names(args: Args, cluster: Any) -> list[str]:
    from distributary.kafka import group_admin

    return (
        [name for name, _ in group_admin.list_groups(cluster)] if args.all_groups else names_of(args, "group")
    )


def _offset_spec(args: Args) -> OffsetSpec:
    from distributary.kafka.topic_offsets import OffsetSpec, parse_time

    if args.to_offset is not None:
        return OffsetSpec("offset", args.to_offset)
    if args.shift_by is not None:
        return OffsetSpec("shift", args.shift_by)
    if args.to_datetime or args.by_duration:
        return OffsetSpec("time", parse_time(args.to_datetime or args.by_duration))
    return OffsetSpec("earliest" if args.to_earliest else "latest" if args.to_latest else "current")


def _partitions(text: str) -> tuple[str, list[int] | None]:
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(one) for one in numbers.split(",")]
    except ValueError:
        raise UsageError(
            f"--topic {text!r}: expected partition numbers after the colon", hint="As in: orders:0,1"
        ) from None


def offsets_text(group: Group, rows: Sequence[PartitionProgress]) -> str:
    """Lay out the offsets of a group, as Kafka's own tool does."""
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
    """Lay out the members of a group."""
    table = [(one.client_id, one.host, _reads(one.partitions), one.id) for one in group.members]
    head = f"group {group.name}: {group.state}, {len(group.members)} members"
    return f"{head}\n{columns(table, ('CLIENT', 'HOST', 'READS', 'MEMBER'))}"


def as_json(group: Group, rows: Sequence[PartitionProgress]) -> dict[str, Any]:
    """Everything about a group as JSON."""
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


def _reads(partitions: Sequence[tuple[str, int]]) -> str:
    found: dict[str, list[str]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(str(number))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in found.items()) or "-"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _shift(change: Any) -> str:
    return "-" if change.before is None else f"{change.after - change.before:+d}"
