"""One worker: reads as one of the group, calls the function, and commits what it returned from."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from distributary.client import Consumer, Producer, Record, exactly_once
from distributary.errors import DistributaryError, GroupRefused
from distributary.kafka.outgoing_record import dead_letter_headers
from distributary.kafka.topics import PartitionId
from distributary.workers.function_loader import load_function
from distributary.workers.record_handler import Abandoned, Handled, Handler
from distributary.workers.worker_spec import Spec

log = logging.getLogger(__name__)

WAIT = 0.2
"""How long to wait for a record before looking around, in seconds."""

EVERY = 0.5
"""How long what is done may stay uncommitted while more comes, in seconds."""


class Worker:
    """For one thread. ``stop`` is set when it should finish what is in hand and end."""

    def __init__(self, spec: Spec, stop: threading.Event, tell: Callable[[int, int], None]) -> None:
        """``tell`` hears how many records were done and how many of them became dead letters."""
        self._spec = spec
        self._stop = stop
        self._tell = tell
        self._done = self._dead = 0
        self._unplaced = False

    def run(self) -> None:
        """Work until told to stop; raises what no restart mends, and what one does."""
        spec = self._spec
        function = load_function(spec.function)
        handler = Handler(function, spec.retries, spec.backoff, self._stop.wait)
        with Producer(spec.producer()) as producer, Consumer(spec.consumer()) as consumer:
            try:
                (self._exactly_once if spec.exactly_once else self._at_least_once)(
                    consumer, producer, handler
                )
            finally:
                handler.close()

    def _at_least_once(self, consumer: Consumer, producer: Producer, handler: Handler) -> None:
        kept, broken = time.monotonic(), False

        def keep(_: list[PartitionId] | None = None) -> None:
            nonlocal kept
            if broken:  # something was not written: what it came of must be read again
                return
            producer.flush()
            try:
                consumer.commit()
            except GroupRefused as error:  # they have gone to others, who read them again
                log.warning("%s", error)
            kept = time.monotonic()
            self._tell(self._done, self._dead)

        consumer.subscribe(self._spec.topic, on_assigned=self._ready, on_revoked=keep)
        try:
            while not self._stop.is_set():
                records = consumer.fetch(WAIT)
                for record in records:
                    self._finish(record, handler(record), producer)
                    consumer.mark_delivered(record)
                if not records or time.monotonic() - kept >= EVERY:
                    keep()
        except Abandoned:
            log.info("a record that waited for its next try is left to the others")
        except BaseException:
            broken = True
            raise
        keep()

    def _exactly_once(self, consumer: Consumer, producer: Producer, handler: Handler) -> None:
        consumer.subscribe(self._spec.topic, on_assigned=self._ready)

        def handle(record: Record) -> None:
            self._finish(record, handler(record), producer)

        def stop() -> bool:
            self._tell(self._done, self._dead)
            return self._stop.is_set()

        # A batch that is abandoned is given up whole, and read again by whoever gets it.
        with contextlib.suppress(Abandoned):
            exactly_once(consumer, producer, handle, stop=stop)

    def _ready(self, places: list[PartitionId]) -> None:
        log.info("reads %s", ", ".join(f"{topic}/{number}" for topic, number in places))

    def _finish(self, record: Record, handled: Handled, producer: Producer) -> None:
        """Write what came of a record."""
        spec = self._spec
        if handled.reason:
            headers = dead_letter_headers(
                handled.reason,
                record.topic,
                position=(record.partition, record.offset),
                key=record.key,
                timestamp=record.timestamp,
                original=record.headers,
            )
            place = f"{record.topic}/{record.partition}/{record.offset}"
            producer.send(spec.dead_letters, record.value, key=place, headers=headers)
            self._dead += 1
        for out in handled.outs:
            topic = out.topic or spec.to
            if not topic:
                if not self._unplaced:
                    log.warning("the function gives something back, and no --to says where it goes")
                    self._unplaced = True
                continue
            value = out.value.encode() if isinstance(out.value, str) else out.value
            producer.send(topic, value, key=out.key, headers=out.headers)
        self._done += 1


def told(error: DistributaryError) -> str:
    """An error in one line."""
    return f"{error.message} ({error.hint})" if error.hint else error.message
