"""``distributary topics``: make, list, describe, change and delete topics."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distributary.cli.kafka_options import add_kafka, cluster_of, names_of, settings_of
from distributary.cli.kafka_options import habits as understood
from distributary.cli.output import columns, config_of, print_json, print_note
from distributary.errors import TopicError, UsageError

if TYPE_CHECKING:
    from distributary.kafka.topic_admin import TopicDetails

NAME = "topics"
HELP = "make, list, describe, change and delete topics"
EXAMPLES = (
    "distributary topics create sportsbook.odds --partitions 6 --set retention.ms=3600000",
    "distributary topics list",
    "distributary topics describe sportsbook.odds",
    "distributary topics alter sportsbook.odds --partitions 12",
    "distributary topics delete sportsbook.odds",
    "distributary topics --create --topic sportsbook.odds --partitions 3 --replication-factor 3",
)

_ACTIONS = {
    "create": "make a topic",
    "list": "list the topics",
    "describe": "show leader, replicas, in-sync set and offsets of each partition, and the settings",
    "alter": "add partitions, change settings",
    "delete": "delete topics with their records",
}


def habits(words: Sequence[str]) -> list[str]:
    """Understand what users of kafka-topics.sh type."""
    return understood(words, _ACTIONS)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    parser.set_defaults(command=NAME)
    made = {name: actions.add_parser(name, help=text) for name, text in _ACTIONS.items()}
    for name, one in made.items():
        one.add_argument("names", nargs="*", metavar="TOPIC", help="the topic, or several")
        one.add_argument("--topic", dest="option", action="append", help=argparse.SUPPRESS)
        if name in ("create", "alter"):
            one.add_argument("--partitions", type=int, help="how many (create: default 1)")
            one.add_argument("--set", action="append", metavar="NAME=VALUE", help="a setting")
            one.add_argument(
                "--dry-run", action="store_true", help="let the brokers check it, change nothing"
            )
        add_kafka(one)
    create = made["create"]
    create.add_argument("--replication-factor", type=int, help="replicas (default: the brokers')")
    create.add_argument("--if-not-exists", action="store_true", help="leave one that is there as it is")
    create.add_argument("--force", action="store_true", help="whatever the naming convention says")
    made["alter"].add_argument(
        "--unset", "--delete-config", action="append", metavar="NAME", help="back to its default"
    )
    made["delete"].add_argument("--if-exists", action="store_true", help="do not mind one that is not there")
    made["list"].add_argument("--internal", action="store_true", help="Kafka's own topics too")
    described = made["describe"]
    described.add_argument(
        "--under-replicated-partitions", action="store_true", help="only partitions with replicas behind"
    )
    described.add_argument(
        "--unavailable-partitions", action="store_true", help="only partitions without a leader"
    )


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    return {"create": _create, "list": _list, "describe": _describe, "alter": _alter, "delete": _delete}[
        args.action
    ](args)


def _create(args: argparse.Namespace) -> int:
    from distributary.kafka import topic_admin
    from distributary.kafka.naming import ANY, check_topic

    config = config_of(args, required=False)
    names, settings = names_of(args, "topic"), settings_of(args.set)
    notes = [check_topic(name, ANY if args.force else config.naming.topics) for name in names]
    print_note(args, next(filter(None, notes), ""))
    if args.partitions is not None and args.partitions < 1:
        raise UsageError(f"--partitions {args.partitions}: a topic has at least one")
    cluster = cluster_of(args, config)
    known = (
        {one.name for one in topic_admin.describe_all_topics(cluster, internal=True)}
        if args.if_not_exists
        else set()
    )
    for name in names:
        if name in known:
            _say(args, f"topic {name}: is there already")
            continue
        _check_collision(cluster, name)
        topic_admin.create_topic(
            cluster,
            name,
            args.partitions or 1,
            args.replication_factor or -1,
            settings,
            validate_only=args.dry_run,
        )
        _say(args, f"topic {name}: {'would be' if args.dry_run else ''} created".replace("  ", " "))
    if args.json:
        print_json({"created": [name for name in names if name not in known], "dry_run": args.dry_run})
    return 0


def _check_collision(cluster: Any, name: str) -> None:
    """Kafka's metrics cannot tell . from _, so its own tool refuses two topics that differ only there."""
    alike = [
        other
        for other in cluster.admin.list_topics(timeout=20).topics
        if other != name and other.replace(".", "_") == name.replace(".", "_")
    ]
    if alike:
        raise TopicError(
            f"topic {name}: {alike[0]} differs only by . and _, which Kafka's metrics cannot tell apart",
            hint="Choose another name",
        )


