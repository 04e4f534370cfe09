"""The commands topic: subscribe, begin and end commands, broadcast to every reducer.

A command is keyed by its view, so the commands of a view keep their order. They are hints that make a new
query known early, and a record of who requested it; the registry in the store is what makes it safe. So a
reader may begin at the end, and a command that is never read is no loss.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Literal

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka
from distributary.kafka.kafka_errors import write_error
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_producer import AsyncRecordProducer, RecordProducer
from distributary.kafka.topics import Topic, ensure_topic
from distributary.model.command import Command, decode_command, encode_command

log = logging.getLogger(__name__)

PARTITIONS = 1
RETENTION_MS = 7 * 24 * 3600 * 1000
REFRESH = 30.0
"""How often a reader checks for new partitions, in seconds."""

Start = Literal["end", "earliest"]


def ensure_commands_topic(admin: AdminClient, kafka: Kafka) -> Topic:
    """Create the commands topic if it does not exist; its records are deleted by age."""
    config = {"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS)}
    return ensure_topic(admin, kafka.commands_topic, PARTITIONS, config)


class CommandsProducer:
    """Writes commands from one event loop; each is acknowledged by every in-sync replica or raises."""

    def __init__(self, kafka: Kafka, *, timeout: float = 10.0) -> None:
        self._topic = kafka.commands_topic
        handle = librdkafka.producer(
            kafka,
            linger_ms=0,
            delivery_timeout_ms=int(timeout * 1000),
            # A missing topic is an error instead of being waited for.
            topic_metadata_propagation_max_ms=int(min(timeout / 2, 2.0) * 1000),
        )
        what = f"a command for topic {self._topic}"
        core = RecordProducer(handle, lambda error, record: write_error(error, what))
        self._producer = AsyncRecordProducer(core, "commands-producer")

    async def send(self, command: Command) -> None:
        """Write one command and wait until it is acknowledged.

        Raises `KafkaUnavailable` if no broker answered in time, `TopicError` if one refused it.
        """
        record = OutgoingRecord(self._topic, encode_command(command), command.view.encode())
        await self._producer.send(record)

    async def close(self, timeout: float = 5.0) -> None:
        """Send what is queued, for at most ``timeout`` seconds, and end."""
        await self._producer.close(timeout)


class CommandsReader:
    """Calls ``handle`` with every command, in a thread, without a consumer group.

    ``handle`` should not raise: an exception is logged and the command counts as handled. Records that are
    not commands are skipped. After a lost connection or a broker restart it goes on where it was.
    """

    def __init__(self, kafka: Kafka, handle: Callable[[Command], None], *, start: Start = "end") -> None:
        self._kafka = kafka
        self._handle = handle
        self._start: Start = start
        self._next: dict[int, int] = {}
        self._assigned = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commands-reader", daemon=True)

    def start(self) -> CommandsReader:
        """Start the thread; return at once."""
        self._thread.start()
        return self

    def wait(self, limit: float) -> bool:
        """Wait until the start offsets are fixed: commands written after that will be read."""
        return self._assigned.wait(limit)

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        # The library requires a group name and does not use it: assign() joins no group.
        reader = librdkafka.consumer(self._kafka, "distributary-commands", auto_offset_reset="earliest")
        try:
            refresh_at = 0.0
            while not self._closing.is_set():
                if time.monotonic() >= refresh_at:
                    found = self._assign(reader)
                    refresh_at = time.monotonic() + (REFRESH if found else 0.2)
                if self._next:
                    self._take(reader.poll(0.2))
                else:
                    self._closing.wait(0.2)
        finally:
            reader.close()

    def _assign(self, reader: Consumer) -> bool:
        """Assign new partitions; whether the topic's metadata could be read."""
        name = self._kafka.commands_topic
        try:
            known = reader.list_topics(name, timeout=1.0).topics[name].partitions
            found = {number: self._first(reader, number) for number in known if number not in self._next}
        except KafkaException as error:
            log.debug("cannot read the commands topic yet: %s", error)
            return False
        if found:
            self._next.update(found)
            reader.assign([TopicPartition(name, number, at) for number, at in self._next.items()])
            self._assigned.set()
        return bool(self._next)

    def _first(self, reader: Consumer, number: int) -> int:
        """The start offset of a partition. One that was added later is read from its first record."""
        partition = TopicPartition(self._kafka.commands_topic, number)
        low, high = reader.get_watermark_offsets(partition, timeout=1.0)
        return high if self._start == "end" and not self._assigned.is_set() else low

    def _take(self, message: Message | None) -> None:
        if message is None:
            return
        if message.error() is not None:  # librdkafka reconnects by itself
            log.debug("reading the commands topic: %s", message.error())
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        if partition is None or offset is None:
            return
        self._next[partition] = offset + 1
        command = decode_command(value) if value else None
        if command is None:
            return
        try:
            self._handle(command)
        except Exception:
            log.exception("failed to handle a command: %s", command)
