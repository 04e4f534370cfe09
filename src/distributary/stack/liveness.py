"""Signs of life of the parts: each passes through the part's own work, for a process that exists may hang."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka

Sign = Callable[[], Awaitable[None]]
"""Waits for the next sign of life of a part, for ever if need be; may raise OSError when there is none."""

_STEP = 0.1
_ANSWER = 0.9
"""Seconds that Kafka has for one answer."""


def of_file(path: Path) -> Sign:
    """The heartbeat file of a Python part: its time was moved since the last look."""
    last = 0

    async def sign() -> None:
        nonlocal last
        while (now := _moved(path)) in (0, last):
            await asyncio.sleep(_STEP)
        last = now

    return sign


def _moved(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def of_store(host: str, port: int) -> Sign:
    """The store answers, whatever it says: that it is loading its data, or wants a password, too."""

    async def sign() -> None:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(b"PING\r\n")
            if not await reader.readline():
                raise ConnectionError("it hung up")
        finally:
            writer.close()

    return sign


def of_kafka(kafka: Kafka) -> Sign:
    """The broker answers a question about a topic."""
    held: list[Any] = []

    def ask() -> None:
        if not held:
            held.append(librdkafka.admin(kafka))
        try:
            held[0].list_topics(kafka.commands_topic, timeout=_ANSWER)
        except KafkaException as error:
            raise OSError(error.args[0].str()) from None

    async def sign() -> None:
        await asyncio.to_thread(ask)

    return sign
