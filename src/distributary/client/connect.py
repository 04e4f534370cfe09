"""librdkafka's clients, created from a configuration; and looking topics up through them."""

from __future__ import annotations

import enum
import itertools
import re
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from distributary.client.configuration import Configuration, Source, read_configuration
from distributary.errors import ConfigError, DistributaryError, KafkaRefused, KafkaUnavailable
from distributary.kafka.admin import probe_ports
from distributary.kafka.client_properties import PROPERTIES
from distributary.kafka.kafka_errors import (
    CLIENT_UNREACHABLE_HINT,
    MISSING_TOPIC,
    client_error,
    is_refusal,
    recovers_by_itself,
)
from distributary.kafka.librdkafka import librdkafka, quiet
from distributary.kafka.outgoing_record import OutgoingRecord, ensure_dead_letter_topic
from distributary.kafka.record_producer import SLICE, RecordProducer

P = ParamSpec("P")
Handle = TypeVar("Handle", Producer, Consumer)

TOPIC_LIMIT = 1.0
"""How late a topic may be that is being created, or that the broker creates on request, in seconds."""
REFRESH = 60.0
"""How old a topic's number of partitions may be when records are dealt out in turn, in seconds."""

_PROPERTY = re.compile(r'configuration property "([^"]+)"|`([a-z.]+)`')
_ALIASES = {
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
}
"""librdkafka's names of properties that were given under Java's."""


class BackgroundErrors:
    """The errors that a client meets between calls, so that the next call can report why it gets no answer.

    librdkafka calls it with one error after another.
    """

    def __init__(self) -> None:
        self._refusal: KafkaError | None = None
        self._last = ""

    def __call__(self, error: KafkaError) -> None:
        """Remember an error."""
        if is_refusal(error):
            self._refusal = error
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._last:  # that one only sums up others
            self._last = error.str()

    def refusal(self, what: str, servers: str) -> DistributaryError | None:
        """The error that waiting does not help against, if there was one."""
        return None if self._refusal is None else client_error(self._refusal, what, servers)

    def no_answer(self, what: str, servers: str, seconds: float, mismatch: str = "") -> DistributaryError:
        """The error for no answer in time, with the last one that was met.

        ``mismatch`` is what `distributary.kafka.admin.probe_ports` found, if anything.
        """
        if mismatch:
            return KafkaRefused(
                f"{what} failed at Kafka {servers}: {mismatch}",
                hint="Set security.protocol to what that port speaks, and sasl.* if it requires a password",
            )
        return KafkaUnavailable(
            f"{what} failed: Kafka {servers} did not respond within {seconds:g} s "
            f"({self._last or 'no error was reported'})",
            hint=CLIENT_UNREACHABLE_HINT,
        )


class CallbackErrors:
    """Keeps the first exception of the callbacks that it wraps, until the call that ran them is over.

    confluent_kafka loses an exception of a callback that has called the client itself, as one that looks up
    where to start does: a Ctrl-C at that time would be lost.
    """

    def __init__(self) -> None:
        self._first: BaseException | None = None

    def wrap(self, callback: Callable[P, None]) -> Callable[P, None]:
        """A callback that raises nothing."""

        def wrapped(*args: P.args, **options: P.kwargs) -> None:
            try:
                callback(*args, **options)
            except BaseException as error:
                self._first = self._first or error

        return wrapped

    def raise_first(self) -> None:
        """Raise the first exception, once."""
        error, self._first = self._first, None
        if error is not None:
            raise error


def connect(
    kind: type[Handle], config: Configuration, background: BackgroundErrors, **callbacks: Any
) -> Handle:
    """Create a client; it connects by itself. Raises `ConfigError` for a value that librdkafka refuses."""
    # With a logger its fatal errors are not printed either; they are raised anyway.
    logging = {**quiet(), "logger": librdkafka}
    final: dict[str, Any] = {**logging, **config.librdkafka, **callbacks, "error_cb": background}
    try:
        return kind(final)
    except KafkaException as error:
        text = error.args[0].str()
        found = _PROPERTY.search(text)
        name = next(filter(None, found.groups()), "") if found else ""
        java = next((row.name for row in PROPERTIES.values() if row.to == name), name)
        java = _ALIASES.get(java, java)
        key = f"Properties.{java}" if java else "Properties"
        for alias, known in _ALIASES.items():
            text = text.replace(alias, known)
        raise ConfigError(f"{config.origin}: {key}: {text}") from None


