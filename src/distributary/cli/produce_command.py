"""``distributary produce``: write lines as records to a topic."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributary.cli.kafka_options import add_kafka, cluster_of, settings_of
from distributary.cli.output import config_of, print_json
from distributary.errors import KafkaUnavailable, UsageError

if TYPE_CHECKING:
    from distributary.kafka.admin import Cluster
    from distributary.kafka.outgoing_record import OutgoingRecord
    from distributary.kafka.record_router import RecordRouter
    from distributary.kafka.record_text import Record

NAME = "produce"
HELP = "write lines as records to a topic"
EXAMPLES = (
    "echo '{\"price\": 2}' | distributary produce sportsbook.odds --key m1",
    "distributary produce sportsbook.odds --keys < lines          each line is key:value",
    "distributary produce sportsbook.odds --json-lines -f records.jsonl    as `consume --json` prints them",
    "distributary produce sportsbook.odds --whole -f one.bin -f two.bin    a record a file",
    "distributary produce --topic sportsbook.odds --property parse.key=true --property key.separator=,",
)

_FLUSH = 30.0


def habits(words: Sequence[str]) -> list[str]:
    """Understand what users of kafka-console-producer.sh type."""
    renamed = {
        "--broker-list": "--bootstrap-server",
        "--producer.config": "--command-config",
        "--reader-property": "--property",
    }
    return [renamed.get(word, word) for word in words]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("topic", nargs="?", help="the topic")
    parser.add_argument("--topic", dest="option", help=argparse.SUPPRESS)
    parser.add_argument("-f", "--file", type=Path, action="append", help="read it, not standard input")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--keys", action="store_true", help="each line is a key, a separator and a value")
    how.add_argument(
        "--json-lines", action="store_true", help="each line is an object with key, value, headers …"
    )
    how.add_argument("--whole", action="store_true", help="all of a file is one record's value")
    parser.add_argument("--key-separator", default=":", metavar="TEXT", help="with --keys (default: a colon)")
    parser.add_argument("--key", help="the key of every record")
    parser.add_argument("--partition", type=int, help="write to this partition (default: by key)")
    parser.add_argument("--header", action="append", metavar="NAME=VALUE", help="a header of every record")
    parser.add_argument(
        "--null", metavar="TEXT", help="a key or value that is this text is null: a tombstone"
    )
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="a property of the producer")
    parser.add_argument("--property", action="append", help=argparse.SUPPRESS)
    add_kafka(parser, action=False)


def run(args: argparse.Namespace) -> int:
    """Write all, acknowledged; an error says which line was not."""
    from confluent_kafka import Producer

    from distributary.kafka import librdkafka
    from distributary.kafka.record_router import create_router
    from distributary.kafka.topics import get_topic

    topic = args.topic or args.option
    if not topic:
        raise UsageError("which topic?", hint="As in: distributary produce sportsbook.odds")
    _console_properties(args)
    config = config_of(args, required=False)
    cluster = cluster_of(args, config)
    count = get_topic(cluster.admin, topic).partitions
    if args.partition is not None and not 0 <= args.partition < count:
        raise UsageError(f"topic {topic} has no partition {args.partition}", hint=f"It has 0 to {count - 1}")
    # As the Java client chooses the partition of a key.
    more = {"partitioner": "murmur2_random", "linger.ms": 5, "logger": librdkafka.librdkafka}
    more |= settings_of(args.set)
    producer = librdkafka.make(
        Producer, {**librdkafka.properties(cluster.kafka, acks="all", enable_idempotence=True), **more}
    )
    writer = _Writer(producer, topic, args, count, cluster, create_router(config))
    try:
        for place, line in _lines(args):
            writer.write(place, line)
    finally:
        writer.flush()
    _tell(writer, topic, as_json=args.json)
    return 1 if writer.unfit else 0


def _tell(writer: _Writer, topic: str, *, as_json: bool) -> None:
    if as_json:
        other = {"routed": dict(writer.routed), "dead_letters": dict(writer.unfit)}
        written = {"written": writer.written.total(), "partitions": dict(writer.written)}
        print_json({"topic": topic, **written, **{name: found for name, found in other.items() if found}})
        return
    print(f"topic {topic}: {writer.written.total():,} records written", file=sys.stderr)
    for target, count in writer.routed.items():
        print(f"topic {target}: {count:,} records written by a route", file=sys.stderr)
    for target, count in writer.unfit.items():
        print(f"topic {target}: {count:,} records that do not fit; first {writer.first}", file=sys.stderr)


class _Writer:
    """Hands records to the producer and keeps the first failure."""

    def __init__(
        self,
        producer: Any,
        topic: str,
        args: argparse.Namespace,
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
        self.unfit: Counter[str] = Counter()
        """Records that do not fit, by the topic of dead letters."""
        self.first = ""
        """Where the first of those is, and why."""

    def write(self, place: str, line: bytes) -> None:
        """Write one line; raises what is wrong with it, or with one before it."""
        from confluent_kafka import KafkaException

        from distributary.kafka import kafka_errors
        from distributary.kafka.outgoing_record import OutgoingRecord

        try:
            record = self._record(line)
        except UsageError as error:
            raise UsageError(f"{place}: {error.message}", hint=error.hint) from None
        partition = record.partition if self._args.partition is None else self._args.partition
        if partition >= self._count:
            raise UsageError(f"{place}: topic {self._topic} has no partition {partition}")

        outgoing = OutgoingRecord(
            self._topic,
            record.value,
            record.key,
            partition,
            (*self._headers, *record.headers),
            record.timestamp,
        )
        outgoing = self._router.route(outgoing)
        if outgoing.reason:
            self._note_unfit(place, outgoing)
        what = f"{place}: not written to {outgoing.topic}"

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self._note(outgoing, message.partition())
            elif self._failure is None:
                self._failure = kafka_errors.admin_error(error, what, self._servers, writing=True)

        while True:
            try:
                self._producer.produce(
                    outgoing.topic,
                    key=outgoing.key,
                    value=outgoing.value,
                    partition=outgoing.partition,
                    headers=list(outgoing.headers) or None,
                    timestamp=outgoing.timestamp,
                    on_delivery=delivered,
                )
                break
            except BufferError:
                self._serve(self._producer.poll, 0.1)
            except KafkaException as error:  # refused before it was sent: too large, above all
                raise kafka_errors.admin_error(error, what, self._servers, writing=True) from None
        self._serve(self._producer.poll, 0)
        self._raise()

    def _note(self, outgoing: OutgoingRecord, partition: int) -> None:
        if outgoing.topic == self._topic:
            self.written[partition] += 1
        elif not outgoing.reason:
            self.routed[outgoing.topic] += 1

    def _note_unfit(self, place: str, outgoing: OutgoingRecord) -> None:
        from distributary.kafka.outgoing_record import ensure_dead_letter_topic

        if outgoing.topic not in self.unfit:
            ensure_dead_letter_topic(self._cluster.admin, outgoing.topic)
        self.first = self.first or f"{place}: {outgoing.reason}"
        self.unfit[outgoing.topic] += 1

    def flush(self) -> None:
        """Wait until all is acknowledged; raises when it is not."""
        soon = time.monotonic() + 1
        while len(self._producer) and self._failure is None and time.monotonic() < soon:
            self._serve(self._producer.poll, 0.05)  # which has the reason of what ends it
        self._raise()
        left = self._serve(self._producer.flush, _FLUSH)
        self._raise()
        if left:
            raise KafkaUnavailable(
                f"{left} records for {self._topic} are not acknowledged by Kafka at {self._servers}",
                hint="Check that it runs, and try again; they may still arrive",
            )

    def _serve(self, call: Callable[[float], int], seconds: float) -> int:
        from confluent_kafka import KafkaException

        from distributary.kafka import kafka_errors, librdkafka

        try:
            return librdkafka.serve(call, seconds)
        except KafkaException as error:  # nothing more can be written, whatever else failed meanwhile
            self._failure = kafka_errors.admin_error(
                error, f"writing to {self._topic}", self._servers, writing=True
            )
            return 0

    def _raise(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _record(self, line: bytes) -> Record:
        from distributary.kafka import record_text

        args = self._args
        if args.whole:
            record = record_text.Record(None, line)
        else:
            text = line.decode(errors="surrogateescape")
            if args.json_lines:
                record = record_text.from_json(text)
            elif args.keys:
                record = record_text.keyed(text, args.key_separator, null=args.null)
            else:
                record = record_text.plain(text, null=args.null)
        return record if args.key is None else record._replace(key=args.key.encode())


def _lines(args: argparse.Namespace) -> Iterator[tuple[str, bytes]]:
    """The lines with their places; whole files with ``--whole``."""
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


def _console_properties(args: argparse.Namespace) -> None:
    """Read what Kafka's console producer calls properties of its reader."""
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
                f"--property {name} is not known", hint="There are parse.key, key.separator and null.marker"
            )
