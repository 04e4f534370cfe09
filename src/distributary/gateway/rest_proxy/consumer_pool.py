"""All consumer instances of a gateway: limited in number, closed when they are not used."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from distributary.config.sections import Kafka
from distributary.config.server_sections import Gateway
from distributary.gateway.error_codes import RestCode, api_error, kafka_error
from distributary.gateway.rest_proxy.consumer_instance import ConsumerInstance, ConsumerOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

ABANDONED = 3.0
"""Seconds in which a client that broke off a request must come back before its instance is closed."""


def _do_nothing() -> None:
    pass


class PooledConsumer:
    """An instance of the pool."""

    def __init__(
        self,
        instance: ConsumerInstance,
        now: float,
        owner: str = "",
        on_close: Callable[[], None] = _do_nothing,
    ) -> None:
        self.instance = instance
        self.owner = owner
        self.on_close = on_close
        self.lock = asyncio.Lock()
        """Held by the request that uses the instance."""
        self.last_used = now
        self.broken_off = False
        """Whether the client closed its connection during its last request."""
        self.closed = False

    def expired(self, now: float, timeout: float) -> bool:
        """Whether it was unused for too long."""
        return now - self.last_used >= (min(timeout, ABANDONED) if self.broken_off else timeout)


class ConsumerPool:
    """For one event loop. Blocking calls of instances run in as many threads as there may be instances."""

    def __init__(self, kafka: Kafka, settings: Gateway, clock: Callable[[], float] = time.monotonic) -> None:
        self._kafka = kafka
        self._settings = settings
        self._clock = clock
        self._threads = ThreadPoolExecutor(settings.max_instances, thread_name_prefix="gateway")
        self._consumers: dict[tuple[str, str], PooledConsumer] = {}
        """By group and name of the instance."""
        self._slots = 0
        """Readers that are not instances, see `slot`."""
        self._cancellations: set[threading.Event] = set()
        """Those of the calls of `run_until` that are under way."""

    def __len__(self) -> int:
        return len(self._consumers) + self._slots

    async def create(
        self,
        group: str,
        options: ConsumerOptions,
        owner: str = "",
        on_close: Callable[[], None] = _do_nothing,
    ) -> ConsumerInstance:
        """Create an instance of a user; raises GatewayError if the name is taken or there are too many.

        ``on_close`` is called once the instance was closed, not if it could not be created.
        """
        name = options.name or f"i-{uuid.uuid4().hex}"
        if (group, name) in self._consumers:
            raise api_error(
                RestCode.CONSUMER_ALREADY_EXISTS,
                f"the group {group!r} already has an instance {name!r}",
                "use another name",
            )
        self._check_limit()
        instance = ConsumerInstance(self._kafka, group, name, options)
        self._consumers[group, name] = PooledConsumer(instance, self._clock(), owner, on_close)
        return instance

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Reserve a slot for a reader that is not an instance, such as a stream; raises if none is free."""
        self._check_limit()
        self._slots += 1
        try:
            yield
        finally:
            self._slots -= 1

    @contextlib.asynccontextmanager
    async def use(self, group: str, name: str, owner: str = "") -> AsyncIterator[ConsumerInstance]:
        """Use an instance exclusively; raises GatewayError if it does not exist or is another user's."""
        consumer = self._consumers.get((group, name))
        if consumer is not None and consumer.owner == owner:
            consumer.last_used = self._clock()
            async with consumer.lock:
                if not consumer.closed:
                    consumer.broken_off = False
                    try:
                        yield consumer.instance
                    except asyncio.CancelledError:  # usually because the client was killed
                        consumer.broken_off = True
                        raise
                    except KafkaException as error:
                        raise kafka_error(error.args[0], f"the group {group}") from None
                    finally:
                        consumer.last_used = self._clock()
                    return
        raise api_error(
            RestCode.CONSUMER_INSTANCE_NOT_FOUND,
            f"instance {name!r} of the group {group!r} not found",
            f"create it by POST /consumers/{group}; an instance that is not used for "
            f"{self._settings.instance_timeout:g} s is deleted",
        )

    async def run(self, call: Callable[..., T], *args: Any) -> T:
        """Run a blocking call in a thread; once begun it is waited for, even if the caller is cancelled."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, call, *args)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    async def run_until(self, call: Callable[..., T], *args: Any) -> T:
        """Run a blocking call whose last argument is an event: it must return soon once that is set.

        The event is set when the caller is cancelled, or the gateway stops.
        """
        cancelled = threading.Event()
        self._cancellations.add(cancelled)
        task = asyncio.ensure_future(self.run(call, *args, cancelled))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([task])
            raise
        finally:
            self._cancellations.discard(cancelled)

    def stop_waiting(self) -> None:
        """End the waits that are under way, because the gateway stops."""
        for cancelled in self._cancellations:
            cancelled.set()

    async def remove(self, group: str, name: str, owner: str = "") -> None:
        """Close an instance; raises GatewayError if it does not exist or is another user's."""
        async with self.use(group, name, owner):
            await self._close(self._consumers.pop((group, name)))

    async def maintain(self) -> None:
        """Maintain all instances until cancelled: those in use stay in their groups, others are closed."""
        while True:
            await asyncio.sleep(min(1.0, self._settings.instance_timeout / 4))
            await asyncio.gather(*(self._maintain(*key) for key in list(self._consumers)))

    async def close(self) -> None:
        """Close all instances."""
        consumers, self._consumers = self._consumers, {}
        await asyncio.gather(*map(self._close, consumers.values()))
        self._threads.shutdown(wait=False)

    async def _maintain(self, group: str, name: str) -> None:
        consumer = self._consumers.get((group, name))
        if consumer is None or consumer.lock.locked():
            return
        async with consumer.lock:
            if consumer.closed:
                return
            try:
                if not consumer.expired(self._clock(), self._settings.instance_timeout):
                    await self.run(consumer.instance.idle)
                    return
                self._consumers.pop((group, name), None)
                log.info("closing the instance %r of the group %r, which is not used any more", name, group)
                await self._close(consumer)
            except (KafkaException, RuntimeError) as error:
                log.warning("the instance %r of the group %r: %s", name, group, error)

    async def _close(self, consumer: PooledConsumer) -> None:
        consumer.closed = True
        try:
            await self.run(consumer.instance.close)
        finally:
            consumer.on_close()

    def _check_limit(self) -> None:
        if len(self) >= self._settings.max_instances:
            raise api_error(
                RestCode.NO_CONSUMER_AVAILABLE,
                f"the limit of {len(self)} consumer instances and streams is reached",
                "retry later, delete instances that are not needed, or raise gateway.max_instances",
            )
