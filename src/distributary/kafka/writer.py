"""Writes the records of requests, each acknowledged by every in-sync replica."""

from __future__ import annotations

import asyncio
import threading
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from distributary.config.sections import Kafka
from distributary.kafka import client

TIMEOUT = 30.0


class Outgoing(NamedTuple):
    """A record to write; ``partition`` None is chosen by the key, ``timestamp`` (ms) 0 is now."""

    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: list[tuple[str, str | bytes | None]] | None = None
    timestamp: int = 0


class Sent(NamedTuple):
    """Where a record is, and its timestamp in ms; or why it is nowhere."""

    partition: int = -1
    offset: int = -1
    timestamp: int = 0
    error: str = ""
    retriable: bool = False


class TopicWriter:
    """For one event loop. Client and thread are made with the first record.

    Keys land on the partition that the Java client chooses.
    """

    def __init__(self, kafka: Kafka, *, timeout: float = TIMEOUT, max_bytes: int = 1_000_000) -> None:
        self._kafka = kafka
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    async def send(self, topic: str, record: Outgoing) -> Sent:
        """Write one record and wait until it is acknowledged or refused; queued in the order of the calls."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Sent] = loop.create_future()

        def settle(sent: Sent) -> None:
            if not done.done():
                done.set_result(sent)

        def heard(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                sent = _failed(error)
            else:
                sent = Sent(message.partition() or 0, message.offset() or 0, message.timestamp()[1])
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, sent)

        try:
            self._client().produce(
                topic,
                record.value,
                record.key,
                partition=-1 if record.partition is None else record.partition,
                headers=record.headers or [],
                timestamp=record.timestamp,
                on_delivery=heard,
            )
        except BufferError:
            return Sent(error="too many records wait to be sent", retriable=True)
        except KafkaException as error:
            return _failed(error.args[0])
        return await done

    async def close(self, timeout: float = 2.0) -> None:
        """Send what is left, for at most ``timeout`` seconds, and end."""
        if self._producer is not None and self._thread is not None:
            await asyncio.to_thread(self._producer.flush, timeout)
            self._closing.set()
            await asyncio.to_thread(self._thread.join)

    def _client(self) -> Producer:
        if self._producer is None:
            made = self._producer = client.producer(
                self._kafka,
                linger_ms=1,
                partitioner="murmur2_random",
                message_max_bytes=self._max_bytes,
                delivery_timeout_ms=int(self._timeout * 1000),
                topic_metadata_propagation_max_ms=2000,
            )
            self._thread = threading.Thread(target=self._listen, args=(made,), daemon=True)
            self._thread.start()
        return self._producer

    def _listen(self, producer: Producer) -> None:
        while not self._closing.is_set():
            producer.poll(0.1)


def _failed(error: KafkaError) -> Sent:
    return Sent(error=error.str(), retriable=error.retriable() or error.code() in _MAY_PASS)


_MAY_PASS = (
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
