"""The consumer: from one JSON configuration, one of a group."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka import Consumer as Handle

from distributary.client.callback_errors import Raised
from distributary.client.configuration import Source, read_configuration
from distributary.client.connect import SLICE, BackgroundErrors, connect, count_partitions
from distributary.client.initial_offsets import LATEST, Start, begin_at
from distributary.client.offset_tracker import Place, Progress, places
from distributary.client.record import Record, record
from distributary.errors import DistributaryError, GroupRefused, KafkaClientError
from distributary.kafka.kafka_errors import client_error, recovers_by_itself

log = logging.getLogger(__name__)

Moved = Callable[[list[Place]], None]
"""Hears of partitions that came or went; called from within a poll."""


class Consumer:
    """Reads records of Kafka topics as one of a group. For one thread. Use it with ``with``.

    ``source`` is JSON text, the path of a JSON file, or a dict. A record counts as read when the next poll
    begins, or the next step of a loop over the consumer: with ``enable.auto.commit`` (the default) such
    records are committed from time to time and at the end, so after a crash some come again and none is
    lost. Without it nothing is committed but by `commit`, and where a group begins that has not been there
    before. Every commit is logged. Only records of committed transactions are read, unless
    ``isolation.level`` says otherwise.
    """

    def __init__(self, source: Source) -> None:
        self.config = read_configuration(source, "consumer")
        self._background = BackgroundErrors()
        self._raised = Raised()
        committed = self._raised.guard(self._committed)
        self._handle = connect(Handle, self.config, self._background, on_commit=committed)
        self._timeout = float(self.config.ours.get("default.api.timeout.ms", 60_000)) / 1000
        self._most = int(self.config.ours.get("max.poll.records", 500))
        self._auto = self.config.librdkafka.get("enable.auto.commit", "true") == "true"
        self._progress = Progress()
        self._begun: dict[Place, int | None] = {}
        """Partitions that were here once: where they began, until something of them is committed."""
        self._doubtful: dict[Place, int] = {}
        """Partitions of which it is not known whether what was given out is committed; its first offset."""
        self._waiting: list[Record] = []
        self._error: DistributaryError | None = None
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
        on_assigned: Moved | None = None,
        on_revoked: Moved | None = None,
        on_lost: Moved | None = None,
    ) -> None:
        """Read these topics, and no others; one that begins with ``^`` is a pattern of names.

        ``start`` says where this consumer begins with each partition when it first gets it: "earliest", a
        datetime, or offsets by partition (or by (topic, partition)), also where the group has been already;
        "latest" at the end of those where it has not; None goes on where the group was. In ``on_revoked``
        what was read may still be committed, in ``on_lost`` no more. Raises `TopicMissing`, and
        `KafkaUnavailable` when no broker answers within ``default.api.timeout.ms``.
        """
        self._open()
        wanted = [topics] if isinstance(topics, str) else list(topics)
        named_ones = [name for name in wanted if not name.startswith("^")]
        if self.config.librdkafka.get("allow.auto.create.topics") == "true":
            named_ones = []
        what = f"subscribing to {', '.join(wanted)}"
        # A poll brings what was heard, but once there is something to read it would bring that too.
        serve = self._handle.poll if not self._subscribed else float
        for name in named_ones or [""]:
            count_partitions(
                self._handle, name, what, self.config, self._background, self._timeout, lambda: serve(0)
            )
        self._subscribed = True
        self._begun.clear()

        def assigned(_: Handle, came: list[TopicPartition]) -> None:
            self._assigned(came, start)
            _tell(on_assigned, came)

        def revoked(_: Handle, gone: list[TopicPartition]) -> None:
            _tell(on_revoked, gone)
            self._forget(gone)

        def lost(_: Handle, gone: list[TopicPartition]) -> None:
            _tell(on_lost, gone)
            self._forget(gone)

        heard = {"on_assign": assigned, "on_revoke": revoked, "on_lost": lost}
        guarded = {name: self._raised.guard(callback) for name, callback in heard.items()}
        self._do(what, lambda: self._handle.subscribe(wanted, **guarded))

    def unsubscribe(self) -> None:
        """Leave the topics to the rest of the group."""
        self._do("unsubscribing", self._handle.unsubscribe)

    def receive(self, timeout: float | None = None) -> list[Record]:
        """Wait for records, up to ``timeout`` seconds, and give those that are there.

        There is one at least, unless the time is over; at most ``max.poll.records``. None waits for ever,
        and Ctrl-C ends it.
        """
        self.settle()
        found = self.take(timeout)
        for one in found:
            self.give(one)
        return found

    def poll(self, timeout_ms: float = -1) -> list[bytes]:
        """As `receive`, in milliseconds, a negative time waits for ever; the values. No value: empty."""
        return [one.value or b"" for one in self.receive(None if timeout_ms < 0 else timeout_ms / 1000)]

    def poll_string(self, timeout_ms: float = -1) -> list[str]:
        """As `poll`, with the values as text; what is not UTF-8 shows as U+FFFD, as in Java."""
        return [value.decode(errors="replace") for value in self.poll(timeout_ms)]

    pollString = poll_string

    def __iter__(self) -> Iterator[Record]:
        """Give one record after another, for ever."""
        while True:
            self.settle()
            if not self._waiting:
                self._waiting = self.take()
            one = self._waiting.pop(0)
            self.give(one)
            yield one

    def commit(self) -> None:
        """Commit all that was given out; return when Kafka has it.

        Raises `GroupRefused` when the partitions have gone to others meanwhile: they read it again.
        """
        self._open()
        given = self.given_out()
        if given:
            self._do("committing", lambda: self._handle.commit(offsets=given, asynchronous=False))
            self.committed_elsewhere()

    def committed_elsewhere(self) -> None:
        """Take note that a transaction has committed what was given out."""
        self._log(self.given_out())
        self._progress.committed()

    def given_out(self) -> list[TopicPartition]:
        """The positions after what was given out since the last commit, as librdkafka has them."""
        return self._progress.given()

    def group_metadata(self) -> Any:
        """The group's state as a transaction needs it."""
        return self._handle.consumer_group_metadata()

    def committed(self) -> dict[Place, int]:
        """What the group has committed of the partitions that are read here; -1001: nothing yet."""
        found = self._do(
            "reading the committed offsets",
            lambda: self._handle.committed(self._handle.assignment(), timeout=self._timeout),
        )
        return {(one.topic, one.partition): one.offset for one in found}

    def assignment(self) -> list[Place]:
        """The partitions that are read here."""
        return sorted(places(self._handle.assignment()))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on from an offset of a partition that is read here."""
        place = (topic, partition)
        what = f"seeking to offset {offset} of topic {topic} partition {partition}"
        if place not in self.assignment():
            raise GroupRefused(f"{what} failed: it is not read here", hint="Wait for on_assigned")
        self._waiting = [one for one in self._waiting if (one.topic, one.partition) != place]
        self._progress.forget([place])
        self._do(what, lambda: self._handle.seek(TopicPartition(topic, partition, offset)))

    def rewind(self, records: Iterable[Record]) -> None:
        """Go back to before these records, as far as their partitions are still read here."""
        first: dict[Place, int] = {}
        for one in records:
            place = one.topic, one.partition
            first[place] = min(one.offset, first.get(place, one.offset))
        for place in first.keys() & set(self.assignment()):
            self.seek(*place, first[place])

    def doubt(self, records: Iterable[Record]) -> None:
        """Take note that it is not known whether these records are committed; `find_out` is to say."""
        for one in records:
            self._doubtful.setdefault((one.topic, one.partition), one.offset)
        self._progress.forget(self._doubtful)

    def find_out(self) -> None:
        """Go on where the group is with what `doubt` was told of, as far as it is still read here.

        What was to be committed must be decided by now: see `Producer.prepare`.
        """
        here = self._doubtful.keys() & set(self.assignment())
        if here:
            asked = [TopicPartition(*place) for place in sorted(here)]
            found = self._do(
                "reading the committed offsets", lambda: self._handle.committed(asked, timeout=self._timeout)
            )
            for one in found:
                first = self._doubtful[one.topic, one.partition]
                self.seek(one.topic, one.partition, one.offset if one.offset >= 0 else first)
        self._doubtful.clear()

    def pause(self, which: Iterable[Place] | None = None) -> None:
        """Read no more of these partitions (None: of all) until `resume`; the group keeps them here."""
        chosen = self._chosen(which)
        self._do("pausing", lambda: self._handle.pause(chosen))

    def resume(self, which: Iterable[Place] | None = None) -> None:
        """Read these partitions (None: all) again."""
        chosen = self._chosen(which)
        self._do("resuming", lambda: self._handle.resume(chosen))

    def close(self, *, read: bool = True) -> None:
        """Leave the group. What was given out counts as read, unless ``read`` is false. Again: nothing."""
        if not self._closed:
            if read:
                self.settle()
            try:
                self._handle.close()  # on_revoked may still commit
            finally:
                self._closed = True
            self._raised.again()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(read=error is None)

    # --- reading --------------------------------------------------------------------------------------------

    def take(self, timeout: float | None = None) -> list[Record]:
        """As `receive`, but the records are not given out yet: see `give`."""
        self._open()
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._waiting:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            left = SLICE if deadline is None else min(SLICE, max(0.0, deadline - time.monotonic()))
            # One by one: when the group moves between two of them, those of lost partitions are dropped from
            # what is waiting, and whatever comes after is good. A call for many does not tell them apart.
            message = self._handle.poll(left)
            while message is not None:
                self._take_in(message)
                message = self._handle.poll(0) if len(self._waiting) < self._most else None
            self._raised.again()
            if self._waiting:
                break
            if refused := self._background.refusal("reading", self.config.servers):
                raise refused
            if self._error is None and deadline is not None and time.monotonic() >= deadline:
                break
        found, self._waiting = self._waiting, []
        return found

    def _take_in(self, message: Message) -> None:
        error = message.error()
        if error is None:
            self._waiting.append(record(message))
        elif error.code() == KafkaError._MAX_POLL_EXCEEDED:
            log.warning("group %s: %s", self.group, error.str())
        elif not recovers_by_itself(error) and self._error is None:
            topic = message.topic()
            what = f"reading topic {topic} partition {message.partition()}" if topic else "reading"
            what += f" as group {self.group}"
            self._error = client_error(error, what, self.config.servers)

    def give(self, one: Record) -> None:
        """Take note that a record is given out: `commit` may commit it."""
        self._progress.give(one)

    def settle(self) -> None:
        """Take note that what was given out before is read now."""
        read = self._progress.settle()
        if read and self._auto:
            try:
                self._handle.store_offsets(offsets=read)
            except KafkaException as error:  # one of them went to another member meanwhile
                log.debug("group %s: offsets not kept: %s", self.group, error)
            self._progress.committed()

    # --- the group's moves ----------------------------------------------------------------------------------

    def _assigned(self, came: list[TopicPartition], start: Start) -> None:
        fresh = []
        for one in came:
            at = self._begun.get((one.topic, one.partition), OFFSET_INVALID)
            if at == OFFSET_INVALID:
                fresh.append(one)
            elif at is not None:  # nothing was committed, so the group does not know where we began
                one.offset = at
        if start is None and self.config.librdkafka.get("auto.offset.reset", "latest") in LATEST:
            start = "latest"
        try:
            begun = begin_at(self._handle, fresh, start, self._timeout)
            for one in fresh:
                self._begun[one.topic, one.partition] = one.offset if one.offset != OFFSET_INVALID else None
            if begun:
                # Otherwise a crash before the first commit would begin elsewhere, and pass records over.
                self._handle.commit(offsets=begun, asynchronous=False)
                self._log(begun)
        except KafkaException as error:
            told = client_error(error.args[0], f"beginning at {start}", self.config.servers)
            if isinstance(told, GroupRefused):  # the partitions are about to be shared out again
                log.warning("%s", told)
            else:
                self._error = told
        strategy = self.config.librdkafka.get("partition.assignment.strategy", "")
        if strategy == "cooperative-sticky" or self.config.librdkafka.get("group.protocol") == "consumer":
            self._handle.incremental_assign(came)
        else:
            self._handle.assign(came)

    def _forget(self, gone: list[TopicPartition]) -> None:
        self._progress.forget(places(gone))
        held = set(places(gone))
        for place in held:
            self._doubtful.pop(place, None)
        self._waiting = [one for one in self._waiting if (one.topic, one.partition) not in held]

    def _committed(self, error: KafkaError | None, found: list[TopicPartition]) -> None:
        if error is None:
            self._log(found)
        elif error.code() != KafkaError._NO_OFFSET:
            log.warning("%s", client_error(error, f"committing for group {self.group}", self.config.servers))

    def _log(self, found: list[TopicPartition]) -> None:
        kept = [one for one in found if one.offset >= 0]
        self._begun.update(dict.fromkeys(places(kept)))
        if kept:
            told = ", ".join(f"{one.topic}/{one.partition}@{one.offset}" for one in kept)
            log.info("group %s committed %s", self.group, told)

    def _chosen(self, which: Iterable[Place] | None) -> list[TopicPartition]:
        return [TopicPartition(*place) for place in (self.assignment() if which is None else which)]

    def _do(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            done = call()
        except KafkaException as error:
            raise client_error(error.args[0], f"{what} (group {self.group})", self.config.servers) from None
        self._raised.again()
        return done

    def _open(self) -> None:
        if self._closed:
            raise KafkaClientError("the consumer is closed", hint="Make another one")


def _tell(moved: Moved | None, found: list[TopicPartition]) -> None:
    if moved is not None and found:
        moved(places(found))
