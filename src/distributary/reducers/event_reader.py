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
from distributary.model.feed import Feed
from distributary.reducers.event_fold import Happening
from distributary.reducers.topic_identity import Leaders

log = logging.getLogger(__name__)

AHEAD_EVENTS, AHEAD_BYTES = 1_000, 4_000_000
"""How much may wait to be folded before reading stops."""


_PASSING = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)


class EventsLost(Exception):
    """The event feed cannot be read on from where it was."""


class EventFeed(NamedTuple):
    """A view's event feed: the id of its topic, what that still has, and where a new partition begins."""

    feed: Feed
    topic: str
    earliest: int
    start: int
    leaders: Leaders


class EventReader:
    """Gives the committed records of a topic of one partition, from an offset on, in a thread.

    ``heard`` is called when there is something new to know. Broken connections heal by themselves; what
    does not (records that retention took before they were read, a topic that is gone or barred) is raised
    by the next look at what waits, so that the task fails and its driver decides.
    """

    def __init__(self, kafka: Kafka, topic: str, start: int, heard: Callable[[], None]) -> None:
        self._kafka = kafka
        self._place = TopicPartition(topic, 0, start)
        self._heard = heard
        self._waiting: deque[Happening] = deque()
        self._bytes = 0
        self._room = threading.Condition()
        self._at_end = False
        self._failure: Exception | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="event-reader", daemon=True)

    def start(self) -> EventReader:
        """Begin; return at once."""
        self._thread.start()
        return self

    def waiting(self) -> list[Happening]:
        """What was read and not said to be done, in order."""
        with self._room:
            self._check()
            return list(self._waiting)

    def some(self) -> bool:
        """Whether something waits, be it a failure."""
        return bool(self._waiting) or self._failure is not None

    def known(self) -> bool:
        """Whether something waits, or it is known that nothing does: the topic was read to its end once."""
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
        """End, and wait for the thread."""
        with self._room:
            self._closing = True
            self._room.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        # The group's name is asked for by the library and used for nothing: assign() joins no group.
        reader = librdkafka.consumer(
            self._kafka, "distributary-events", auto_offset_reset="error", enable_partition_eof="true"
        )
        try:
            reader.assign([self._place])
            while not self._closing:
                message = reader.poll(0.2)
                if message is not None and self._take(message):
                    self._heard()
        except Exception as error:
            self._failure = error
            self._heard()
        finally:
            reader.close()

    def _take(self, message: Message) -> bool:
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                if not error.retriable() and error.code() not in _PASSING:
                    raise EventsLost(
                        f"the event feed's topic {message.topic()} cannot be read: {error.str()}"
                    )
                log.debug("reading the events: %s", error)  # librdkafka connects again by itself
                return False
            first, self._at_end = not self._at_end, True
            return first
        offset, value = message.offset(), message.value()
        assert offset is not None
        with self._room:
            while not self._closing and (len(self._waiting) >= AHEAD_EVENTS or self._bytes >= AHEAD_BYTES):
                self._room.wait()
            self._waiting.append(Happening(offset, message.timestamp()[1], value))
            self._bytes += len(value or b"")
        return True
