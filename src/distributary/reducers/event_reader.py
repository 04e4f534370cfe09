"""Reads a view's event feed inside a task, a little ahead of the reducer that folds it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, TopicPartition

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka
from distributary.kafka.kafka_errors import UNREACHABLE
from distributary.model.feed import Feed
from distributary.reducers.event_fold import FeedEvent
from distributary.reducers.topic_identity import Leaders

log = logging.getLogger(__name__)

AHEAD_EVENTS, AHEAD_BYTES = 1_000, 4_000_000
"""How much may wait to be folded before reading pauses."""


class EventsLost(Exception):
    """The event feed cannot be read from where the view stands."""


class EventFeed(NamedTuple):
    """A view's event feed: the id of its topic, what that still has, and where a new partition begins."""

    feed: Feed
    topic: str
    earliest: int
    start: int
    leaders: Leaders


class EventReader:
    """Reads the committed records of a topic of one partition, from an offset on, in a thread.

    ``notify`` is called when there is something new. librdkafka restores lost connections by itself; other
    failures (records that retention removed before they were read, a topic that is gone or not authorized)
    are raised by the next call that reads, so that the task fails and its driver decides.
    """

    def __init__(self, kafka: Kafka, topic: str, start: int, notify: Callable[[], None]) -> None:
        self._kafka = kafka
        self._start = TopicPartition(topic, 0, start)
        self._notify = notify
        self._waiting: deque[FeedEvent] = deque()
        self._bytes = 0
        self._room = threading.Condition()
        self._at_end = False
        self._failure: Exception | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="event-reader", daemon=True)

    def start(self) -> EventReader:
        """Start reading."""
        self._thread.start()
        return self

    def waiting(self) -> list[FeedEvent]:
        """What was read and is not done yet, in order."""
        with self._room:
            self._check()
            return list(self._waiting)

    def has_some(self) -> bool:
        """Whether events, or a failure, are waiting."""
        return bool(self._waiting) or self._failure is not None

    def is_known(self) -> bool:
        """Whether events are waiting, or none can be: the topic was read to its end once."""
        with self._room:
            self._check()
            return bool(self._waiting) or self._at_end

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def done(self, offset: int) -> None:
        """Forget what is before an offset."""
        with self._room:
            while self._waiting and self._waiting[0].offset < offset:
                self._bytes -= len(self._waiting.popleft().value or b"")
            self._room.notify_all()

    def close(self) -> None:
        """Stop, and wait for the thread."""
        with self._room:
            self._closing = True
            self._room.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        # librdkafka requires a group's name and does not use it: assign() joins no group.
        reader = librdkafka.consumer(
            self._kafka, "distributary-events", auto_offset_reset="error", enable_partition_eof="true"
        )
        try:
            reader.assign([self._start])
            while not self._closing:
                message = reader.poll(0.2)
                if message is not None and self._take(message):
                    self._notify()
        except Exception as error:
            self._failure = error
            self._notify()
        finally:
            reader.close()

    def _take(self, message: Message) -> bool:
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                if not error.retriable() and error.code() not in UNREACHABLE:
                    raise EventsLost(f"cannot read the event feed's topic {message.topic()}: {error.str()}")
                log.debug("reading the events: %s", error)  # librdkafka reconnects by itself
                return False
            first, self._at_end = not self._at_end, True
            return first
        offset, value = message.offset(), message.value()
        assert offset is not None
        with self._room:
            while not self._closing and (len(self._waiting) >= AHEAD_EVENTS or self._bytes >= AHEAD_BYTES):
                self._room.wait()
            self._waiting.append(FeedEvent(offset, message.timestamp()[1], value))
            self._bytes += len(value or b"")
        return True
