"""One consumer instance: a Kafka consumer, and the records that it holds for its client.

Its calls block and run in threads, one at a time. What was polled waits in ``pending`` until a reply takes
it, so a request that is broken off loses nothing; only what a reply took counts as consumed.
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
from distributary.gateway.error_codes import RestCode, api_error, refused
from distributary.kafka import librdkafka

_FULL = 500
_FULL_BYTES = 10 << 20
"""Records and bytes that an instance holds; with more it asks for none until they are taken.

The largest ``fetch.min.bytes`` fits in.
"""
_SECONDS = 10.0
SLICE = 0.2
"""Seconds for which a thread waits before it looks whether it is still wanted."""

_LOOK = 2.0
"""Seconds after which an instance with a pattern looks again for topics that match it."""

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants of an instance. ``reset``: earliest, latest or error (no offset: say so).

    A read ends when ``min_bytes`` are there, or after ``wait`` seconds.
    """

    name: str = ""
    format: str = "binary"
    reset: str = "latest"
    auto_commit: bool = True
    wait: float | None = None
    min_bytes: int = 0


class Instance:
    """A member of a group. It must be called (`idle` will do) now and then, or the group waits for it."""

    def __init__(self, kafka: Kafka, group: str, name: str, wish: Wish) -> None:
        self.group, self.name, self.wish = group, name, wish
        self.topics: tuple[str, ...] = ()
        self.pattern: Callable[[str], bool] | None = None
        self._looked = 0.0
        self.pending: deque[Message] = deque()
        self.consumed: dict[Place, int] = {}
        self.committed: dict[Place, int] = {}
        self._assigned = False
        self._paused = False
        self._trouble: KafkaError | None = None
        self._consumer: Consumer = librdkafka.consumer(
            kafka,
            group,
            auto_offset_reset=wish.reset,
            client_id=f"distributary-gateway-{name}"[:200],
            # A record more is fetched again when it is asked for; thousands of instances share the memory.
            queued_max_messages_kbytes=4096,
            fetch_wait_max_ms=200,
            # Whoever joins waits until every member has heard of it, which is at its next heartbeat.
            heartbeat_interval_ms=1000,
        )

    # --- what to read ---

    def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group for these topics, in place of those of before."""
        self._check_unassigned()
        self.pattern = None
        self._join(topics)

    def subscribe_pattern(self, pattern: Callable[[str], bool]) -> None:
        """Join the group for the topics that a pattern matches, now and later; not for those of before."""
        self._check_unassigned()
        self.pattern = pattern
        self.look()

    def look(self) -> None:
        """Subscribe to the topics that match the pattern now, if there is one."""
        if self.pattern is not None:
            self._looked = time.monotonic()
            names = self._consumer.list_topics(timeout=_SECONDS).topics
            found = sorted(filter(self.pattern, names))
            if tuple(found) != self.topics:
                self._join(found)

    def subscription(self) -> list[str]:
        """Name the topics that are subscribed to."""
        self.look()
        return list(self.topics)

    def reads(self) -> bool:
        """Whether there is anything to read: a subscription or assignments."""
        return bool(self.topics) or self.pattern is not None or bool(self.assignment())

    def unsubscribe(self) -> None:
        """Leave the group and give up assignments."""
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
        self._consumer.subscribe(list(names), on_revoke=self._revoked, on_lost=self._lost)

    def _leave(self) -> None:
        self._commit_consumed()
        self._consumer.unsubscribe()
        if self._assigned:
            self._consumer.unassign()
        self.topics, self._assigned = (), False
        self._forget(None)

    def assign(self, places: Iterable[Place]) -> None:
        """Read these partitions, whoever else does; from what the group committed, else by ``reset``."""
        if self.topics or self.pattern is not None:
            raise api_error(
                RestCode.ILLEGAL_STATE, "the instance has a subscription", "use another for assignments"
            )
        self._consumer.assign([TopicPartition(*place) for place in places])
        self._assigned = True
        self._forget(None)

    def assignment(self) -> list[Place]:
        """List the partitions that are read now."""
        return sorted((one.topic, one.partition) for one in self._consumer.assignment())

    def seek(self, offsets: Iterable[tuple[str, int, int]]) -> None:
        """Read on from these offsets (or OFFSET_BEGINNING, OFFSET_END)."""
        held = set(self.assignment())
        for topic, partition, offset in offsets:
            if (topic, partition) not in held:
                raise api_error(
                    RestCode.ILLEGAL_STATE,
                    f"partition {partition} of {topic!r} is not assigned to the instance",
                    "assign it, or read until the group has given it out",
                )
            self._seek(TopicPartition(topic, partition, offset))
            self._forget({(topic, partition)})

    def _seek(self, place: TopicPartition) -> None:
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                return self._consumer.seek(place)
            except KafkaException as error:
                # A partition that was assigned just now is not being fetched yet.
                if error.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:
                    raise
                self.idle()
                time.sleep(0.01)

    # --- records ---

    def fetch(self, wait: float, gave_up: threading.Event) -> None:
        """Wait until enough is pending, at most ``wait`` seconds or until nobody wants it any more.

        Commits what replies took before, where that goes by itself.
        """
        if self.wish.auto_commit:
            self._commit_consumed(wait=False)
        if self._paused and not self._full():
            self._consumer.resume(self._consumer.assignment())
            self._paused = False
        deadline = time.monotonic() + wait
        while not self._enough() and self._trouble is None and not gave_up.is_set():
            left = deadline - time.monotonic()
            self._look_sometimes()
            self._heard(self._consumer.poll(max(0, min(left, SLICE))))
            if left <= 0:
                break
        if self._full():
            self.idle()
        elif self.pending:
            for message in self._consumer.consume(_FULL - len(self.pending), 0):
                self._heard(message)
        if not self.pending and self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise refused(trouble, f"the instance {self.name} of the group {self.group}")

    def _enough(self) -> bool:
        return bool(self.pending) and (
            not self.wish.min_bytes or sum(map(size, self.pending)) >= self.wish.min_bytes
        )

    def _full(self) -> bool:
        return len(self.pending) >= _FULL or sum(map(size, self.pending)) >= _FULL_BYTES

    def peek(self, limit: int) -> list[Message]:
        """Show what is pending, up to ``limit`` bytes and at least one record."""
        shown: list[Message] = []
        total = 0
        for message in self.pending:
            total += size(message)
            if shown and total > limit:
                break
            shown.append(message)
        return shown

    def take(self, count: int) -> None:
        """Take the first pending records: a reply has them, so they count as consumed."""
        for _ in range(count):
            message = self.pending.popleft()
            self.consumed[message.topic() or "", message.partition() or 0] = message.offset() or 0

    def idle(self) -> None:
        """Take part in the group while the client does nothing; holds no more records than it may."""
        if self._full() and not self._paused:
            self._consumer.pause(self._consumer.assignment())
            self._paused = True
        self._look_sometimes()
        self._heard(self._consumer.poll(0))

    def _look_sometimes(self) -> None:
        if time.monotonic() - self._looked > _LOOK:
            self.look()

    def _heard(self, message: Message | None) -> None:
        if message is None:
            return
        error = message.error()
        if error is None:
            self.pending.append(message)
        elif error.code() != KafkaError._PARTITION_EOF:
            self._trouble = error

    # --- offsets ---

    def commit(self, offsets: Iterable[tuple[str, int, int, str]] | None = None) -> None:
        """Commit that these records (all that replies took, unless given) are consumed, each with a note."""
        chosen = (
            [(*place, offset, "") for place, offset in self.consumed.items()]
            if offsets is None
            else list(offsets)
        )
        if not chosen:
            return
        found = [TopicPartition(topic, part, offset + 1, note) for topic, part, offset, note in chosen]
        self._consumer.commit(offsets=found, asynchronous=False)
        self.committed.update({(topic, part): offset for topic, part, offset, _ in chosen})

    def committed_offsets(self, places: Iterable[Place]) -> list[TopicPartition]:
        """Give what the group committed; partitions without are left out."""
        found = self._consumer.committed([TopicPartition(*place) for place in places], timeout=_SECONDS)
        return [one for one in found if one.offset >= 0]

    def close(self) -> None:
        """Commit what was consumed, if that goes by itself, and leave the group."""
        self._commit_consumed()
        with contextlib.suppress(KafkaException, RuntimeError):
            self._consumer.close()

    def _commit_consumed(self, *, wait: bool = True) -> None:
        ahead = {
            place: offset for place, offset in self.consumed.items() if self.committed.get(place) != offset
        }
        if not self.wish.auto_commit or not ahead:
            return
        found = [TopicPartition(topic, number, offset + 1) for (topic, number), offset in ahead.items()]
        # What cannot be committed is consumed again, by whoever has the partition then.
        with contextlib.suppress(KafkaException):
            if wait:
                self._consumer.commit(offsets=found, asynchronous=False)
            else:
                self._consumer.commit(offsets=found)
            self.committed.update(ahead)

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._commit_consumed()
        self._forget({(one.topic, one.partition) for one in places})

    def _lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._forget({(one.topic, one.partition) for one in places})

    def _forget(self, places: set[Place] | None) -> None:
        """Drop what is held of partitions (None: of all) that are somebody else's, or read from elsewhere."""
        if places is None:
            self.pending.clear()
            self.consumed.clear()
            return
        kept = [one for one in self.pending if (one.topic(), one.partition()) not in places]
        self.pending = deque(kept)
        for place in places:
            self.consumed.pop(place, None)


def size(message: Message) -> int:
    """Count the bytes of a record's key and value."""
    return len(message.key() or b"") + len(message.value() or b"")
