"""``distributary reassign``: move replicas between brokers."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from distributary.cli.kafka_options import add_kafka, cluster_of
from distributary.cli.output import columns, print_json
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.kafka.admin import Cluster

NAME = "reassign"
HELP = "move replicas between brokers"
EXAMPLES = (
    "distributary reassign sportsbook.odds --brokers 1,2,3                     what would move where",
    "distributary reassign sportsbook.odds --brokers 1,2,3 --replication-factor 3 --execute",
    "distributary reassign --list                                              what is under way",
    "distributary reassign sportsbook.odds --cancel",
    "distributary reassign --reassignment-json-file plan.json --execute        as Kafka's own tool has it",
)

Plan = dict[str, dict[int, list[int]]]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="the topics to move")
    parser.add_argument("--brokers", "--broker-list", metavar="1,2,3", help="where their replicas should be")
    parser.add_argument("--replication-factor", type=int, help="replicas of each (default: as many as now)")
    parser.add_argument("--reassignment-json-file", type=Path, metavar="FILE", help="the moves themselves")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--execute", action="store_true", help="do it; it goes on in the brokers")
    what.add_argument("--list", "--verify", action="store_true", help="show what is under way")
    what.add_argument("--cancel", action="store_true", help="call off what is under way (of these topics)")
    add_kafka(parser, action=False)


def run(args: argparse.Namespace) -> int:
    """Show or do the moves."""
    if args.list:
        return _list(args)
    if args.cancel:
        return _cancel(args)
    given = read_file(args.reassignment_json_file) if args.reassignment_json_file else None
    if given is None and (not args.topics or not args.brokers):
        raise UsageError(
            "what should go where?", hint="Give TOPIC --brokers 1,2,3, or --reassignment-json-file"
        )
    brokers = _numbers(args.brokers or "")
    cluster = cluster_of(args)
    now = _now(cluster, args.topics or sorted(given or {}))
    _check_brokers(cluster, brokers)
    plan = given if given is not None else _spread(now, brokers, args.replication_factor)
    _check(cluster, now, plan)
    return _do(args, cluster, now, plan)


def _do(args: argparse.Namespace, cluster: Cluster, now: Plan, plan: Plan) -> int:
    from distributary.kafka import reassignment

    moves = {
        topic: {number: to for number, to in places.items() if to != now[topic][number]}
        for topic, places in plan.items()
    }
    moves = {topic: places for topic, places in moves.items() if places}
    if args.execute and moves:
        reassignment.alter(cluster, moves)
    if args.json:
        print_json({"executed": args.execute, "moves": as_kafkas(moves)})
        return 0
    rows = [
        (topic, str(number), _shown(now[topic][number]), _shown(to))
        for topic, places in moves.items()
        for number, to in places.items()
    ]
    print(columns(rows, ("TOPIC", "PARTITION", "NOW", "THEN")))
    if not moves:
        said = "nothing has to move"
    else:
        said = "under way; see --list" if args.execute else "nothing was changed; do it with --execute"
    print(said, file=sys.stderr)
    return 0


def _list(args: argparse.Namespace) -> int:
    from distributary.kafka import reassignment

    found = [
        one for one in reassignment.moving(cluster_of(args)) if not args.topics or one.topic in args.topics
    ]
    if args.json:
        print_json([one._asdict() for one in found])
        return 0
    rows = [(m.topic, str(m.partition), *map(_shown, (m.replicas, m.adding, m.removing))) for m in found]
    print(columns(rows, ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING")))
    print(f"{len(found)} partitions under way", file=sys.stderr)
    return 0


def _cancel(args: argparse.Namespace) -> int:
    from distributary.kafka import reassignment

    cluster = cluster_of(args)
    off: dict[str, dict[int, None]] = {}
    for one in reassignment.moving(cluster):
        if not args.topics or one.topic in args.topics:
            off.setdefault(one.topic, {})[one.partition] = None
    if off:
        reassignment.alter(cluster, off)
    count = sum(map(len, off.values()))
    if args.json:
        print_json({"cancelled": count})
    else:
        print(f"{count} partitions: called off", file=sys.stderr)
    return 0


def _now(cluster: Cluster, topics: list[str]) -> Plan:
    from distributary.kafka import topic_admin

    return {
        one.name: {p.number: list(p.replicas) for p in one.partitions}
        for one in topic_admin.describe_topics(cluster, topics)
    }


def _spread(now: Plan, brokers: list[int], replication: int | None) -> Plan:
    from distributary.kafka.reassignment import spread

    return {
        topic: spread(places, brokers, replication or max(map(len, places.values())))
        for topic, places in now.items()
    }


def _check(cluster: Cluster, now: Plan, plan: Plan) -> None:
    for topic, places in plan.items():
        for number in places:
            if number not in now[topic]:
                raise UsageError(
                    f"topic {topic} has no partition {number}", hint=f"It has 0 to {max(now[topic])}"
                )
    _check_brokers(cluster, [broker for places in plan.values() for to in places.values() for broker in to])


def _check_brokers(cluster: Cluster, brokers: list[int]) -> None:
    known = {int(number) for number in cluster.admin.list_topics(timeout=20).brokers}
    if missing := set(brokers) - known:
        there = ", ".join(map(str, sorted(known)))
        raise UsageError(f"there is no broker {min(missing)}", hint=f"There are: {there}")


def read_file(path: Path) -> Plan:
    """Read moves from Kafka's own form of them."""
    try:
        found: Plan = {}
        for row in json.loads(path.read_text(encoding="utf-8"))["partitions"]:
            found.setdefault(str(row["topic"]), {})[int(row["partition"])] = [int(n) for n in row["replicas"]]
        return found
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            f"{path} has not the form that it should",
            hint='As in: {"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}], "version": 1}',
        ) from None


def as_kafkas(plan: Plan) -> dict[str, object]:
    """Write moves in Kafka's own form, which its tool and ours read."""
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
        raise UsageError(f"--brokers {text!r}: brokers are named by their ids", hint="As in: 1,2,3") from None


def _shown(numbers: list[int]) -> str:
    return ",".join(map(str, numbers)) or "-"
