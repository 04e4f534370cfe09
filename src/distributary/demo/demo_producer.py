"""Plays the simulated sportsbook into Kafka: ``python -m distributary.demo.demo_producer``.

Every record is acknowledged by all in-sync replicas. When Kafka cannot be reached, the clock of the
sportsbook soon stops: nothing is dropped, and nothing is sent in a burst afterwards.
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Protocol

from distributary.demo.sportsbook import Event, Sportsbook, encode, events
from distributary.errors import DistributaryError
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_producer import Delivered, RecordProducer
from distributary.service import ExitCode, fail, log_to_stderr, on_stop_signal, print_ready

log = logging.getLogger(__name__)

RATE, MATCHES, SEED = 60.0, 12, 7
_BEHIND = 1.0  # seconds; a longer delay is not caught up
_NEAR = 0.001  # seconds; a wait shorter than this is not worth a system call
_FLUSH = 4.0  # seconds; a component has five to end
_PATIENT = {"linger_ms": 1, "message_timeout_ms": 0, "queue_buffering_max_messages": 1_000}


class Sender(Protocol):
    """Takes one record; may block, may not drop it."""

    def __call__(self, event: Event) -> None:
        """Send it."""


def play(
    timed: Iterable[tuple[float, Event]],
    send: Sender,
    wait: Callable[[float], bool],
    now: Callable[[], float] = time.monotonic,
) -> int:
    """Send each event at its time, until ``wait(seconds)`` returns true; return how many were sent.

    A delay of the sender shifts all later events: after a pause of Kafka there is no burst.
    """
    due = now()
    sent = 0
    for delay, event in timed:
        due += delay
        left = due - now()
        if left < -_BEHIND:
            due = now()
        if wait(left if left > _NEAR else 0.0):
            break
        send(event)
        sent += 1
    return sent


class KafkaSender:
    """Sends to Kafka with the time of sending as the record's timestamp.

    Once `stopping` is true, all waiting together takes at most `limit` seconds, so that a producer
    without Kafka ends in time.
    """

    def __init__(
        self,
        producer: RecordProducer,
        stopping: Callable[[], bool] = lambda: False,
        limit: float = _FLUSH,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._producer = producer
        self._stopping = stopping
        self._limit = limit
        self._now = now
        self._deadline: float | None = None
        self.failed = 0

    def __call__(self, event: Event) -> None:
        """Queue an event; waits while the queue is full, and gives up after the time to stop."""
        record = OutgoingRecord(
            topic=event.topic,
            value=None if event.value is None else encode(event.value),
            key=event.key.encode(),
            timestamp=int(time.time() * 1000),
        )
        while not self._producer.queue(record, self._delivered):
            if self._stopping() and self._left() <= 0:
                self.failed += 1
                return
            self._producer.poll(0.1)
        self._producer.poll(0)

    def _delivered(self, report: Delivered | Exception) -> None:
        if isinstance(report, Exception):
            self.failed += 1
            log.error("a record was not acknowledged: %s", report)

    def finish(self) -> int:
        """Wait for outstanding records; return how many were not acknowledged in that time."""
        return self._producer.flush(max(0.0, self._left())) + self.failed

    def _left(self) -> float:
        if self._deadline is None:
            self._deadline = self._now() + self._limit
        return self._deadline - self._now()


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or Ctrl-C; then remove all rows, so that no match is left that never ends."""
    from distributary.config import load
    from distributary.kafka import librdkafka

    parser = argparse.ArgumentParser(prog="python -m distributary.demo.demo_producer", description=__doc__)
    parser.add_argument("--rate", type=float, default=RATE, help="changes a second")
    parser.add_argument("--matches", type=int, default=MATCHES, help="matches on the board")
    parser.add_argument("--seed", type=int, default=SEED, help="the same seed gives the same matches")
    args = parser.parse_args(argv)
    log_to_stderr()
    stop = threading.Event()
    on_stop_signal(stop.set)
    try:
        config = load()
        handle = librdkafka.producer(config.kafka, client_id="sportsbook", **_PATIENT)
    except DistributaryError as error:
        return fail(error, ExitCode.FINAL)
    send = KafkaSender(RecordProducer(handle), stop.is_set)
    book = Sportsbook(Random(args.seed), datetime.now(UTC), matches=args.matches)
    print_ready("producer", {})
    sent = play(events(book, args.rate), send, stop.wait)
    for event in book.close():
        send(event)
    lost = send.finish()
    log.info("sent %d changes, %d not acknowledged", sent, lost)
    return ExitCode.FAILED if lost else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
