"""``distributary reassign``: move replicas between brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from distributary.cli.command_line import Args, check_exclusive, command
from distributary.cli.kafka_options import FILE, cluster_of, cluster_options
from distributary.cli.output import print_result, print_rows
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.kafka.admin import Cluster

Plan = dict[str, dict[int, list[int]]]


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
    given = read_file(args.reassignment_json_file) if args.reassignment_json_file else None
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
    return _do(args, cluster, current, plan)


def _do(args: Args, cluster: Cluster, current: Plan, plan: Plan) -> int:
    from distributary.kafka import reassignment

    moves = {
        topic: {number: to for number, to in places.items() if to != current[topic][number]}
        for topic, places in plan.items()
    }
    moves = {topic: places for topic, places in moves.items() if places}
    if args.execute and moves:
        reassignment.alter(cluster, moves)
    rows = [
        (topic, str(number), _shown(current[topic][number]), _shown(to))
        for topic, places in moves.items()
        for number, to in places.items()
    ]
    body = {"executed": args.execute, "moves": plan_json(moves)}
    print_rows(args, body, rows, ("TOPIC", "PARTITION", "NOW", "THEN"))
    started = "started; see --list" if args.execute else "nothing was changed; do it with --execute"
    print_result(args, started if moves else "nothing has to move")
    return 0


def _list(args: Args) -> int:
    from distributary.kafka import reassignment

    found = [
        one for one in reassignment.moving(cluster_of(args)) if not args.topics or one.topic in args.topics
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
    for one in reassignment.moving(cluster):
        if not args.topics or one.topic in args.topics:
            cancelled.setdefault(one.topic, {})[one.partition] = None
    if cancelled:
        reassignment.alter(cluster, cancelled)
    count = sum(map(len, cancelled.values()))
    print_result(args, f"{count} partitions: cancelled", {"cancelled": count})
    return 0


def _current(cluster: Cluster, topics: list[str]) -> Plan:
    from distributary.kafka import topic_admin

    return {
        one.name: {p.number: list(p.replicas) for p in one.partitions}
        for one in topic_admin.describe_topics(cluster, topics)
    }


def _spread(current: Plan, brokers: list[int], replication: int | None) -> Plan:
    from distributary.kafka.reassignment import spread

    return {
        topic: spread(places, brokers, replication or max(map(len, places.values())))
        for topic, places in current.items()
    }


def _check(cluster: Cluster, current: Plan, plan: Plan) -> None:
    for topic, places in plan.items():
        for number in places:
            if number not in current[topic]:
                raise UsageError(
                    f"topic {topic} has no partition {number}", hint=f"It has 0 to {max(current[topic])}"
                )
    _check_brokers(cluster, [broker for places in plan.values() for to in places.values() for broker in to])


def _check_brokers(cluster: Cluster, brokers: list[int]) -> None:
    known = {int(number) for number in cluster.admin.list_topics(timeout=20).brokers}
    if missing := set(brokers) - known:
        brokers_text = ", ".join(map(str, sorted(known)))
        raise UsageError(f"no such broker: {min(missing)}", hint=f"There are: {brokers_text}")


def read_file(path: Path) -> Plan:
    """Read the moves from a file of Kafka's own tool."""
    try:
        found: Plan = {}
        for row in json.loads(path.read_text(encoding="utf-8"))["partitions"]:
            found.setdefault(str(row["topic"]), {})[int(row["partition"])] = [int(n) for n in row["replicas"]]
        return found
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            f"{path} is not in the expected format",
            hint='As in: {"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}], "version": 1}',
        ) from None


def plan_json(plan: Plan) -> dict[str, object]:
    """The moves in the format of Kafka's own tool, which ours reads too."""
    rows = [
        {"topic": topic, "partition": number, "replicas": to}
        for topic, places in plan.items()
        for number, to in places.items()
    ]
    return {"version": 1, "partitions": rows}


def _numbers(text: str) -> list[int]:
    try:
        return [int(one) for one in text.split(",") if one.strip()]
    except ValueError:
        raise UsageError(f"--brokers {text!r}: expected ids of brokers", hint="As in: 1,2,3") from None


def _shown(numbers: list[int]) -> str:
    return ",".join(map(str, numbers)) or "-"
