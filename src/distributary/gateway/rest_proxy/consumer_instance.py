"""One consumer instance: a Kafka consumer, and the records that it buffers for its client.

Its calls block and run in threads, one at a time. Polled records wait in ``pending`` until a response takes
them, so a request that is broken off loses nothing; only what a response took counts as consumed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from distributary.config.sections import Kafka
from distributary.gateway.error_codes import RestCode, api_error, kafka_error
from distributary.kafka import librdkafka

_MAX_RECORDS = 500
_MAX_BYTES = 10 << 20
"""Limits of what an instance buffers; at either it pauses until some is taken.

The largest ``fetch.min.bytes`` is below.
"""
_TIMEOUT = 10.0
POLL_SECONDS = 0.2
"""Seconds for which a thread waits before it checks whether its call was cancelled."""

_PATTERN_INTERVAL = 2.0
"""Seconds after which an instance with a pattern looks for new topics that match it."""

Partition = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """The settings of an instance. ``offset_reset``: earliest, latest, or error.

    A read ends once ``min_bytes`` are there, or after ``wait`` seconds.
    """

    name: str = ""
    format: str = "binary"
    offset_reset: str = "latest"
    auto_commit: bool = True
    wait: float | None = None
    min_bytes: int = 0


class ConsumerInstance:
    """A member of a group. A method (`idle` will do) must be called regularly, or the group waits for it."""

    def __init__(self, kafka: Kafka, group: str, name: str, options: ConsumerOptions) -> None:
        self.group, self.name, self.options = group, name, options
        self.topics: tuple[str, ...] = ()
        """The subscription; empty if there is none, or assignments instead."""
        self.pattern: Callable[[str], bool] | None = None
        """Chooses the topics of the subscription, if it is by a pattern."""
        self._pattern_checked = 0.0
        self.pending: deque[Message] = deque()
        """Polled records that no response has taken."""
        self.consumed: dict[Partition, int] = {}
        """The last offset that a response took."""
        self.committed: dict[Partition, int] = {}
        """The last offset that was committed as consumed."""
        self._assigned = False
        self._paused = False
        self._error: KafkaError | None = None
        """An error that the next read reports."""
        self._consumer: Consumer = librdkafka.consumer(
            kafka,
            group,
            auto_offset_reset=options.offset_reset,
            client_id=f"distributary-gateway-{name}"[:200],
            # More records are fetched again when they are read; thousands of instances share the memory.
            queued_max_messages_kbytes=4096,
            fetch_wait_max_ms=200,
            # A new member waits until every other one learns of it, which is at the next heartbeat.
            heartbeat_interval_ms=1000,
        )

    # --- what to read ---

    def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group for these topics instead of the previous ones."""
        self._check_unassigned()
        self.pattern = None
        self._join(topics)

    def subscribe_pattern(self, pattern: Callable[[str], bool]) -> None:
        """Join the group for the topics that a pattern matches, now and later, instead of previous ones."""
        self._check_unassigned()
        self.pattern = pattern
        self.refresh_pattern()

    def refresh_pattern(self) -> None:
        """Subscribe to the topics that match the pattern now, if there is one."""
        if self.pattern is not None:
            self._pattern_checked = time.monotonic()
            names = self._consumer.list_topics(timeout=_TIMEOUT).topics
            found = sorted(filter(self.pattern, names))
            if tuple(found) != self.topics:
                self._join(found)

    def subscription(self) -> list[str]:
        """List the topics that it is subscribed to."""
        self.refresh_pattern()
        return list(self.topics)

    def has_source(self) -> bool:
        """Whether there is anything to read: a subscription or assignments."""
        return bool(self.topics) or self.pattern is not None or bool(self.assignment())

    def unsubscribe(self) -> None:
        """Leave the group and drop assignments."""
        self.pattern = None
        self._leave()

    def _check_unassigned(self) -> None:
        if self._assigned:
            raise api_error(
                RestCode.ILLEGAL_STATE, "the instance has assignments", "use another for subscriptions"
            )

    def _join(self, topics: Iterable[str]) -> None:
        names = tuple(topics)
        if not names:
            return self._leave()
        self.topics = names
        self._consumer.subscribe(list(names), on_revoke=self._on_revoke, on_lost=self._on_lost)

    def _leave(self) -> None:
        self._commit_consumed()
        self._consumer.unsubscribe()
        if self._assigned:
            self._consumer.unassign()
        self.topics, self._assigned = (), False
        self._drop(None)

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions, even if others do; from the committed offset, else by ``offset_reset``."""
        if self.topics or self.pattern is not None:
            raise api_error(
                RestCode.ILLEGAL_STATE, "the instance has a subscription", "use another for assignments"
            )
        self._consumer.assign([TopicPartition(*partition) for partition in partitions])
        self._assigned = True
        self._drop(None)

    def assignment(self) -> list[Partition]:
        """List the partitions that are read now."""
        return sorted((one.topic, one.partition) for one in self._consumer.assignment())

    def seek(self, offsets: Iterable[tuple[str, int, int]]) -> None:
        """Continue reading at these offsets (or OFFSET_BEGINNING, OFFSET_END)."""
        assigned = set(self.assignment())
        for topic, partition, offset in offsets:
            if (topic, partition) not in assigned:
                raise api_error(
                    RestCode.ILLEGAL_STATE,
                    f"partition {partition} of {topic!r} is not assigned to the instance",
                    "assign it, or read until the group has assigned it",
                )
            self._seek(TopicPartition(topic, partition, offset))
            self._drop({(topic, partition)})

    def _seek(self, target: TopicPartition) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while True:
            try:
                return self._consumer.seek(target)
            except KafkaException as error:
                # A partition that was assigned just now is not being fetched yet.
                if error.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:
                    raise
                self.idle()
                time.sleep(0.01)

    # --- records ---

    def fetch(self, wait: float, cancelled: threading.Event) -> None:
        """Wait until enough is pending, at most ``wait`` seconds or until cancelled.

        Commits what earlier responses took, if the instance commits automatically.
        """
        if self.options.auto_commit:
            self._commit_consumed(wait=False)
        if self._paused and not self._is_full():
            self._consumer.resume(self._consumer.assignment())
            self._paused = False
        deadline = time.monotonic() + wait
        while not self._has_enough() and self._error is None and not cancelled.is_set():
            left = deadline - time.monotonic()
            self._refresh_pattern_sometimes()
            self._add(self._consumer.poll(max(0, min(left, POLL_SECONDS))))
            if left <= 0:
                break
        if self._is_full():
            self.idle()
        elif self.pending:
            for message in self._consumer.consume(_MAX_RECORDS - len(self.pending), 0):
                self._add(message)
        if not self.pending and self._error is not None:
            error, self._error = self._error, None
            raise kafka_error(error, f"the instance {self.name} of the group {self.group}")

    def _has_enough(self) -> bool:
        min_bytes = self.options.min_bytes
        return bool(self.pending) and (not min_bytes or sum(map(message_size, self.pending)) >= min_bytes)

    def _is_full(self) -> bool:
        return len(self.pending) >= _MAX_RECORDS or sum(map(message_size, self.pending)) >= _MAX_BYTES

    def peek(self, max_bytes: int) -> list[Message]:
        """Return the first pending records, up to ``max_bytes`` and at least one."""
        return up_to_bytes(self.pending, max_bytes)

    def take(self, count: int) -> None:
        """Remove the first pending records: a response has them, so they count as consumed."""
        for _ in range(count):
            message = self.pending.popleft()
            self.consumed[message.topic() or "", message.partition() or 0] = message.offset() or 0

    def idle(self) -> None:
        """Take part in the group while the client does nothing; pauses if the buffer is full."""
        if self._is_full() and not self._paused:
            self._consumer.pause(self._consumer.assignment())
            self._paused = True
        self._refresh_pattern_sometimes()
        self._add(self._consumer.poll(0))

    def _refresh_pattern_sometimes(self) -> None:
        if time.monotonic() - self._pattern_checked > _PATTERN_INTERVAL:
            self.refresh_pattern()

    def _add(self, message: Message | None) -> None:
        if message is None:
            return
        error = message.error()
        if error is None:
            self.pending.append(message)
        elif error.code() != KafkaError._PARTITION_EOF:
            self._error = error

    # --- offsets ---

    def commit(self, offsets: Iterable[tuple[str, int, int, str]] | None = None) -> None:
        """Commit that records are consumed, with metadata: those given, or all that responses took."""
        chosen = (
            [(*partition, offset, "") for partition, offset in self.consumed.items()]
            if offsets is None
            else list(offsets)
        )
        if not chosen:
            return
        targets = [
            TopicPartition(topic, number, offset + 1, metadata) for topic, number, offset, metadata in chosen
        ]
        self._consumer.commit(offsets=targets, asynchronous=False)
        self.committed.update({(topic, number): offset for topic, number, offset, _ in chosen})

    def committed_offsets(self, partitions: Iterable[Partition]) -> list[TopicPartition]:
        """Return what the group committed; partitions without a committed offset are left out."""
        targets = [TopicPartition(*partition) for partition in partitions]
        found = self._consumer.committed(targets, timeout=_TIMEOUT)
        return [one for one in found if one.offset >= 0]

    def close(self) -> None:
        """Commit what was consumed, if the instance commits automatically, and leave the group."""
        self._commit_consumed()
        with contextlib.suppress(KafkaException, RuntimeError):
            self._consumer.close()

    def _commit_consumed(self, *, wait: bool = True) -> None:
        ahead = {
            partition: offset
            for partition, offset in self.consumed.items()
            if self.committed.get(partition) != offset
        }
        if not self.options.auto_commit or not ahead:
            return
        targets = [TopicPartition(topic, number, offset + 1) for (topic, number), offset in ahead.items()]
        # What cannot be committed is consumed again by the partition's next owner.
        with contextlib.suppress(KafkaException):
            if wait:
                self._consumer.commit(offsets=targets, asynchronous=False)
            else:
                self._consumer.commit(offsets=targets)
            self.committed.update(ahead)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit_consumed()
        self._drop({(one.topic, one.partition) for one in partitions})

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._drop({(one.topic, one.partition) for one in partitions})

    def _drop(self, partitions: set[Partition] | None) -> None:
        """Drop what is buffered of partitions (None: of all) that are read by others, or from elsewhere."""
        if partitions is None:
            self.pending.clear()
            self.consumed.clear()
            return
        rest = [one for one in self.pending if (one.topic(), one.partition()) not in partitions]
        self.pending = deque(rest)
        for partition in partitions:
            self.consumed.pop(partition, None)


def message_size(message: Message) -> int:
    """Return the bytes of a record's key and value."""
    return len(message.key() or b"") + len(message.value() or b"")


def up_to_bytes(messages: Iterable[Message], max_bytes: int) -> list[Message]:
    """Return the first records, up to ``max_bytes`` and at least one."""
    chosen: list[Message] = []
    total = 0
    for message in messages:
        total += message_size(message)
        if chosen and total > max_bytes:
            break
        chosen.append(message)
    return chosen
