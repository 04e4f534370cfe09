"""Dead letters: records that could not be read or folded, kept whole on a topic of their own.

They are acknowledged before the mark that skips them is stored, so each comes
at least once; the key names the position, so repeats are easy to see.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka
from distributary.kafka.outgoing_record import dead_letter_headers
from distributary.kafka.record_lookup import RecordLookup
from distributary.reducers.reducer import DeadLetter

log = logging.getLogger(__name__)

WAIT = 30.0


class DeadLetters:
    """Buries records of one topic; connects only when there is something to bury."""

    def __init__(self, kafka: Kafka, topic: str, target: str, view: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._target = target
        self._view = view
        self._producer: Producer | None = None
        self._lookup = RecordLookup(kafka, topic)

    def close(self) -> None:
        """Give the connections back."""
        self._lookup.close()

    def bury(self, letters: Sequence[DeadLetter]) -> None:
        """Send letters with the records' original bytes; return when all are acknowledged.

        Waits for Kafka as long as it takes: to go on without would lose them.
        """
        while True:
            try:
                self._send(letters)
                return
            except KafkaException as error:
                log.warning("dead letters of %s wait for Kafka: %s", self._view, error)
                self._producer = None
                time.sleep(0.5)

    def _send(self, letters: Sequence[DeadLetter]) -> None:
        if self._producer is None:
            self._producer = librdkafka.producer(self._kafka)
        failures: list[KafkaError] = []

        def done(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        wanted: dict[int, set[int]] = {}
        for one in letters:
            wanted.setdefault(one.partition, set()).add(one.offset)
        originals = self._lookup.read(wanted, WAIT)
        for one in letters:
            original = originals.get((one.partition, one.offset))
            key, value, timestamp = None, None, None
            own: Any = ()
            if original is not None:
                key, value, timestamp = original.key(), original.value(), original.timestamp()[1]
                own = original.headers() or ()
            headers = dead_letter_headers(
                one.reason,
                self._topic,
                view=self._view,
                position=(one.partition, one.offset),
                key=key,
                timestamp=timestamp,
                original=own,
            )
            self._producer.produce(
                self._target,
                key=f"{self._topic}/{one.partition}/{one.offset}",
                value=value,
                headers=headers,
                on_delivery=done,
            )
            self._producer.poll(0)
        if self._producer.flush(WAIT):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no acknowledgement"))
        if failures:
            raise KafkaException(failures[0])
