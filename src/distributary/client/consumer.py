"""The consumer by one JSON configuration: a member of a group."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer as Handle
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from distributary.client.configuration import Source, read_configuration
from distributary.client.connect import BackgroundErrors, CallbackErrors, connect, count_partitions
from distributary.client.consumer_offsets import (
    LATEST,
    OffsetTracker,
    Start,
    StartOffsets,
    partition_ids,
)
from distributary.client.record import Record, record_of
from distributary.errors import DistributaryError, GroupRefused, KafkaClientError
from distributary.kafka.kafka_errors import client_error, recovers_by_itself
from distributary.kafka.record_producer import SLICE
from distributary.kafka.topics import PartitionId

log = logging.getLogger(__name__)

RebalanceCallback = Callable[[list[PartitionId]], None]
"""Called from within a poll with the partitions that were assigned or taken."""


class Consumer:
    """Reads records of Kafka topics as a member of a group. For one thread. Use it with ``with``.

    ``source`` is a JSON string, the path of a JSON file, or a dict. A record counts as read when the next
    poll begins, or the next step of a loop over the consumer: with ``enable.auto.commit`` (the default) such
    records are committed periodically and at the end, so after a crash some are delivered again and none is
    lost. Without it nothing is committed but by `commit`, and the start offsets where a group is new to a
    partition. Every commit is logged. Only records of committed transactions are read by default
    (``isolation.level``).
    """

    def __init__(self, source: Source) -> None:
        self.config = read_configuration(source, "consumer")
        self._background = BackgroundErrors()
        self._callback_errors = CallbackErrors()
        on_commit = self._callback_errors.wrap(self._on_commit)
        self._handle = connect(Handle, self.config, self._background, on_commit=on_commit)
        self._timeout = float(self.config.own.get("default.api.timeout.ms", 60_000)) / 1000
        self._max_poll_records = int(self.config.own.get("max.poll.records", 500))
        self._auto_commit = self.config.librdkafka.get("enable.auto.commit", "true") == "true"
        self._offsets = OffsetTracker()
        self._starts = StartOffsets(self._handle, self._timeout)
        self._unknown: dict[PartitionId, int] = {}
        """Partitions for which it is unknown whether what was delivered is committed; its first offset."""
        self._buffer: list[Record] = []
        """Records that were polled and not delivered yet."""
        self._error: DistributaryError | None = None
        """An error met while polling, for the next `receive` that has no records."""
        self._subscribed = False
        self._closed = False

    @property
    def group(self) -> str:
        """The group's name."""
        return self.config.librdkafka["group.id"]

    def subscribe(
        self,
        topics: str | Iterable[str],
        *,
        start: Start = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Read these topics, and no others; one that begins with ``^`` is a pattern of names.

        ``start`` is where this consumer starts with each partition when it is first assigned: "earliest", a
        datetime, or offsets by partition (or by (topic, partition)), also if the group has offsets there;
        "latest" at the end of those where it has none; None continues at the group's offsets. ``on_revoked``
        may still commit what was read, ``on_lost`` may not. Raises `TopicMissing`, and `KafkaUnavailable` if
        no broker answers within ``default.api.timeout.ms``.
        """
        self._check_open()
        requested = [topics] if isinstance(topics, str) else list(topics)
        names = [name for name in requested if not name.startswith("^")]
        if self.config.librdkafka.get("allow.auto.create.topics") == "true":
            names = []
        what = f"subscribing to {', '.join(requested)}"
        # A poll reports background errors, but once there is something to read it would return that, too.
        serve = self._handle.poll if not self._subscribed else float
        for name in names or [""]:
            count_partitions(
                self._handle,
                name,
                what,
                config=self.config,
                background=self._background,
                limit=self._timeout,
                serve=lambda: serve(0),
            )
        self._subscribed = True
        self._starts.clear()

        def assigned(_: Handle, partitions: list[TopicPartition]) -> None:
            self._on_assigned(partitions, start)
            _notify(on_assigned, partitions)

        def revoked(_: Handle, partitions: list[TopicPartition]) -> None:
            _notify(on_revoked, partitions)
            self._forget(partitions)

        def lost(_: Handle, partitions: list[TopicPartition]) -> None:
            _notify(on_lost, partitions)
            self._forget(partitions)

        callbacks = {"on_assign": assigned, "on_revoke": revoked, "on_lost": lost}
        wrapped = {name: self._callback_errors.wrap(callback) for name, callback in callbacks.items()}
        self._call(what, lambda: self._handle.subscribe(requested, **wrapped))

    def unsubscribe(self) -> None:
        """Leave the topics to the other members of the group."""
        self._call("unsubscribing", self._handle.unsubscribe)

    def receive(self, timeout: float | None = None) -> list[Record]:
        """Wait for records for up to ``timeout`` seconds (None: for ever; Ctrl-C ends it); return them.

        There is at least one, unless the time is over, and at most ``max.poll.records``.
        """
        self.mark_read()
        records = self.fetch(timeout)
        for record in records:
            self.mark_delivered(record)
        return records

    def poll(self, timeout_ms: float = -1) -> list[bytes]:
        """As `receive`, in milliseconds (negative: for ever); returns the values, b"" for none."""
        return [one.value or b"" for one in self.receive(None if timeout_ms < 0 else timeout_ms / 1000)]

    def poll_string(self, timeout_ms: float = -1) -> list[str]:
        """As `poll`, with the values as strings; what is not UTF-8 becomes U+FFFD, as in Java."""
        return [value.decode(errors="replace") for value in self.poll(timeout_ms)]

    pollString = poll_string

    def __iter__(self) -> Iterator[Record]:
        """Yield one record after another, for ever."""
        while True:
            self.mark_read()
            if not self._buffer:
                self._buffer = self.fetch()
            record = self._buffer.pop(0)
            self.mark_delivered(record)
            yield record

    def commit(self) -> None:
        """Commit all that was delivered; returns when Kafka has confirmed it.

        Raises `GroupRefused` if the partitions were assigned to other members, which read it again.
        """
        self._check_open()
        offsets = self.delivered_offsets()
        if offsets:
            self._call("committing", lambda: self._handle.commit(offsets=offsets, asynchronous=False))
            self.mark_committed()

    def mark_committed(self) -> None:
        """What was delivered has been committed, for example by a transaction."""
        self._log_commit(self.delivered_offsets())
        self._offsets.committed()

    def delivered_offsets(self) -> list[TopicPartition]:
        """The offsets after what was delivered since the last commit, as librdkafka has them."""
        return self._offsets.delivered_offsets()

    def group_metadata(self) -> Any:
        """The group's metadata as a transaction needs them."""
        return self._handle.consumer_group_metadata()

    def committed(self) -> dict[PartitionId, int]:
        """The group's committed offsets of the assigned partitions; -1001: none yet."""
        found = self._committed_offsets(self._handle.assignment())
        return {(one.topic, one.partition): one.offset for one in found}

    def assignment(self) -> list[PartitionId]:
        """The partitions that are assigned to this consumer."""
        return sorted(partition_ids(self._handle.assignment()))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at an offset of an assigned partition."""
        target = (topic, partition)
        what = f"seeking to offset {offset} of topic {topic} partition {partition}"
        if target not in self.assignment():
            raise GroupRefused(f"{what} failed: it is not assigned here", hint="Wait for on_assigned")
        self._buffer = [one for one in self._buffer if (one.topic, one.partition) != target]
        self._offsets.forget([target])
        self._call(what, lambda: self._handle.seek(TopicPartition(topic, partition, offset)))

    def rewind(self, records: Iterable[Record]) -> None:
        """Go back to before these records, in partitions that are still assigned here."""
        first: dict[PartitionId, int] = {}
        for one in records:
            partition = one.topic, one.partition
            first[partition] = min(one.offset, first.get(partition, one.offset))
        for partition in first.keys() & set(self.assignment()):
            self.seek(*partition, first[partition])

    def mark_unknown(self, records: Iterable[Record]) -> None:
        """It is unknown whether these records are committed, until `resolve_unknown`."""
        for one in records:
            self._unknown.setdefault((one.topic, one.partition), one.offset)
        self._offsets.forget(self._unknown)

    def resolve_unknown(self) -> None:
        """Continue at the group's offsets in the partitions of `mark_unknown` that are still assigned here.

        The transaction in question must be complete by now: see `Producer.prepare`.
        """
        here = self._unknown.keys() & set(self.assignment())
        if here:
            for one in self._committed_offsets([TopicPartition(*partition) for partition in sorted(here)]):
                first = self._unknown[one.topic, one.partition]
                self.seek(one.topic, one.partition, one.offset if one.offset >= 0 else first)
        self._unknown.clear()

    def pause(self, partitions: Iterable[PartitionId] | None = None) -> None:
        """Stop reading these partitions (None: all) until `resume`; they stay assigned here."""
        chosen = self._topic_partitions(partitions)
        self._call("pausing", lambda: self._handle.pause(chosen))

    def resume(self, partitions: Iterable[PartitionId] | None = None) -> None:
        """Read these partitions (None: all) again."""
        chosen = self._topic_partitions(partitions)
        self._call("resuming", lambda: self._handle.resume(chosen))

    def close(self, *, read: bool = True) -> None:
        """Leave the group; with ``read``, what was delivered counts as read. A second call does nothing."""
        if not self._closed:
            if read:
                self.mark_read()
            try:
                self._handle.close()  # on_revoked may still commit
            finally:
                self._closed = True
            self._callback_errors.raise_first()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(read=error is None)

    # --- reading --------------------------------------------------------------------------------------------

    def fetch(self, timeout: float | None = None) -> list[Record]:
        """As `receive`, but the records are not delivered yet: see `mark_delivered`."""
        self._check_open()
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._buffer:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            left = SLICE if deadline is None else min(SLICE, max(0.0, deadline - time.monotonic()))
            # One by one: if a rebalance happens between two of them, the buffered records of lost partitions
            # are dropped, and those that follow are valid. A call for many does not tell them apart.
            message = self._handle.poll(left)
            while message is not None:
                self._take(message)
                message = self._handle.poll(0) if len(self._buffer) < self._max_poll_records else None
            self._callback_errors.raise_first()
            if self._buffer:
                break
            if refusal := self._background.refusal("reading", self.config.servers):
                raise refusal
            if self._error is None and deadline is not None and time.monotonic() >= deadline:
                break
        records, self._buffer = self._buffer, []
        return records

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is None:
            self._buffer.append(record_of(message))
        elif error.code() == KafkaError._MAX_POLL_EXCEEDED:
            log.warning("group %s: %s", self.group, error.str())
        elif not recovers_by_itself(error) and self._error is None:
            topic = message.topic()
            what = f"reading topic {topic} partition {message.partition()}" if topic else "reading"
            self._error = client_error(error, f"{what} as group {self.group}", self.config.servers)

    def mark_delivered(self, record: Record) -> None:
        """A record was delivered: `commit` may commit it."""
        self._offsets.delivered(record)

    def mark_read(self) -> None:
        """All records that were delivered before count as read."""
        read = self._offsets.mark_read()
        if read and self._auto_commit:
            try:
                self._handle.store_offsets(offsets=read)
            except KafkaException as error:  # one of them was assigned to another member
                log.debug("group %s: offsets not stored: %s", self.group, error)
            self._offsets.committed()

    # --- rebalances and commits -----------------------------------------------------------------------------

    def _on_assigned(self, partitions: list[TopicPartition], start: Start) -> None:
        if start is None and self.config.librdkafka.get("auto.offset.reset", "latest") in LATEST:
            start = "latest"
        try:
            starts = self._starts.apply(partitions, start)
            if starts:
                self._handle.commit(offsets=starts, asynchronous=False)
                self._log_commit(starts)
        except KafkaException as error:
            found = client_error(error.args[0], f"starting at {start}", self.config.servers)
            if isinstance(found, GroupRefused):  # another rebalance is under way
                log.warning("%s", found)
            else:
                self._error = found
        strategy = self.config.librdkafka.get("partition.assignment.strategy", "")
        if strategy == "cooperative-sticky" or self.config.librdkafka.get("group.protocol") == "consumer":
            self._handle.incremental_assign(partitions)
        else:
            self._handle.assign(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        gone = set(partition_ids(partitions))
        self._offsets.forget(gone)
        for partition in gone:
            self._unknown.pop(partition, None)
        self._buffer = [one for one in self._buffer if (one.topic, one.partition) not in gone]

    def _on_commit(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        if error is None:
            self._log_commit(offsets)
        elif error.code() != KafkaError._NO_OFFSET:
            what = f"committing for group {self.group}"
            log.warning("%s", client_error(error, what, self.config.servers))

    def _log_commit(self, offsets: list[TopicPartition]) -> None:
        committed = [one for one in offsets if one.offset >= 0]
        self._starts.committed(committed)
        if committed:
            listed = ", ".join(f"{one.topic}/{one.partition}@{one.offset}" for one in committed)
            log.info("group %s committed %s", self.group, listed)

    def _committed_offsets(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        what = "reading the committed offsets"
        found = self._call(what, lambda: self._handle.committed(partitions, timeout=self._timeout))
        return list(found)

    def _topic_partitions(self, partitions: Iterable[PartitionId] | None) -> list[TopicPartition]:
        chosen = self.assignment() if partitions is None else partitions
        return [TopicPartition(*partition) for partition in chosen]

    def _call(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            result = call()
        except KafkaException as error:
            raise client_error(error.args[0], f"{what} (group {self.group})", self.config.servers) from None
        self._callback_errors.raise_first()
        return result

    def _check_open(self) -> None:
        if self._closed:
            raise KafkaClientError("the consumer is closed", hint="Create a new one")


def _notify(callback: RebalanceCallback | None, partitions: list[TopicPartition]) -> None:
    if callback is not None and partitions:
        callback(partition_ids(partitions))
