"""``distributary topics``: create, list, describe, change and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from distributary.cli.command_line import (
    Args,
    columns,
    combine,
    group,
    load_config,
    print_json,
    print_note,
    print_result,
    print_rows,
)
from distributary.cli.kafka_options import (
    KafkaGroup,
    cluster_of,
    cluster_options,
    names_argument,
    names_of,
    settings_of,
)
from distributary.errors import TopicError, UsageError

if TYPE_CHECKING:
    from distributary.kafka.topic_admin import TopicDetails

topics_group = group(
    "topics",
    cls=KafkaGroup,
    examples=(
        "distributary topics create sportsbook.odds --partitions 6 --set retention.ms=3600000",
        "distributary topics list",
        "distributary topics describe sportsbook.odds",
        "distributary topics alter sportsbook.odds --partitions 12",
        "distributary topics delete sportsbook.odds",
        "distributary topics --create --topic sportsbook.odds --partitions 3 --replication-factor 3",
    ),
)

_names = names_argument("TOPIC", "--topic")


_change_options = combine(
    click.option("--partitions", type=int, metavar="N", help="the number of partitions (new topics: 1)"),
    click.option("--set", multiple=True, metavar="NAME=VALUE", help="a setting; may be repeated"),
    click.option("--dry-run", is_flag=True, help="let the brokers check it, change nothing"),
)


@topics_group.command("create")
@_names
@_change_options
@click.option("--replication-factor", type=int, metavar="N", help="replicas (default: the brokers')")
@click.option("--if-not-exists", is_flag=True, help="ignore a topic that exists")
@click.option("--force", is_flag=True, help="ignore the naming convention")
@cluster_options
def create_topics(args: Args) -> int:
    """Create topics."""
    from distributary.kafka import topic_admin
    from distributary.kafka.naming import ANY, check_topic

    config = load_config(args, required=False)
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
            print_result(args, f"topic {name}: exists already")
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
        print_result(args, f"topic {name}: {'would be' if args.dry_run else ''} created".replace("  ", " "))
    if args.json:
        print_json({"created": [name for name in names if name not in known], "dry_run": args.dry_run})
    return 0


def _check_collision(cluster: Any, name: str) -> None:
    """Refuse a name that differs from another topic's only by . and _, as Kafka's own tool does."""
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


@topics_group.command("list")
@_names
@click.option("--internal", is_flag=True, help="also Kafka's own topics")
@cluster_options
def list_topics(args: Args) -> int:
    """List the topics."""
    from distributary.kafka import topic_admin

    wanted = set(names_of(args, "topic")) if args.names or args.option else None
    found = topic_admin.describe_all_topics(cluster_of(args), internal=args.internal)
    found = [one for one in found if wanted is None or one.name in wanted]
    rows = [(one.name, str(len(one.partitions)), str(one.replication)) for one in found]
    body = [
        {"name": one.name, "id": one.id, "partitions": len(one.partitions), "replication": one.replication}
        for one in found
    ]
    print_rows(args, body, rows, ("TOPIC", "PARTITIONS", "REPLICATION"))
    return 0


@topics_group.command("describe")
@_names
@click.option(
    "--under-replicated-partitions", is_flag=True, help="only partitions with replicas that are behind"
)
@click.option("--unavailable-partitions", is_flag=True, help="only partitions without a leader")
@cluster_options
def describe_topics(args: Args) -> int:
    """Show leader, replicas, in-sync replicas and offsets of each partition, and the settings."""
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


@topics_group.command("alter")
@_names
@_change_options
@click.option("--unset", "--delete-config", "unset", multiple=True, metavar="NAME", help="restore a default")
@cluster_options
def alter_topics(args: Args) -> int:
    """Add partitions, change settings."""
    from distributary.kafka import config_admin, topic_admin

    settings, removed = settings_of(args.set), args.unset
    if args.partitions is None and not settings and not removed:
        raise UsageError("nothing to alter", hint="Give --partitions N, --set NAME=VALUE or --unset NAME")
    cluster = cluster_of(args)
    for name in names_of(args, "topic"):
        if args.partitions is not None:
            had = len(topic_admin.describe_topics(cluster, [name])[0].partitions)
            if args.partitions <= had:
                raise TopicError(
                    f"topic {name}: has {had} partitions, which cannot become {args.partitions}",
                    hint="Partitions can be added, not removed: create another topic and copy the records",
                )
        if settings or removed:
            config_admin.alter_config(cluster, "topic", name, settings, removed, validate_only=args.dry_run)
        if args.partitions is not None and not args.dry_run:
            topic_admin.add_partitions(cluster, name, args.partitions)
            print_result(
                args, f"topic {name}: {had} -> {args.partitions} partitions; keys now go to other partitions"
            )
        print_result(args, f"topic {name}: {'would be ' if args.dry_run else ''}altered")
    if args.json:
        print_json({"altered": names_of(args, "topic"), "dry_run": args.dry_run})
    return 0


@topics_group.command("delete")
@_names
@click.option("--if-exists", is_flag=True, help="ignore a topic that does not exist")
@cluster_options
def delete_topics(args: Args) -> int:
    """Delete topics with their records."""
    from distributary.kafka import topic_admin

    done = topic_admin.delete_topics(cluster_of(args), names_of(args, "topic"), if_exists=args.if_exists)
    for name in done:
        print_result(args, f"topic {name}: deleted")
    if args.json:
        print_json({"deleted": done})
    return 0


def as_text(one: TopicDetails, args: Args) -> str:
    """Lay a topic out as Kafka's own tool does, with its offsets; "" when no partition is to be shown."""
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


def as_json(one: TopicDetails, args: Args) -> dict[str, Any]:
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


def _shown(one: TopicDetails, args: Args) -> list[Any]:
    return [
        p
        for p in one.partitions
        if (p.under_replicated or not args.under_replicated_partitions)
        and (p.leader is None or not args.unavailable_partitions)
    ]
