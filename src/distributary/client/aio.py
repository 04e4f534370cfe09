"""The producer and the consumer for asyncio, with a thread each."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from distributary.client.configuration import Source, router_of
from distributary.client.connect import ConfiguredProducer
from distributary.client.consumer import Consumer, RebalanceCallback
from distributary.client.consumer_offsets import Start
from distributary.client.record import Headers, Record, Sent, outgoing_record, sent
from distributary.errors import KafkaClientError
from distributary.kafka.record_producer import SLICE, AsyncRecordProducer
from distributary.kafka.topics import PartitionId

T = TypeVar("T")


class AsyncProducer:
    """Writes records to Kafka from one event loop; `send` returns when the record is acknowledged.

    Several sends may be under way; they are queued in the order of the calls. ``producer.type`` has no effect
    here: create a task not to wait. Use it with ``async with``.
    """

    def __init__(self, source: Source) -> None:
        self._core = ConfiguredProducer(source)
        self._producer = AsyncRecordProducer(self._core, "async-producer")
        self._router = router_of(self._core.config)
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: int | datetime | None = None,
    ) -> Sent:
        """As `Producer.send`. Cancelling the call does not take the record back."""
        if self._producer.closed:
            raise KafkaClientError("the producer is closed", hint="Create a new one")
        record = self._router.route(
            outgoing_record(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp)
        )
        async with self._turns[record.topic]:  # one after the other, which keeps the order of the calls
            if not self._core.knows(record.topic):
                await asyncio.to_thread(self._core.look_up, record)
            deadline = time.monotonic() + self._core.max_block
            while (report := self._producer.queue(record)) is None:
                if time.monotonic() > deadline:
                    raise self._core.no_room(record)
                await asyncio.sleep(SLICE / 10)
        return sent(await report)

    async def send_string(self, topic: str, text: str, **options: Any) -> Sent:
        """As `send`, with a string that is written as UTF-8."""
        return await self.send(topic, text.encode(), **options)

    sendString = send_string

    async def close(self) -> None:
        """Wait until every record is acknowledged or has failed, and end."""
        if not self._producer.closed:
            while await self._producer.flush(SLICE):
                pass
            await self._producer.close()

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncConsumer:
    """Reads records as a member of a group, from one event loop, with the methods of `Consumer`.

    What a cancelled `receive` would have returned, the next one returns. Callbacks of `subscribe` are called
    in the consumer's thread. Use it with ``async with``.
    """

    def __init__(self, source: Source) -> None:
        self._consumer = Consumer(source)
        self._thread = ThreadPoolExecutor(1, "async-consumer")
        self._under_way: asyncio.Future[list[Record]] | None = None

    async def subscribe(
        self,
        topics: str | Iterable[str],
        *,
        start: Start = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """As `Consumer.subscribe`."""
        await self._call(
            lambda: self._consumer.subscribe(
                topics, start=start, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost
            )
        )

    async def receive(self, timeout: float | None = None) -> list[Record]:
        """As `Consumer.receive`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._under_way is None:
            await self._call(self._consumer.mark_read)
        while True:
            left = SLICE if deadline is None else min(SLICE, max(0.0, deadline - time.monotonic()))
            if self._under_way is None:
                self._under_way = self._start(partial(self._consumer.fetch, left))
            # Shielded, since the thread goes on and may find records that must not be lost: a cancelled call
            # leaves them to the next one.
            try:
                found = await asyncio.shield(self._under_way)
            except Exception:
                self._under_way = None
                raise
            self._under_way = None
            for one in found:
                self._consumer.mark_delivered(one)
            if found or (deadline is not None and time.monotonic() >= deadline):
                return found

    async def poll(self, timeout_ms: float = -1) -> list[bytes]:
        """As `Consumer.poll`."""
        found = await self.receive(None if timeout_ms < 0 else timeout_ms / 1000)
        return [one.value or b"" for one in found]

    async def poll_string(self, timeout_ms: float = -1) -> list[str]:
        """As `Consumer.poll_string`."""
        return [value.decode(errors="replace") for value in await self.poll(timeout_ms)]

    pollString = poll_string

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Yield one record after another, for ever; a batch counts as read when its last one was handled."""
        while True:
            for one in await self.receive():
                yield one

    async def commit(self) -> None:
        """As `Consumer.commit`: all that `receive` returned; in a loop, the whole current batch."""
        await self._call(self._consumer.commit)

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        """As `Consumer.seek`."""
        await self._call(lambda: self._consumer.seek(topic, partition, offset))

    async def pause(self, partitions: Iterable[PartitionId] | None = None) -> None:
        """As `Consumer.pause`."""
        await self._call(lambda: self._consumer.pause(partitions))

    async def resume(self, partitions: Iterable[PartitionId] | None = None) -> None:
        """As `Consumer.resume`."""
        await self._call(lambda: self._consumer.resume(partitions))

    async def committed(self) -> dict[PartitionId, int]:
        """As `Consumer.committed`."""
        return await self._call(self._consumer.committed)

    async def assignment(self) -> list[PartitionId]:
        """As `Consumer.assignment`."""
        return await self._call(self._consumer.assignment)

    async def close(self, *, read: bool = True) -> None:
        """As `Consumer.close`."""
        await self._call(lambda: self._consumer.close(read=read))
        self._thread.shutdown()

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(read=kind is None)

    def _start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _call(self, work: Callable[[], T]) -> T:
        return await self._start(work)
