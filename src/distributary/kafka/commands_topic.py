"""The commands topic: who asked what of which view, told to every reducer.

A command is keyed by its view, so the commands of a view keep their order. They are hints that make a new
query known early, and a record of who asked; the registry in the store is what makes it safe. So a reader
may begin at the end, and a command that nobody read is no loss.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from distributary.config.sections import Kafka
from distributary.errors import KafkaUnavailable, TopicError
from distributary.kafka import librdkafka
from distributary.kafka.topics import Topic, ensure_topic
from distributary.model.command import Command, decode_command, encode_command

log = logging.getLogger(__name__)

PARTITIONS = 1
RETENTION_MS = 7 * 24 * 3600 * 1000
LOOK_AGAIN = 30.0
"""How often a reader looks for new partitions, in seconds."""

Start = Literal["end", "earliest"]


def ensure_commands_topic(admin: AdminClient, kafka: Kafka) -> Topic:
    """Create the commands topic if there is none: deleted by age, since old commands mean nothing."""
    config = {"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS)}
    return ensure_topic(admin, kafka.commands_topic, PARTITIONS, config)


class CommandsProducer:
    """Writes commands; each is acknowledged by every in-sync replica or raises.

    For one event loop. A thread of its own hears the acknowledgements, so nothing blocks the loop.
    """

    def __init__(self, kafka: Kafka, *, timeout: float = 10.0) -> None:
        self._topic = kafka.commands_topic
        self._producer = librdkafka.producer(
            kafka,
            linger_ms=0,
            delivery_timeout_ms=int(timeout * 1000),
            # A topic that is missing is said to be, instead of being waited for.
            topic_metadata_propagation_max_ms=int(min(timeout / 2, 2.0) * 1000),
        )
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="commands-producer", daemon=True)
        self._thread.start()

    async def send(self, command: Command) -> None:
        """Write one command and wait until it is acknowledged.

        Raises `KafkaUnavailable` when no broker answered in time, `TopicError` when one refused.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle(error: KafkaError | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(_refused(self._topic, error))

        def heard(error: KafkaError | None, message: Message) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, error)

        try:
            self._producer.produce(
                self._topic, encode_command(command), command.view.encode(), on_delivery=heard
            )
        except BufferError:
            raise KafkaUnavailable(
                f"the commands for topic {self._topic} pile up unsent", hint="Check that Kafka answers"
            ) from None
        except KafkaException as error:
            raise _refused(self._topic, error.args[0]) from None
        await done

    async def close(self, timeout: float = 5.0) -> None:
        """Send what is left, for at most ``timeout`` seconds, and end."""
        await asyncio.to_thread(self._producer.flush, timeout)
        self._closing.set()
        await asyncio.to_thread(self._thread.join)

    def _listen(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(0.1)


class CommandsReader:
    """Gives every command to ``heard``, in a thread, without a consumer group; outlives broker restarts.

    ``heard`` must not raise: what it raises is logged and the command counts as heard. Records that are
    not commands are passed over. After a broken connection it goes on where it was.
    """

    def __init__(self, kafka: Kafka, heard: Callable[[Command], None], *, start: Start = "end") -> None:
        self._kafka = kafka
        self._heard = heard
        self._start: Start = start
        self._next: dict[int, int] = {}
        self._assigned = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commands-reader", daemon=True)

    def start(self) -> CommandsReader:
        """Begin; return at once."""
        self._thread.start()
        return self

    def wait(self, limit: float) -> bool:
        """Wait until the starting point is fixed: a command written after that will be heard."""
        return self._assigned.wait(limit)

    def close(self) -> None:
        """End, and wait for the thread."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        # The group's name is asked for by the library and used for nothing: assign() joins no group.
        reader = librdkafka.consumer(self._kafka, "distributary-commands", auto_offset_reset="earliest")
        try:
            look = 0.0
            while not self._closing.is_set():
                if time.monotonic() >= look:
                    found = self._assign(reader)
                    look = time.monotonic() + (LOOK_AGAIN if found else 0.2)
                if self._next:
                    self._take(reader.poll(0.2))
                else:
                    self._closing.wait(0.2)
        finally:
            reader.close()

    def _assign(self, reader: Consumer) -> bool:
        """Take in partitions not yet read; say whether the topic could be looked at."""
        name = self._kafka.commands_topic
        try:
            known = reader.list_topics(name, timeout=1.0).topics[name].partitions
            found = {number: self._first(reader, number) for number in known if number not in self._next}
        except KafkaException as error:
            log.debug("the commands topic cannot be read yet: %s", error)
            return False
        if found:
            self._next.update(found)
            reader.assign([TopicPartition(name, number, at) for number, at in self._next.items()])
            self._assigned.set()
        return bool(self._next)

    def _first(self, reader: Consumer, number: int) -> int:
        """Where a partition begins. One that came later is read whole: nobody has seen its first records."""
        place = TopicPartition(self._kafka.commands_topic, number)
        low, high = reader.get_watermark_offsets(place, timeout=1.0)
        return high if self._start == "end" and not self._assigned.is_set() else low

    def _take(self, message: Message | None) -> None:
        if message is None:
            return
        if message.error() is not None:  # librdkafka connects again by itself
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
            self._heard(command)
        except Exception:
            log.exception("a command could not be handled: %s", command)


def _refused(topic: str, error: KafkaError) -> KafkaUnavailable | TopicError:
    if error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
        return KafkaUnavailable(
            f"Kafka did not acknowledge a command on topic {topic} in time", hint="Check that it runs"
        )
    return TopicError(f"a command was refused by topic {topic}: {error.str()}")
