"""``distributary records``: delete the oldest records of a topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from distributary.cli.command_line import Args, group
from distributary.cli.kafka_options import FILE, cluster_of, cluster_options
from distributary.cli.output import print_result, print_rows
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.kafka.admin import Cluster
    from distributary.kafka.topic_offsets import Deletion

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
    """Delete all records before a position; without --execute only show it."""
    from distributary.kafka import topic_offsets

    if (args.topic is None or args.before is None) == (args.offset_json_file is None):
        raise UsageError("which records?", hint="Give TOPIC --before POSITION, or --offset-json-file FILE")
    given = read_file(args.offset_json_file) if args.offset_json_file else None
    cluster = cluster_of(args)
    deletions = _deletions(args, cluster) if given is None else topic_offsets.check_deletions(cluster, given)
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


def _deletions(args: Args, cluster: Cluster) -> list[Deletion]:
    from distributary.kafka import offset_spec, topic_offsets

    return topic_offsets.plan_deletions(
        cluster, args.topic, offset_spec.parse(args.before), args.partition or None
    )


def read_file(path: Path) -> list[tuple[str, int, int]]:
    """Read topic, partition and offset triples from a file of Kafka's own tool."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["partitions"]
        return [(str(row["topic"]), int(row["partition"]), int(row["offset"])) for row in rows]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            f"{path} is not in the expected format",
            hint='As in: {"partitions": [{"topic": "t", "partition": 0, "offset": 42}], "version": 1}',
        ) from None