def _list(args: argparse.Namespace) -> int:
    from distributary.kafka import topic_admin

    wanted = set(names_of(args, "topic")) if args.names or args.option else None
    found = topic_admin.describe_all_topics(cluster_of(args), internal=args.internal)
    found = [one for one in found if wanted is None or one.name in wanted]
    if args.json:
        print_json(
            [
                {
                    "name": one.name,
                    "id": one.id,
                    "partitions": len(one.partitions),
                    "replication": one.replication,
                }
                for one in found
            ]
        )
    else:
        rows = [(one.name, str(len(one.partitions)), str(one.replication)) for one in found]
        print(columns(rows, ("TOPIC", "PARTITIONS", "REPLICATION")))
    return 0


def _describe(args: argparse.Namespace) -> int:
    from distributary.kafka import topic_admin

    cluster = cluster_of(args)
    every = not args.names and not args.option
    names = (
        [one.name for one in topic_admin.describe_all_topics(cluster)] if every else names_of(args, "topic")
    )
    found = topic_admin.describe_topics(cluster, names) if names else []
    if args.json:
        print_json([as_json(one, args) for one in found])
    else:
        print("\n\n".join(text for one in found if (text := as_text(one, args))))
    return 0


def _alter(args: argparse.Namespace) -> int:
    from distributary.kafka import config_admin, topic_admin

    settings, removed = settings_of(args.set), args.unset or []
    if args.partitions is None and not settings and not removed:
        raise UsageError("nothing to alter", hint="Give --partitions N, --set NAME=VALUE or --unset NAME")
    cluster = cluster_of(args)
    for name in names_of(args, "topic"):
        if args.partitions is not None:
            had = len(topic_admin.describe_topics(cluster, [name])[0].partitions)
            if args.partitions <= had:
                raise TopicError(
                    f"topic {name}: has {had} partitions, so {args.partitions} cannot be set",
                    hint="Partitions can be added, not taken away: make another topic and copy",
                )
        if settings or removed:
            config_admin.alter_config(cluster, "topic", name, settings, removed, validate_only=args.dry_run)
        if args.partitions is not None and not args.dry_run:
            topic_admin.add_partitions(cluster, name, args.partitions)
            _say(args, f"topic {name}: {had} -> {args.partitions} partitions; keys go to others from now on")
        _say(args, f"topic {name}: {'would be ' if args.dry_run else ''}altered")
    if args.json:
        print_json({"altered": names_of(args, "topic"), "dry_run": args.dry_run})
    return 0


def _delete(args: argparse.Namespace) -> int:
    from distributary.kafka import topic_admin

    done = topic_admin.delete_topics(cluster_of(args), names_of(args, "topic"), if_exists=args.if_exists)
    for name in done:
        _say(args, f"topic {name}: deleted")
    if args.json:
        print_json({"deleted": done})
    return 0


def as_text(one: TopicDetails, args: argparse.Namespace) -> str:
    """Lay a topic out as Kafka's own tool does, with its offsets; "" when no partition is wanted."""
    shown = _shown(one, args)
    if not shown and one.partitions:
        return ""
    settings = ",".join(f"{name}={value}" for name, value in sorted(one.settings.items())) or "-"
    head = (
        f"Topic: {one.name}  TopicId: {one.id}  PartitionCount: {len(one.partitions)}  "
        f"ReplicationFactor: {one.replication}  Configs: {settings}"
    )
    rows = [
        (
            str(p.number),
            "none" if p.leader is None else str(p.leader),
            ",".join(map(str, p.replicas)),
            ",".join(map(str, p.in_sync)),
            str(p.first),
            str(p.end),
        )
        for p in shown
    ]
    return f"{head}\n{columns(rows, ('PARTITION', 'LEADER', 'REPLICAS', 'ISR', 'FIRST', 'END'))}"


def as_json(one: TopicDetails, args: argparse.Namespace) -> dict[str, Any]:
    """A topic as JSON."""
    return {
        "name": one.name,
        "id": one.id,
        "internal": one.internal,
        "replication": one.replication,
        "settings": dict(one.settings),
        "partitions": [
            {
                "partition": p.number,
                "leader": p.leader,
                "replicas": p.replicas,
                "isr": p.in_sync,
                "first": p.first,
                "end": p.end,
            }
            for p in _shown(one, args)
        ],
    }


def _shown(one: TopicDetails, args: argparse.Namespace) -> list[Any]:
    return [
        p
        for p in one.partitions
        if (p.under_replicated or not args.under_replicated_partitions)
        and (p.leader is None or not args.unavailable_partitions)
    ]


def _say(args: argparse.Namespace, line: str) -> None:
    if not args.json:
        print(line, file=sys.stderr)
