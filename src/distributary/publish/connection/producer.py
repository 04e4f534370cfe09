"""Writes records to Kafka for an event loop, each acknowledged by every in-sync replica."""

from __future__ import annotations

import asyncio
import threading

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from distributary.config.sections import Kafka
from distributary.errors import DistributaryError, KafkaUnavailable, TopicError
from distributary.kafka import client

TIMEOUT = 4.0
"""Clients give up after 5 seconds by themselves; they are told before that."""

_AWAY = frozenset(
    (
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._QUEUE_FULL,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    )
)


class RecordProducer:
    """For one event loop. A thread of its own hears the acknowledgements, so nothing blocks the loop.

    Client and thread are made with the first record: a publisher to which nobody writes has neither.
    """

    def __init__(self, kafka: Kafka, *, timeout: float = TIMEOUT) -> None:
        self._kafka = kafka
        self._timeout = timeout
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    async def send(self, topic: str, key: bytes | None, value: bytes) -> None:
        """Write one record and wait until it is acknowledged.

        Records are queued in the order of the calls. Raises `KafkaUnavailable` when no broker answered in
        time, `TopicError` when one refused.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle(error: KafkaError | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(_refused(topic, error))

        def heard(error: KafkaError | None, message: Message) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, error)

        try:
            self._client().produce(topic, value, key, on_delivery=heard)
        except BufferError:
            raise KafkaUnavailable(
                f"the records for topic {topic} pile up unsent", hint="Check that Kafka answers"
            ) from None
        except KafkaException as error:
            raise _refused(topic, error.args[0]) from None
        await done

    async def close(self, timeout: float = 5.0) -> None:
        """Send what is left, for at most ``timeout`` seconds, and end."""
        if self._producer is not None and self._thread is not None:
            await asyncio.to_thread(self._producer.flush, timeout)
            self._closing.set()
            await asyncio.to_thread(self._thread.join)

    def _client(self) -> Producer:
        if self._producer is None:
            made = self._producer = client.producer(
                self._kafka,
                linger_ms=0,
                delivery_timeout_ms=int(self._timeout * 1000),
                # A topic that is missing is said to be, instead of being waited for.
                topic_metadata_propagation_max_ms=int(min(self._timeout / 2, 2.0) * 1000),
            )
            self._thread = threading.Thread(
                target=self._listen, args=(made,), name="record-producer", daemon=True
            )
            self._thread.start()
        return self._producer

    def _listen(self, producer: Producer) -> None:
        while not self._closing.is_set():
            producer.poll(0.1)


def _refused(topic: str, error: KafkaError) -> DistributaryError:
    if error.code() in _AWAY:
        return KafkaUnavailable(
            f"Kafka did not acknowledge a record for topic {topic} in time", hint="Check that it runs"
        )
    return TopicError(f"a record was refused by topic {topic}: {error.str()}")
