"""``distributary produce``: write lines as records to a topic."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import click

from distributary.cli.command_line import (
    Args,
    check_exclusive,
    command,
    load_config,
    print_json,
    print_result,
)
from distributary.cli.kafka_options import FILE, cluster_of, cluster_options, settings_of
from distributary.errors import KafkaUnavailable, UsageError

if TYPE_CHECKING:
    from distributary.kafka.admin import Cluster
    from distributary.kafka.outgoing_record import OutgoingRecord
    from distributary.kafka.record_producer import Delivered, RecordProducer
    from distributary.kafka.record_router import RecordRouter
    from distributary.kafka.record_text import ParsedRecord

T = TypeVar("T")

_FLUSH = 30.0
"""Seconds to wait for the last acknowledgements."""


@command(
    "produce",
    renamed={
        "--broker-list": "--bootstrap-server",
        "--producer.config": "--command-config",
        "--reader-property": "--property",
    },
    examples=(
        "echo '{\"price\": 2}' | distributary produce sportsbook.odds --key m1",
        "distributary produce sportsbook.odds --keys < lines          each line is key:value",
        "distributary produce sportsbook.odds --json-lines -f records.jsonl    output of `consume --json`",
        "distributary produce sportsbook.odds --whole -f one.bin -f two.bin    one record from each file",
        "distributary produce --topic sportsbook.odds --property parse.key=true --property key.separator=,",
    ),
)
@click.argument("topic", required=False, metavar="TOPIC", help="the topic")
@click.option("--topic", "option", hidden=True)
@click.option(
    "-f", "--file", type=FILE, multiple=True, metavar="FILE", help="read this file, not standard input"
)
@click.option("--keys", is_flag=True, help="each line is a key, a separator and a value")
@click.option("--json-lines", is_flag=True, help="each line is an object with key, value, headers …")
@click.option("--whole", is_flag=True, help="each file is the value of one record")
@click.option("--key-separator", default=":", metavar="TEXT", help="with --keys (default: a colon)")
@click.option("--key", metavar="TEXT", help="the key of every record")
@click.option("--partition", type=int, metavar="N", help="write to this partition (default: by key)")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="a header of every record")
@click.option("--null", metavar="TEXT", help="a key or value equal to TEXT is null: a tombstone")
@click.option("--set", multiple=True, metavar="NAME=VALUE", help="a property of the producer")
@click.option("--property", multiple=True, hidden=True)
@cluster_options
def produce_command(args: Args) -> int:
    """Write all records; an error names the first line that was not acknowledged."""
    from confluent_kafka import Producer

    from distributary.kafka import librdkafka
    from distributary.kafka.record_producer import RecordProducer
    from distributary.kafka.record_router import create_router
    from distributary.kafka.topics import get_topic

    check_exclusive(args, "--keys", "--json-lines", "--whole")
    topic = args.topic or args.option
    if not topic:
        raise UsageError("which topic?", hint="As in: distributary produce sportsbook.odds")
    _console_properties(args)
    config = load_config(args, required=False)
    cluster = cluster_of(args, config)
    count = get_topic(cluster.admin, topic).partitions
    if args.partition is not None and not 0 <= args.partition < count:
        raise UsageError(f"topic {topic} has no partition {args.partition}", hint=f"It has 0 to {count - 1}")
    # As the Java client chooses the partition of a key.
    more = {"partitioner": "murmur2_random", "linger.ms": 5, "logger": librdkafka.librdkafka}
    more |= settings_of(args.set)
    handle = librdkafka.create(
        Producer, {**librdkafka.properties(cluster.kafka, acks="all", enable_idempotence=True), **more}
    )
    writer = _Writer(RecordProducer(handle), topic, args, count, cluster, create_router(config))
    try:
        for source, line in _lines(args):
            writer.write(source, line)
    finally:
        writer.flush()
    _print_counts(writer, topic, args)
    return 1 if writer.invalid else 0


def _print_counts(writer: _Writer, topic: str, args: Args) -> None:
    if args.json:
        other = {"routed": dict(writer.routed), "dead_letters": dict(writer.invalid)}
        written = {"written": writer.written.total(), "partitions": dict(writer.written)}
        print_json({"topic": topic, **written, **{name: found for name, found in other.items() if found}})
        return
    print_result(args, f"topic {topic}: {writer.written.total():,} records written")
    for target, count in writer.routed.items():
        print_result(args, f"topic {target}: {count:,} records written by a route")
    for target, count in writer.invalid.items():
        print_result(args, f"topic {target}: {count:,} dead letters; the first is {writer.first}")


class _Writer:
    """Hands records to the producer and keeps the first failure."""

    def __init__(
        self,
        producer: RecordProducer,
        topic: str,
        args: Args,
        count: int,
        cluster: Cluster,
        router: RecordRouter,
    ) -> None:
        self._producer = producer
        self._cluster = cluster
        self._servers = cluster.servers
        self._router = router
        self._topic = topic
        self._args = args
        self._count = count
        self._failure: Exception | None = None
        self._headers = tuple((name, value.encode()) for name, value in settings_of(args.header).items())
        self.written: Counter[int] = Counter()
        """Records of the topic itself, by partition."""
        self.routed: Counter[str] = Counter()
        """Records that routes took to other topics, by topic."""
        self.invalid: Counter[str] = Counter()
        """Invalid records, by the topic of their dead letters."""
        self.first = ""
        """The line of the first of those, and why it is invalid."""

    def write(self, source: str, line: bytes) -> None:
        """Write one line; raises its error, or that of a line before it."""
        from confluent_kafka import KafkaException

        from distributary.kafka.outgoing_record import OutgoingRecord

        try:
            record = self._record(line)
        except UsageError as error:
            raise UsageError(f"{source}: {error.message}", hint=error.hint) from None
        partition = record.partition if self._args.partition is None else self._args.partition
        if partition >= self._count:
            raise UsageError(f"{source}: topic {self._topic} has no partition {partition}")

        outgoing = OutgoingRecord(
            topic=self._topic,
            value=record.value,
            key=record.key,
            partition=partition,
            headers=(*self._headers, *record.headers),
            timestamp=record.timestamp,
        )
        outgoing = self._router.route(outgoing)
        if outgoing.reason:
            self._note_invalid(source, outgoing)
        what = f"{source}: not written to {outgoing.topic}"

        def delivered(report: Delivered | Exception) -> None:
            if not isinstance(report, Exception):
                self._note(outgoing, report.partition)
            elif self._failure is None:
                self._failure = self._error(report, what)

        try:
            while not self._producer.queue(outgoing, delivered):
                self._poll(0.1)
        except KafkaException as error:  # refused before it was sent, for example because it is too large
            raise self._error(error, what) from None
        self._poll(0)
        self._raise()

    def _note(self, outgoing: OutgoingRecord, partition: int) -> None:
        if outgoing.topic == self._topic:
            self.written[partition] += 1
        elif not outgoing.reason:
            self.routed[outgoing.topic] += 1

    def _note_invalid(self, source: str, outgoing: OutgoingRecord) -> None:
        from distributary.kafka.outgoing_record import ensure_dead_letter_topic

        if outgoing.topic not in self.invalid:
            ensure_dead_letter_topic(self._cluster.admin, outgoing.topic)
        self.first = self.first or f"{source}: {outgoing.reason}"
        self.invalid[outgoing.topic] += 1

    def flush(self) -> None:
        """Wait until all records are acknowledged; raises when they are not."""
        left = self._call(lambda: self._producer.flush_all(_FLUSH, lambda: self._producer.dead)) or 0
        self._raise()
        if left and not self._producer.dead:  # if it is dead, its error was raised
            raise KafkaUnavailable(
                f"{left} records for {self._topic} are not acknowledged by Kafka at {self._servers}",
                hint="Check that Kafka runs, and try again; the records may still arrive",
            )

    def _poll(self, seconds: float) -> None:
        self._call(lambda: self._producer.poll(seconds))

    def _call(self, call: Callable[[], T]) -> T | None:
        from confluent_kafka import KafkaException

        try:
            return call()
        except KafkaException as error:  # nothing more can be written, so this replaces another failure
            self._failure = self._error(error, f"writing to {self._topic}")
            return None

    def _error(self, error: Exception, what: str) -> Exception:
        from confluent_kafka import KafkaException

        from distributary.kafka.kafka_errors import admin_error

        if not isinstance(error, KafkaException):
            return error
        return admin_error(error, what, self._servers, writing=True)

    def _raise(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _record(self, line: bytes) -> ParsedRecord:
        from distributary.kafka import record_text

        args = self._args
        if args.whole:
            record = record_text.ParsedRecord(None, line)
        else:
            text = line.decode(errors="surrogateescape")
            if args.json_lines:
                record = record_text.from_json(text)
            elif args.keys:
                record = record_text.keyed(text, args.key_separator, null=args.null)
            else:
                record = record_text.plain(text, null=args.null)
        return record if args.key is None else record._replace(key=args.key.encode())


def _lines(args: Args) -> Iterator[tuple[str, bytes]]:
    """The lines, each with its file and number; whole files with ``--whole``."""
    for path in args.file or [None]:
        try:
            with sys.stdin.buffer if path is None else path.open("rb") as file:
                if args.whole:
                    yield str(path or "standard input"), file.read()
                    continue
                for number, line in enumerate(file, 1):
                    text = line.removesuffix(b"\n").removesuffix(b"\r")
                    if text or not args.json_lines:
                        yield f"{path or 'line'}{':' if path else ' '}{number}", text
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _console_properties(args: Args) -> None:
    """Apply what Kafka's console producer calls properties of its reader."""
    for name, value in settings_of(args.property).items():
        if name == "parse.key":
            args.keys = value.lower() == "true"
            args.key_separator = args.key_separator if args.key_separator != ":" else "\t"
        elif name == "key.separator":
            args.key_separator = value
        elif name == "null.marker":
            args.null = value
        else:
            raise UsageError(
                f"unknown --property {name}", hint="There are: parse.key, key.separator, null.marker"
            )
