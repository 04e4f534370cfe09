"""``distributary records``: delete the oldest records of a topic."""

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
    from distributary.kafka.topic_offsets import Deletion

NAME = "records"
HELP = "delete the oldest records of a topic"
EXAMPLES = (
    "distributary records delete sportsbook.odds --before 1000               what it would do",
    'distributary records delete sportsbook.odds --before "2026-01-31T08:00:00Z" --execute',
    "distributary records delete sportsbook.odds --before latest --partition 0 --execute    all of it",
    "distributary records delete --offset-json-file offsets.json --execute   as Kafka's tool has it",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    one = actions.add_parser("delete", help="delete all before a place; without --execute only show it")
    one.add_argument("topic", nargs="?", help="the topic")
    one.add_argument("--before", metavar="PLACE", help="an offset, a time, how long ago, or latest for all")
    one.add_argument("--partition", type=int, action="append", help="only of this one; may be repeated")
    one.add_argument("--offset-json-file", type=Path, metavar="FILE", help="topics, partitions and offsets")
    one.add_argument("--execute", action="store_true", help="do it")
    add_kafka(one)


def run(args: argparse.Namespace) -> int:
    """Show what would go, and delete it with ``--execute``."""
    from distributary.kafka import topic_offsets

    if (args.topic is None or args.before is None) == (args.offset_json_file is None):
        raise UsageError("which records?", hint="Give TOPIC --before PLACE, or --offset-json-file FILE")
    given = read_file(args.offset_json_file) if args.offset_json_file else None
    cluster = cluster_of(args)
    cuts = _asked(args, cluster) if given is None else topic_offsets.check_deletions(cluster, given)
    if args.execute:
        topic_offsets.delete_records(cluster, cuts)
    if args.json:
        rows = [one._asdict() | {"records": one.records} for one in cuts]
        print_json({"executed": args.execute, "deleted": rows})
        return 0
    table = [
        (one.topic, str(one.partition), str(one.first), str(one.before), str(one.records)) for one in cuts
    ]
    print(columns(table, ("TOPIC", "PARTITION", "FIRST", "BEFORE", "RECORDS")))
    said = "deleted" if args.execute else "nothing was changed; delete them with --execute"
    print(f"{sum(one.records for one in cuts):,} records: {said}", file=sys.stderr)
    return 0


def _asked(args: argparse.Namespace, cluster: Cluster) -> list[Deletion]:
    from distributary.kafka import offset_spec, topic_offsets

    return topic_offsets.plan_deletions(cluster, args.topic, offset_spec.parse(args.before), args.partition)


def read_file(path: Path) -> list[tuple[str, int, int]]:
    """Read topic, partition and offset triples from Kafka's own form of them."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["partitions"]
        return [(str(row["topic"]), int(row["partition"]), int(row["offset"])) for row in rows]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            f"{path} has not the form that it should",
            hint='As in: {"partitions": [{"topic": "t", "partition": 0, "offset": 42}], "version": 1}',
        ) from None
