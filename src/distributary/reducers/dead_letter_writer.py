"""Dead letters: records that could not be read or folded, kept whole on a topic of their own.

They are acknowledged before the mark that skips them is stored, so each comes
at least once; the key names the position, so repeats are easy to see.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka
from distributary.kafka.outgoing_record import OutgoingRecord, dead_letter_headers
from distributary.kafka.record_lookup import RecordLookup
from distributary.kafka.record_producer import Delivered, RecordProducer
from distributary.reducers.record_fold import DeadLetter

log = logging.getLogger(__name__)

WAIT = 30.0


class DeadLetterWriter:
    """Writes records of one topic to its dead-letter topic; connects only when there are any."""

    def __init__(self, kafka: Kafka, topic: str, target: str, view: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._target = target
        self._view = view
        self._producer: RecordProducer | None = None
        self._lookup = RecordLookup(kafka, topic)

    def close(self) -> None:
        """Close the connections."""
        self._lookup.close()

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Write dead letters with the records' original bytes; return when all are acknowledged.

        Waits for Kafka as long as it takes: to continue without it would lose them.
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
        producer = self._producer = self._producer or RecordProducer(librdkafka.producer(self._kafka))
        failures: list[Exception] = []

        def delivered(report: Delivered | Exception) -> None:
            if isinstance(report, Exception):
                failures.append(report)

        offsets: dict[int, set[int]] = {}
        for one in letters:
            offsets.setdefault(one.partition, set()).add(one.offset)
        originals = self._lookup.read(offsets, WAIT)
        for one in letters:
            record = self._dead_letter(one, originals.get((one.partition, one.offset)))
            if not producer.queue_within(record, delivered, WAIT):
                raise producer.error(KafkaError(KafkaError._QUEUE_FULL), record)
            producer.poll(0)
        if producer.flush(WAIT):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no acknowledgement"))
        if failures:
            raise failures[0]

    def _dead_letter(self, one: DeadLetter, original: Message | None) -> OutgoingRecord:
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
        return OutgoingRecord(
            topic=self._target,
            value=value,
            key=f"{self._topic}/{one.partition}/{one.offset}".encode(),
            headers=tuple(headers),
        )
