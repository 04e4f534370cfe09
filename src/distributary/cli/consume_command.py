"""``distributary consume``: print the records of a topic."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.command_line import Args, command, load_config, print_note
from distributary.cli.kafka_options import cluster_of, cluster_options, settings_of
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.config import Config
    from distributary.kafka.admin import Cluster
    from distributary.kafka.record_text import ConsumedRecord

CLIENT_ID = "distributary-consume"
GROUP = "distributary.consume"
"""The group of a reader without --group, because ACLs name groups."""

PARTS = ("timestamp", "partition", "offset", "headers", "key")

_POLL = 0.2


@command(
    "consume",
    renamed={
        "--consumer.config": "--command-config",
        "--offset": "--from",
        "--formatter-property": "--property",
    },
    examples=(
        "distributary consume sportsbook.odds                        new records, until Ctrl-C",
        "distributary consume sportsbook.odds --from-beginning --max-messages 10",
        'distributary consume sportsbook.odds --from "15 m" --until-end --json    the last 15 minutes',
        "distributary consume sportsbook.odds --from -5 --partition 0 --show key,offset,timestamp",
        "distributary consume sportsbook.odds --group sportsbook.checks  from its offsets, and commit them",
    ),
)
@click.argument("topic", required=False, metavar="TOPIC", help="the topic")
@click.option("--topic", "option", hidden=True)
@click.option("--from-beginning", is_flag=True, help="the same as --from earliest")
@click.option(
    "--from",
    "start",
    metavar="POSITION",
    help='earliest, latest, an offset, -N (from the end), a time, or how long ago ("15 m")',
)
@click.option("--partition", type=int, multiple=True, metavar="N", help="only this one; may be repeated")
@click.option("--max-messages", type=int, metavar="N", help="stop after N records")
@click.option("--until-end", is_flag=True, help="stop at the end that the topic had at the start")
@click.option("--timeout-ms", type=int, metavar="MS", help="stop after this time without a record")
@click.option("--group", metavar="GROUP", help="read as a member of this group, from its offsets, and commit")
@click.option("--client-id", default=CLIENT_ID, metavar="ID", help="its first word names the application")
@click.option("--force", is_flag=True, help="ignore the naming convention and other applications' groups")
@click.option(
    "--format",
    type=click.Choice(("text", "json", "hex", "base64")),
    default="text",
    help="how to print values (default: text)",
)
@click.option("--show", metavar="A,B", help=f"print before the value: {', '.join(PARTS)}")
@click.option("--separator", default="\t", metavar="TEXT", help="between them (default: a tab)")
@click.option("--uncommitted", is_flag=True, help="also records of open and aborted transactions")
@click.option("--property", multiple=True, hidden=True)
@cluster_options
def consume_command(args: Args) -> int:
    """Print until Ctrl-C or the requested end."""
    args.topic = args.topic or args.option
    if not args.topic:
        raise UsageError("which topic?", hint="As in: distributary consume sportsbook.odds")
    parts = _parts(args)
    if args.from_beginning:
        args.start = args.start or "earliest"
    config = load_config(args, required=False)
    with contextlib.suppress(KeyboardInterrupt):
        _print(_records(args, config), args, parts)
    return 0


def _print(records: Iterator[ConsumedRecord], args: Args, parts: Sequence[str]) -> None:
    from distributary.kafka import record_text

    with contextlib.closing(records):  # type: ignore[type-var]
        for record in records:
            if args.json:
                print(record_text.as_json(record), flush=True)
            else:
                print(record_text.as_line(record, args.format, parts, separator=args.separator), flush=True)


def _records(args: Args, config: Config) -> Iterator[ConsumedRecord]:
    """The records, one by one, until the requested end."""
    from distributary.kafka import topic_offsets

    start = topic_offsets.parse_offset(args.start) if args.start else None
    cluster = cluster_of(args, config)
    spec = start or topic_offsets.OffsetSpec("latest")
    ranges = dict(topic_offsets.offset_ranges(cluster, args.topic, spec))
    if args.partition:
        if wrong := set(args.partition) - set(ranges):
            raise UsageError(
                f"topic {args.topic} has no partition {min(wrong)}", hint=f"It has 0 to {max(ranges)}"
            )
        ranges = {number: ranges[number] for number in args.partition}
    if args.group:
        if start is not None or args.partition:
            raise UsageError(
                "a group reads from its own offsets",
                hint="Set them with: distributary groups reset, or leave --group out",
            )
        yield from _as_member(args, config, cluster, {number: one.end for number, one in ranges.items()})
        return
    if start is not None and start.kind == "offset":
        for number, one in ranges.items():
            if not one.first <= start.value <= one.end:
                offsets = f"has offsets {one.first} to {one.end}, not {start.value}"
                print(f"partition {number} {offsets}: reading from the nearest", file=sys.stderr)
    starts = {number: topic_offsets.resolve(spec, one) for number, one in ranges.items()}
    yield from _assigned(args, cluster, starts, {number: one.end for number, one in ranges.items()})


def _assigned(
    args: Args, cluster: Cluster, starts: dict[int, int], ends: dict[int, int]
) -> Iterator[ConsumedRecord]:
    from confluent_kafka import TopicPartition

    consumer = _consumer(args, cluster, GROUP)
    consumer.assign([TopicPartition(args.topic, number, offset) for number, offset in starts.items()])
    left = {number for number, end in ends.items() if starts[number] < end}
    yield from _polled(args, consumer, left, ends, cluster.servers, commit=False)


def _as_member(
    args: Args, config: Config, cluster: Cluster, ends: dict[int, int]
) -> Iterator[ConsumedRecord]:
    from distributary.kafka.group_admin import check_group_free

    if not args.force:
        print_note(args, check_group_free(cluster, args.group, args.client_id, config.naming.groups))
    consumer = _consumer(args, cluster, args.group)
    consumer.subscribe([args.topic])
    yield from _polled(args, consumer, set(ends), ends, cluster.servers, commit=True)


def _consumer(args: Args, cluster: Cluster, group: str) -> Any:
    from confluent_kafka import Consumer

    from distributary.kafka import librdkafka

    fixed = {
        "group.id": group,
        "client.id": args.client_id,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted" if args.uncommitted else "read_committed",
        "enable.partition.eof": True,
    }
    return librdkafka.create(Consumer, {**librdkafka.properties(cluster.kafka), **fixed})


def _polled(
    args: Args,
    consumer: Any,
    left: set[int],
    ends: dict[int, int],
    servers: str,
    *,
    commit: bool,
) -> Iterator[ConsumedRecord]:
    """Poll until the requested end; ``left`` are the partitions not read to their end yet."""
    from confluent_kafka import KafkaError, KafkaException

    from distributary.kafka.kafka_errors import admin_error

    what = f"topic {args.topic}, group {args.group or GROUP}"
    count, last = 0, time.monotonic()
    try:
        while not (args.until_end and not left) and (args.max_messages is None or count < args.max_messages):
            message = consumer.poll(_POLL)
            if message is None:
                if args.timeout_ms is not None and (time.monotonic() - last) * 1000 > args.timeout_ms:
                    return
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                    continue
                if error.fatal() or not error.retriable():
                    raise admin_error(error, what, servers)
                continue
            last = time.monotonic()
            number = message.partition()
            if args.until_end and message.offset() >= ends[number]:
                left.discard(number)
                continue
            count += 1
            yield _record(message)
            if message.offset() + 1 >= ends.get(number, 0):
                left.discard(number)
            if commit:
                consumer.commit(message, asynchronous=False)
    except KafkaException as error:
        raise admin_error(error, what, servers) from None
    finally:
        consumer.close()


def _record(message: Any) -> ConsumedRecord:
    from distributary.kafka.record_text import ConsumedRecord

    kind, timestamp = message.timestamp()
    return ConsumedRecord(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=timestamp if kind else None,
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )


def _parts(args: Args) -> list[str]:
    found = [part.strip() for part in (args.show or "").split(",") if part.strip()]
    for name, value in settings_of(args.property).items():
        part = name.removeprefix("print.")
        if name == "key.separator":
            args.separator = value
        elif name.startswith("print.") and part in (*PARTS, "value"):
            if value.lower() == "true" and part != "value":
                found.append(part)
        else:
            raise UsageError(
                f"unknown --property {name}",
                hint="There are: print.key, print.offset …, key.separator",
            )
    if unknown := [part for part in found if part not in PARTS]:
        raise UsageError(f"unknown --show {unknown[0]!r}", hint=f"There are: {', '.join(PARTS)}")
    return sorted(set(found), key=PARTS.index)