def count_partitions(
    handle: Producer | Consumer,
    topic: str,
    what: str,
    *,
    config: Configuration,
    background: BackgroundErrors,
    limit: float,
    serve: Callable[[], object] = lambda: None,
) -> int:
    """A topic's number of partitions (for "" only check that Kafka answers); waits up to ``limit`` seconds.

    ``what`` is being done, for messages; ``serve`` makes librdkafka report to ``background``. Raises
    `TopicMissing`, `KafkaUnavailable` with the address and the reason, or `KafkaRefused`.
    """
    began = time.monotonic()
    while True:
        spent = time.monotonic() - began
        serve()
        if refusal := background.refusal(what, config.servers):
            raise refusal
        try:
            metadata = handle.list_topics(**({"topic": topic} if topic else {}), timeout=SLICE * 3)
        except KafkaException as error:
            if not recovers_by_itself(error.args[0]):
                raise client_error(error.args[0], what, config.servers) from None
            if spent >= limit:
                mismatch = probe_ports(config.servers, config.librdkafka.get("security.protocol"))
                raise background.no_answer(what, config.servers, limit, mismatch) from None
            continue
        if not topic:
            return 0
        found = metadata.topics[topic]
        if found.error is None and found.partitions:
            return len(found.partitions)
        missing = found.error is None or found.error.code() in MISSING_TOPIC
        waiting = missing or recovers_by_itself(found.error)
        if not waiting or spent >= min(limit, TOPIC_LIMIT if missing else limit):
            reason = found.error or KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            raise client_error(reason, what, config.servers)


class Unconfirmed(enum.Enum):
    """The end of a transaction that Kafka has not confirmed yet."""

    NONE = enum.auto()
    COMMIT = enum.auto()
    ABORT = enum.auto()


class ConfiguredProducer(RecordProducer):
    """A producer by one JSON configuration, with topics that are known to exist. Thread-safe."""

    def __init__(self, source: Source) -> None:
        self.config: Configuration = read_configuration(source, "producer")
        self.background = BackgroundErrors()
        super().__init__(
            connect(Producer, self.config, self.background),
            lambda error, record: client_error(error, _writing(record), self.config.servers),
        )
        self.max_block = float(self.config.own.get("max.block.ms", 60_000)) / 1000
        """How long to wait for a topic or for room in the queue, in seconds."""
        self.initialised = False
        """Whether transactions can begin."""
        self.unconfirmed = Unconfirmed.NONE
        self._round_robin = bool(self.config.own.get("round.robin"))
        self._turns: dict[str, itertools.count[int]] = {}
        self._partitions: dict[str, tuple[int, float]] = {}  # by topic: their number, and until when it holds

    def knows(self, topic: str) -> bool:
        """Whether a record for this topic can be queued at once."""
        count, until = self._partitions.get(topic, (0, 0.0))
        return count > 0 and (not self._round_robin or time.monotonic() < until)

    def look_up(self, record: OutgoingRecord) -> None:
        """Look a record's topic up, for up to ``max.block.ms``; a dead-letter topic is created.

        Raises `TopicMissing`, `KafkaUnavailable` or `KafkaRefused`.
        """
        if record.reason:
            properties: dict[str, Any] = {**quiet(), **self.config.librdkafka, "error_cb": self.background}
            ensure_dead_letter_topic(AdminClient(properties), record.topic)
        count = count_partitions(
            self.handle,
            record.topic,
            _writing(record),
            config=self.config,
            background=self.background,
            limit=self.max_block,
            serve=lambda: self.poll(0, record),
        )
        self._partitions[record.topic] = count, time.monotonic() + REFRESH

    def choose_partition(self, record: OutgoingRecord) -> int:
        """The partition of a record: its own, the next in turn if so configured, or librdkafka's choice."""
        if record.partition >= 0 or not self._round_robin:
            return record.partition
        turn = next(self._turns.setdefault(record.topic, itertools.count()))
        return turn % self._partitions[record.topic][0]

    def no_room(self, record: OutgoingRecord) -> KafkaUnavailable:
        """The error for a record that was not queued within ``max.block.ms``."""
        return KafkaUnavailable(
            f"{_writing(record)} failed: there was no room for it within {self.max_block:g} s",
            hint="Check that Kafka answers, or raise buffer.memory or max.block.ms",
        )


def _writing(record: OutgoingRecord | None) -> str:
    return "writing" if record is None else f"writing {record}"
