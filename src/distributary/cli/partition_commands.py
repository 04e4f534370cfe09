"""The commands about partitions: ``distributary reassign`` and ``distributary records``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from distributary.cli.command_line import Args, check_exclusive, command, group, print_result, print_rows
from distributary.cli.kafka_options import FILE, cluster_of, cluster_options
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.kafka.admin import Cluster
    from distributary.kafka.topic_offsets import Deletion

Assignments = dict[str, dict[int, list[int]]]
"""The replicas of each partition, by topic."""

Row = TypeVar("Row")


@command(
    "reassign",
    examples=(
        "distributary reassign sportsbook.odds --brokers 1,2,3                     show what would move",
        "distributary reassign sportsbook.odds --brokers 1,2,3 --replication-factor 3 --execute",
        "distributary reassign --list                                              show what is moving",
        "distributary reassign sportsbook.odds --cancel",
        "distributary reassign --reassignment-json-file plan.json --execute        the plan of Kafka's tool",
    ),
)
@click.argument("topics", nargs=-1, metavar="[TOPIC]…", help="the topics to move")
@click.option("--brokers", "--broker-list", "brokers", metavar="1,2,3", help="the brokers of the replicas")
@click.option(
    "--replication-factor", type=int, metavar="N", help="replicas of each partition (default: as now)"
)
@click.option("--reassignment-json-file", type=FILE, metavar="FILE", help="a file with the moves")
@click.option("--execute", is_flag=True, help="start the moves; the brokers complete them")
@click.option("--list", "--verify", "list", is_flag=True, help="show the moves in progress")
@click.option("--cancel", is_flag=True, help="cancel the moves in progress (of these topics)")
@cluster_options
def reassign_command(args: Args) -> int:
    """Show or start the moves."""
    check_exclusive(args, "--execute", "--list", "--cancel")
    if args.list:
        return _list(args)
    if args.cancel:
        return _cancel(args)
    given = _read_moves(args.reassignment_json_file) if args.reassignment_json_file else None
    if given is None and (not args.topics or not args.brokers):
        raise UsageError(
            "which topics, to which brokers?", hint="Give TOPIC --brokers 1,2,3, or --reassignment-json-file"
        )
    brokers = _numbers(args.brokers or "")
    cluster = cluster_of(args)
    current = _current(cluster, args.topics or sorted(given or {}))
    _check_brokers(cluster, brokers)
    plan = given if given is not None else _spread(current, brokers, args.replication_factor)
    _check(cluster, current, plan)
    return _move(args, cluster, current, plan)


def _move(args: Args, cluster: Cluster, current: Assignments, plan: Assignments) -> int:
    from distributary.kafka import reassignment

    moves = {
        topic: {number: to for number, to in partitions.items() if to != current[topic][number]}
        for topic, partitions in plan.items()
    }
    moves = {topic: partitions for topic, partitions in moves.items() if partitions}
    if args.execute and moves:
        reassignment.alter(cluster, moves)
    rows = [
        (topic, str(number), _shown(current[topic][number]), _shown(to))
        for topic, partitions in moves.items()
        for number, to in partitions.items()
    ]
    body = {"executed": args.execute, "moves": plan_json(moves)}
    print_rows(args, body, rows, ("TOPIC", "PARTITION", "NOW", "THEN"))
    started = "started; see --list" if args.execute else "nothing was changed; do it with --execute"
    print_result(args, started if moves else "nothing has to move")
    return 0


def _list(args: Args) -> int:
    from distributary.kafka import reassignment

    found = [
        one
        for one in reassignment.active_moves(cluster_of(args))
        if not args.topics or one.topic in args.topics
    ]
    rows = [
        (one.topic, str(one.partition), *map(_shown, (one.replicas, one.adding, one.removing)))
        for one in found
    ]
    heads = ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING")
    print_rows(args, [one._asdict() for one in found], rows, heads)
    print_result(args, f"{len(found)} partitions are moving")
    return 0


def _cancel(args: Args) -> int:
    from distributary.kafka import reassignment

    cluster = cluster_of(args)
    cancelled: dict[str, dict[int, None]] = {}
    for one in reassignment.active_moves(cluster):
        if not args.topics or one.topic in args.topics:
            cancelled.setdefault(one.topic, {})[one.partition] = None
    if cancelled:
        reassignment.alter(cluster, cancelled)
    count = sum(map(len, cancelled.values()))
    print_result(args, f"{count} partitions: cancelled", {"cancelled": count})
    return 0


def _current(cluster: Cluster, topics: list[str]) -> Assignments:
    from distributary.kafka import topic_admin

    return {
        one.name: {p.number: list(p.replicas) for p in one.partitions}
        for one in topic_admin.describe_topics(cluster, topics)
    }


def _spread(current: Assignments, brokers: list[int], replication: int | None) -> Assignments:
    from distributary.kafka.reassignment import spread

    return {
        topic: spread(partitions, brokers, replication or max(map(len, partitions.values())))
        for topic, partitions in current.items()
    }


def _check(cluster: Cluster, current: Assignments, plan: Assignments) -> None:
    for topic, partitions in plan.items():
        for number in partitions:
            if number not in current[topic]:
                raise UsageError(
                    f"topic {topic} has no partition {number}", hint=f"It has 0 to {max(current[topic])}"
                )
    _check_brokers(
        cluster, [broker for partitions in plan.values() for to in partitions.values() for broker in to]
    )


def _check_brokers(cluster: Cluster, brokers: list[int]) -> None:
    known = {int(number) for number in cluster.admin.list_topics(timeout=20).brokers}
    if missing := set(brokers) - known:
        brokers_text = ", ".join(map(str, sorted(known)))
        raise UsageError(f"no such broker: {min(missing)}", hint=f"There are: {brokers_text}")


def _read_moves(path: Path) -> Assignments:
    def read(row: Any) -> tuple[str, int, list[int]]:
        return str(row["topic"]), int(row["partition"]), [int(broker) for broker in row["replicas"]]

    moves: Assignments = {}
    example = '{"topic": "t", "partition": 0, "replicas": [1, 2]}'
    for topic, partition, replicas in _read_partitions(path, read, example):
        moves.setdefault(topic, {})[partition] = replicas
    return moves


def plan_json(plan: Assignments) -> dict[str, object]:
    """The moves in the format of Kafka's own tool, which ours reads too."""
    rows = [
        {"topic": topic, "partition": number, "replicas": to}
        for topic, partitions in plan.items()
        for number, to in partitions.items()
    ]
    return {"version": 1, "partitions": rows}


