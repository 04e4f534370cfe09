"""All consumer instances of a gateway: bounded in number, closed when nobody uses them."""

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

from distributary.config.gateway_section import Gateway
from distributary.config.sections import Kafka
from distributary.gateway.error_codes import RestCode, api_error, refused
from distributary.gateway.rest_proxy.consumer_instance import Instance, Wish

log = logging.getLogger(__name__)

T = TypeVar("T")


ABANDONED = 3.0
"""Seconds in which a client that broke off a request may come back before its instance is closed."""


def _nothing() -> None:
    pass


class Entry:
    """An instance with its owner and lock, when it was last used, and whether its client broke that off.

    ``end`` is called when it was closed.
    """

    def __init__(
        self, instance: Instance, now: float, owner: str = "", end: Callable[[], None] = _nothing
    ) -> None:
        self.instance = instance
        self.owner = owner
        self.end = end
        self.lock = asyncio.Lock()
        self.used = now
        self.broken_off = False
        self.closed = False

    def expired(self, now: float, timeout: float) -> bool:
        """Whether it was left alone for too long."""
        return now - self.used >= (min(timeout, ABANDONED) if self.broken_off else timeout)


class Instances:
    """For one event loop. Blocking calls of instances run in as many threads as there may be instances."""

    def __init__(self, kafka: Kafka, settings: Gateway, clock: Callable[[], float] = time.monotonic) -> None:
        self._kafka = kafka
        self._settings = settings
        self._clock = clock
        self._pool = ThreadPoolExecutor(settings.max_instances, thread_name_prefix="gateway")
        self._entries: dict[tuple[str, str], Entry] = {}
        self._others = 0
        self._waiting: set[threading.Event] = set()

    def __len__(self) -> int:
        return len(self._entries) + self._others

    async def create(
        self, group: str, wish: Wish, owner: str = "", end: Callable[[], None] = _nothing
    ) -> Instance:
        """Make an instance, of a user; raises GatewayError: the name is taken, or there are too many.

        ``end`` is called once it was closed, not when it could not be made.
        """
        name = wish.name or f"i-{uuid.uuid4().hex}"
        if (group, name) in self._entries:
            raise api_error(
                RestCode.CONSUMER_ALREADY_EXISTS,
                f"the group {group!r} has an instance {name!r}",
                "take another name",
            )
        self._check_room()
        instance = Instance(self._kafka, group, name, wish)
        self._entries[group, name] = Entry(instance, self._clock(), owner, end)
        return instance

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place for a reader that is no instance, such as a stream; raises GatewayError if none is."""
        self._check_room()
        self._others += 1
        try:
            yield
        finally:
            self._others -= 1

    @contextlib.asynccontextmanager
    async def use(self, group: str, name: str, owner: str = "") -> AsyncIterator[Instance]:
        """Have an instance to oneself; raises GatewayError when there is none, or it is another user's."""
        entry = self._entries.get((group, name))
        if entry is not None and entry.owner == owner:
            entry.used = self._clock()
            async with entry.lock:
                if not entry.closed:
                    entry.broken_off = False
                    try:
                        yield entry.instance
                    except asyncio.CancelledError:  # most often since the client was killed
                        entry.broken_off = True
                        raise
                    except KafkaException as error:
                        raise refused(error.args[0], f"the group {group}") from None
                    finally:
                        entry.used = self._clock()
                    return
        raise api_error(
            RestCode.CONSUMER_INSTANCE_NOT_FOUND,
            f"the group {group!r} has no instance {name!r} here",
            f"make one by POST /consumers/{group}; {self._settings.instance_timeout:g} s unused end it",
        )

    async def run(self, call: Callable[..., T], *args: Any) -> T:
        """Run a blocking call in a thread; one that was begun is waited for, whoever gave up."""
        work = asyncio.get_running_loop().run_in_executor(self._pool, call, *args)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait([work])
            raise

    async def run_until(self, call: Callable[..., T], *args: Any) -> T:
        """Run a blocking call that takes an event last and ends soon after it is set: when nobody waits."""
        gave_up = threading.Event()
        self._waiting.add(gave_up)
        work = asyncio.ensure_future(self.run(call, *args, gave_up))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            gave_up.set()
            await asyncio.wait([work])
            raise
        finally:
            self._waiting.discard(gave_up)

    def stop_waiting(self) -> None:
        """End the waits that are under way, because the gateway stops."""
        for one in self._waiting:
            one.set()

    async def remove(self, group: str, name: str, owner: str = "") -> None:
        """Close an instance; raises GatewayError when there is none, or it is another user's."""
        async with self.use(group, name, owner):
            await self._end(self._entries.pop((group, name)))

    async def keep(self) -> None:
        """Look after all instances for ever: those in use stay in their groups, the others are closed."""
        while True:
            await asyncio.sleep(min(1.0, self._settings.instance_timeout / 4))
            await asyncio.gather(*(self._look(*key) for key in list(self._entries)))

    async def close(self) -> None:
        """Close all."""
        entries, self._entries = self._entries, {}
        await asyncio.gather(*map(self._end, entries.values()))
        self._pool.shutdown(wait=False)

    async def _look(self, group: str, name: str) -> None:
        entry = self._entries.get((group, name))
        if entry is None or entry.lock.locked():
            return
        async with entry.lock:
            if entry.closed:
                return
            try:
                if not entry.expired(self._clock(), self._settings.instance_timeout):
                    await self.run(entry.instance.idle)
                    return
                self._entries.pop((group, name), None)
                log.info("the instance %r of the group %r was not used any more and is closed", name, group)
                await self._end(entry)
            except (KafkaException, RuntimeError) as error:
                log.warning("the instance %r of the group %r: %s", name, group, error)

    async def _end(self, entry: Entry) -> None:
        entry.closed = True
        try:
            await self.run(entry.instance.close)
        finally:
            entry.end()

    def _check_room(self) -> None:
        if len(self) >= self._settings.max_instances:
            raise api_error(
                RestCode.NO_CONSUMER_AVAILABLE,
                f"there are {len(self)} consumer instances and streams, and no more are allowed",
                "try again later, delete instances that are done with, or raise gateway.max_instances",
            )
