"""The producer and the consumer for asyncio: the synchronous ones, with a thread each."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from distributary.client.configuration import Source
from distributary.client.connect import SLICE
from distributary.client.consumer import Consumer, Moved
from distributary.client.delivery import Outlet
from distributary.client.initial_offsets import Start
from distributary.client.offset_tracker import Place
from distributary.client.record import Headers, Record, Sent, outgoing_record
from distributary.client.topic_rules import router_of
from distributary.errors import DistributaryError, KafkaClientError, KafkaUnavailable

T = TypeVar("T")

log = logging.getLogger(__name__)


class AsyncProducer:
    """Writes records to Kafka from one event loop; `send` returns when the record is acknowledged.

    Several sends may be under way, and are queued in the order of the calls. ``producer.type`` means
    nothing here: who does not want to wait makes a task. Use it with ``async with``.
    """

    def __init__(self, source: Source) -> None:
        self._outlet = Outlet(source)
        self._router = router_of(self._outlet.config)
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="async-producer", daemon=True)
        self._thread.start()

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
        """As `Producer.send`. A caller that is cancelled does not take its record back."""
        if self._closing.is_set():
            raise KafkaClientError("the producer is closed", hint="Make another one")
        one = self._router.route(outgoing_record(topic, value, key, partition, headers, timestamp))
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Sent] = loop.create_future()

        def settle(result: Sent | DistributaryError) -> None:
            if done.done():
                return
            if isinstance(result, DistributaryError):
                done.set_exception(result)
            else:
                done.set_result(result)

        def heard(result: Sent | DistributaryError) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result)

        async with self._turns[one.topic]:  # in turn, so that the order of the calls stays
            if not self._outlet.knows(one.topic):
                await asyncio.to_thread(self._outlet.look_up, one)
            deadline = time.monotonic() + self._outlet.max_block
            while not self._outlet.queue(one, heard):
                if time.monotonic() > deadline:
                    raise KafkaUnavailable(
                        f"writing {one} failed: there was no room for it within {self._outlet.max_block:g} s",
                        hint="Check that Kafka answers, or raise buffer.memory or max.block.ms",
                    )
                await asyncio.sleep(SLICE / 10)
        return await done

    async def send_string(self, topic: str, text: str, **words: Any) -> Sent:
        """As `send`, with a text that is written as UTF-8."""
        return await self.send(topic, text.encode(), **words)

    sendString = send_string

    async def close(self) -> None:
        """Wait until every record is acknowledged or has failed, and end."""
        if not self._closing.is_set():
            while await asyncio.to_thread(self._flush):
                pass
            self._closing.set()
            await asyncio.to_thread(self._thread.join)

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _flush(self) -> int:
        try:
            return self._outlet.flush(SLICE)
        except DistributaryError as error:  # each record that waits is told of its end too
            log.error("%s", error)
            return len(self._outlet.handle)

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                self._outlet.serve(SLICE)
            except DistributaryError as error:  # as above
                log.error("%s", error)


class AsyncConsumer:
    """Reads records as one of a group, from one event loop; the methods mean what `Consumer`'s do.

    What a cancelled `receive` would have given is given by the next. Callbacks of `subscribe` are called in
    the consumer's thread. Use it with ``async with``.
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
        on_assigned: Moved | None = None,
        on_revoked: Moved | None = None,
        on_lost: Moved | None = None,
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
            await self._call(self._consumer.settle)
        while True:
            left = SLICE if deadline is None else min(SLICE, max(0.0, deadline - time.monotonic()))
            if self._under_way is None:
                self._under_way = self._start(partial(self._consumer.take, left))
            # Shielded, since the thread goes on and may find records that must not be lost: who is cancelled
            # leaves them to the next.
            try:
                found = await asyncio.shield(self._under_way)
            except Exception:
                self._under_way = None
                raise
            self._under_way = None
            for one in found:
                self._consumer.give(one)
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
        """Give one record after another, for ever; a batch counts as read when its last one was handled."""
        while True:
            for one in await self.receive():
                yield one

    async def commit(self) -> None:
        """As `Consumer.commit`: all that `receive` gave, of a loop the whole batch that it is in."""
        await self._call(self._consumer.commit)

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        """As `Consumer.seek`."""
        await self._call(lambda: self._consumer.seek(topic, partition, offset))

    async def pause(self, which: Iterable[Place] | None = None) -> None:
        """As `Consumer.pause`."""
        await self._call(lambda: self._consumer.pause(which))

    async def resume(self, which: Iterable[Place] | None = None) -> None:
        """As `Consumer.resume`."""
        await self._call(lambda: self._consumer.resume(which))

    async def committed(self) -> dict[Place, int]:
        """As `Consumer.committed`."""
        return await self._call(self._consumer.committed)

    async def assignment(self) -> list[Place]:
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