def _numbers(text: str) -> list[int]:
    try:
        return [int(one) for one in text.split(",") if one.strip()]
    except ValueError:
        raise UsageError(f"--brokers {text!r}: expected ids of brokers", hint="As in: 1,2,3") from None


def _shown(numbers: list[int]) -> str:
    return ",".join(map(str, numbers)) or "-"


records_group = group(
    "records",
    examples=(
        "distributary records delete sportsbook.odds --before 1000               only show it",
        'distributary records delete sportsbook.odds --before "2026-01-31T08:00:00Z" --execute',
        "distributary records delete sportsbook.odds --before latest --partition 0 --execute    all records",
        "distributary records delete --offset-json-file offsets.json --execute   a file of Kafka's tool",
    ),
)


@records_group.command("delete")
@click.argument("topic", required=False, metavar="[TOPIC]", help="the topic")
@click.option(
    "--before", metavar="POSITION", help="an offset, a time, how long ago, or latest for all records"
)
@click.option("--partition", type=int, multiple=True, metavar="N", help="only this one; may be repeated")
@click.option("--offset-json-file", type=FILE, metavar="FILE", help="topics, partitions and offsets")
@click.option("--execute", is_flag=True, help="do it")
@cluster_options
def delete_oldest_records(args: Args) -> int:
    """Delete all records before a position; without --execute only show them."""
    from distributary.kafka import topic_offsets

    if (args.topic is None or args.before is None) == (args.offset_json_file is None):
        raise UsageError("which records?", hint="Give TOPIC --before POSITION, or --offset-json-file FILE")
    given = _read_offsets(args.offset_json_file) if args.offset_json_file else None
    cluster = cluster_of(args)
    deletions = (
        _planned_deletions(args, cluster) if given is None else topic_offsets.check_deletions(cluster, given)
    )
    if args.execute:
        topic_offsets.delete_records(cluster, deletions)
    rows = [
        (one.topic, str(one.partition), str(one.first), str(one.before), str(one.records))
        for one in deletions
    ]
    deleted = [one._asdict() | {"records": one.records} for one in deletions]
    body = {"executed": args.execute, "deleted": deleted}
    print_rows(args, body, rows, ("TOPIC", "PARTITION", "FIRST", "BEFORE", "RECORDS"))
    outcome = "deleted" if args.execute else "nothing was changed; delete them with --execute"
    print_result(args, f"{sum(one.records for one in deletions):,} records: {outcome}")
    return 0


def _planned_deletions(args: Args, cluster: Cluster) -> list[Deletion]:
    from distributary.kafka import topic_offsets

    return topic_offsets.plan_deletions(
        cluster, args.topic, topic_offsets.parse_offset(args.before), args.partition or None
    )


def _read_offsets(path: Path) -> list[tuple[str, int, int]]:
    def read(row: Any) -> tuple[str, int, int]:
        return str(row["topic"]), int(row["partition"]), int(row["offset"])

    return _read_partitions(path, read, '{"topic": "t", "partition": 0, "offset": 42}')


def _read_partitions(path: Path, read: Callable[[Any], Row], example: str) -> list[Row]:
    """Read a file of Kafka's own tools, which has one object for each partition."""
    try:
        return [read(row) for row in json.loads(path.read_text(encoding="utf-8"))["partitions"]]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            f"{path} is not in the expected format",
            hint=f'As in: {{"partitions": [{example}], "version": 1}}',
        ) from None
