"""``distributary consume``: print the records of a topic."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from distributary.cli.kafka_options import add_kafka, cluster_of, settings_of
from distributary.cli.output import config_of, print_note
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.config import Config
    from distributary.kafka.admin import Cluster
    from distributary.kafka.record_text import Seen

NAME = "consume"
HELP = "print the records of a topic"
EXAMPLES = (
    "distributary consume sportsbook.odds                        new records, until Ctrl-C",
    "distributary consume sportsbook.odds --from-beginning --max-messages 10",
    'distributary consume sportsbook.odds --from "15 m" --until-end --json    the last quarter of an hour',
    "distributary consume sportsbook.odds --from -5 --partition 0 --show key,offset,timestamp",
    "distributary consume sportsbook.odds --group sportsbook.checks  from its offsets, and commit them",
)

CLIENT_ID = "distributary-consume"
GROUP = "distributary.consume"
"""Who reads without a group has a name too, because Kafka's lists of who may what go by it."""

PARTS = ("timestamp", "partition", "offset", "headers", "key")

_POLL = 0.2


def habits(words: Sequence[str]) -> list[str]:
    """Understand what users of kafka-console-consumer.sh type."""
    renamed = {
        "--consumer.config": "--command-config",
        "--offset": "--from",
        "--formatter-property": "--property",
    }
    return [renamed.get(word, word) for word in words]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("topic", nargs="?", help="the topic")
    parser.add_argument("--topic", dest="option", help=argparse.SUPPRESS)
    parser.add_argument("--from-beginning", action="store_true", help="the same as --from earliest")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="PLACE",
        help='earliest, latest, an offset, -N (from the end), a time, or how long ago ("15 m")',
    )
    parser.add_argument("--partition", type=int, action="append", help="only this one; may be repeated")
    parser.add_argument("--max-messages", type=int, metavar="N", help="stop after N records")
    parser.add_argument("--until-end", action="store_true", help="stop at what was the end at the start")
    parser.add_argument("--timeout-ms", type=int, metavar="MS", help="stop after so long without a record")
    parser.add_argument(
        "--group", metavar="GROUP", help="read as a member of it, from its offsets, and commit"
    )
    parser.add_argument("--client-id", default=CLIENT_ID, help="its first word is the application")
    parser.add_argument("--force", action="store_true", help="whatever the naming convention and others say")
    parser.add_argument(
        "--format", choices=("text", "json", "hex", "base64"), default="text", help="of values"
    )
    parser.add_argument("--show", metavar="A,B", help=f"before the value: {', '.join(PARTS)}")
    parser.add_argument("--separator", default="\t", metavar="TEXT", help="between them (default: a tab)")
    parser.add_argument(
        "--uncommitted", action="store_true", help="records of open and aborted transactions too"
    )
    parser.add_argument("--property", action="append", help=argparse.SUPPRESS)
    add_kafka(parser, action=False)


def run(args: argparse.Namespace) -> int:
    """Print until Ctrl-C or the wanted end."""
    args.topic = args.topic or args.option
    if not args.topic:
        raise UsageError("which topic?", hint="As in: distributary consume sportsbook.odds")
    parts = _parts(args)
    if args.from_beginning:
        args.start = args.start or "earliest"
    config = config_of(args, required=False)
    with contextlib.suppress(KeyboardInterrupt):
        _print(_seen(args, config), args, parts)
    return 0


def _print(records: Iterator[Seen], args: argparse.Namespace, parts: Sequence[str]) -> None:
    from distributary.kafka import record_text

    with contextlib.closing(records):  # type: ignore[type-var]
        for seen in records:
            if args.json:
                print(record_text.as_json(seen), flush=True)
            else:
                print(record_text.as_line(seen, args.format, parts, separator=args.separator), flush=True)


def _seen(args: argparse.Namespace, config: Config) -> Iterator[Seen]:
    """The records, one by one, until the wanted end."""
    from distributary.kafka import offset_spec, topic_offsets

    place = offset_spec.parse(args.start) if args.start else None
    cluster = cluster_of(args, config)
    asked = place or offset_spec.OffsetSpec("latest")
    held = dict(topic_offsets.offset_ranges(cluster, args.topic, asked))
    if args.partition is not None:
        if wrong := set(args.partition) - set(held):
            raise UsageError(
                f"topic {args.topic} has no partition {min(wrong)}", hint=f"It has 0 to {max(held)}"
            )
        held = {number: held[number] for number in args.partition}
    if args.group:
        if place is not None or args.partition is not None:
            raise UsageError(
                "a group reads from its own offsets",
                hint="Set them with: distributary groups reset, or leave --group out",
            )
        yield from _as_member(args, config, cluster, {number: one.end for number, one in held.items()})
        return
    if place is not None and place.kind == "offset":
        for number, one in held.items():
            if not one.first <= place.value <= one.end:
                print(
                    f"partition {number} has {one.first} to {one.end}, not {place.value}: "
                    "reading from the nearest",
                    file=sys.stderr,
                )
    starts = {number: offset_spec.resolve(asked, one) for number, one in held.items()}
    yield from _assigned(args, cluster, starts, {number: one.end for number, one in held.items()})


def _assigned(
    args: argparse.Namespace, cluster: Cluster, starts: dict[int, int], ends: dict[int, int]
) -> Iterator[Seen]:
    from confluent_kafka import TopicPartition

    consumer = _consumer(args, cluster, GROUP)
    consumer.assign([TopicPartition(args.topic, number, offset) for number, offset in starts.items()])
    left = {number for number, end in ends.items() if starts[number] < end}
    yield from _polled(args, consumer, left, ends, cluster.servers, commit=False)


def _as_member(
    args: argparse.Namespace, config: Config, cluster: Cluster, ends: dict[int, int]
) -> Iterator[Seen]:
    from distributary.kafka.group_admin import check_group_free

    if not args.force:
        print_note(args, check_group_free(cluster, args.group, args.client_id, config.naming.groups))
    consumer = _consumer(args, cluster, args.group)
    consumer.subscribe([args.topic])
    yield from _polled(args, consumer, set(ends), ends, cluster.servers, commit=True)


def _consumer(args: argparse.Namespace, cluster: Cluster, group: str) -> Any:
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
    return librdkafka.make(Consumer, {**librdkafka.properties(cluster.kafka), **fixed})


def _polled(
    args: argparse.Namespace,
    consumer: Any,
    left: set[int],
    ends: dict[int, int],
    servers: str,
    *,
    commit: bool,
) -> Iterator[Seen]:
    """Poll until the wanted end: ``left`` has the partitions that were not read to their end yet."""
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
            yield _as_seen(message)
            if message.offset() + 1 >= ends.get(number, 0):
                left.discard(number)
            if commit:
                consumer.commit(message, asynchronous=False)
    except KafkaException as error:
        raise admin_error(error, what, servers) from None
    finally:
        consumer.close()


def _as_seen(message: Any) -> Seen:
    from distributary.kafka.record_text import Seen

    kind, stamp = message.timestamp()
    return Seen(
        message.topic(),
        message.partition(),
        message.offset(),
        stamp if kind else None,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def _parts(args: argparse.Namespace) -> list[str]:
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
                f"--property {name} is not known",
                hint="There are print.key, print.offset … and key.separator",
            )
    if strange := [part for part in found if part not in PARTS]:
        raise UsageError(f"--show {strange[0]!r} is not known", hint=f"There are: {', '.join(PARTS)}")
    return sorted(set(found), key=PARTS.index)
