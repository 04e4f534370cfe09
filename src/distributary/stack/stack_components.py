"""The components of a stack (embedded broker, embedded store, Python services), and when each is alive.

A liveness check passes through the component's own work, since a process that exists may hang.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from distributary.config.embedded_defaults import HOST
from distributary.config.secrets import mask_text
from distributary.config.sections import Kafka
from distributary.errors import KafkaRefused, KafkaUnavailable
from distributary.kafka import librdkafka
from distributary.kafka.admin import wait_for_kafka
from distributary.kafka.embedded_broker import Broker
from distributary.service import HEARTBEAT_FILE
from distributary.stack.component import Component, Launch, LivenessCheck, Started
from distributary.store.embedded_server import EmbeddedServer

NICE = 10
_POLL_SECONDS = 0.1
_KAFKA_SECONDS = 0.9
"""Seconds that Kafka has for one response."""


@dataclass(frozen=True)
class Service:
    """A Python component: a module that prints a ready line. ``jars`` are the sets that it requires.

    One that is ``early`` waits for Kafka and the store itself, and is started together with them. One with a
    ``heartbeat`` moves the time of its heartbeat file. One beside the flow of records is ``nice``: where
    processors are short, it waits for the others.
    """

    name: str
    argv: Sequence[str]
    jars: Sequence[str] = ()
    early: bool = False
    heartbeat: bool = False
    nice: int = 0


def services(publishers: int = 1, *, socketio: bool = False) -> list[Service]:
    """The services of a whole stack, in the order they start."""
    names = ["publisher"] if publishers == 1 else [f"publisher-{n + 1}" for n in range(publishers)]
    return [
        Service("control", _module("control"), heartbeat=True, nice=NICE),
        Service("gateway", _module("gateway"), heartbeat=True, nice=NICE),
        Service("reducers", _module("reducers"), jars=("spark",), early=True, heartbeat=True),
        *(Service(name, _module("publisher"), heartbeat=True) for name in names),
        *([Service("socketio", _module("socketio_gateway"), heartbeat=True)] if socketio else []),
    ]


def kafka_component(broker: Broker, kafka: Kafka, env: Mapping[str, str], log: Path) -> Component:
    """The embedded broker; ``kafka`` has its address."""

    def launch() -> Launch:
        before = broker.prepare()
        return Launch(argv=broker.command(), env=env, before=before)

    async def ready(started: Started) -> Mapping[str, str]:
        # Another program may have the port by now: only the cluster of this stack's folder will do.
        while await _cluster(broker.own) != broker.cluster_id():
            await asyncio.sleep(0.05)
        return {"kafka": broker.address}

    return Component(
        name="kafka",
        log=log,
        launch=launch,
        ready=ready,
        start_timeout=kafka.start_timeout,
        alive=kafka_responds(replace(broker.own, commands_topic=kafka.commands_topic)),
    )


def store_component(
    server: EmbeddedServer, env: Mapping[str, str], log: Path, start_timeout: float
) -> Component:
    """The embedded store server."""
    restarted = False

    def launch() -> Launch:
        nonlocal restarted
        restarted = server.prepare()
        return Launch(argv=server.command(), env=env)

    async def ready(started: Started) -> Mapping[str, str]:
        await server.wait_ready(started.pid, restarted=restarted)
        return {"store": mask_text(server.url)}

    return Component(
        name="store",
        log=log,
        launch=launch,
        ready=ready,
        start_timeout=start_timeout,
        alive=store_responds(HOST, server.port),
    )


def service_component(
    service: Service, env: Mapping[str, str], log: Path, start_timeout: float, heartbeats: Path
) -> Component:
    """A Python service; ``heartbeats`` is the folder of heartbeat files."""
    file = heartbeats / service.name if service.heartbeat else None

    def launch() -> Launch:
        if file is None:
            return Launch(argv=service.argv, env=env, nice=service.nice)
        file.unlink(missing_ok=True)  # the file of the previous process proves nothing about the next one
        return Launch(argv=service.argv, env={**env, HEARTBEAT_FILE: str(file)}, nice=service.nice)

    return Component(
        name=service.name,
        log=log,
        launch=launch,
        ready=ready_line,
        start_timeout=start_timeout,
        announces=True,
        alive=heartbeat_file_moves(file) if file is not None else None,
    )


async def ready_line(started: Started) -> Mapping[str, str]:
    """Ready when it printed its ready line."""
    return await started.ready_line


def heartbeat_file_moves(path: Path) -> LivenessCheck:
    """The time of a heartbeat file was moved since the last check."""
    last = 0

    async def check() -> None:
        nonlocal last
        while (now := _modified(path)) in (0, last):
            await asyncio.sleep(_POLL_SECONDS)
        last = now

    return check


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def store_responds(host: str, port: int) -> LivenessCheck:
    """The store responds, even if only that it is loading its data or requires a password."""

    async def check() -> None:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(b"PING\r\n")
            if not await reader.readline():
                raise ConnectionError("it closed the connection")
        finally:
            writer.close()

    return check


def kafka_responds(kafka: Kafka) -> LivenessCheck:
    """The broker responds to a request about a topic."""
    admin: list[Any] = []

    def request() -> None:
        if not admin:
            admin.append(librdkafka.admin(kafka))
        try:
            admin[0].list_topics(kafka.commands_topic, timeout=_KAFKA_SECONDS)
        except KafkaException as error:
            raise OSError(error.args[0].str()) from None

    async def check() -> None:
        await asyncio.to_thread(request)

    return check


async def _cluster(kafka: Kafka) -> str | None:
    """The id of the cluster that responds; None while none does."""
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        await writer.wait_closed()
        return await asyncio.to_thread(wait_for_kafka, kafka, 1.0)
    except (OSError, KafkaUnavailable, KafkaRefused):  # perhaps the cluster of somebody else
        return None


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", f"distributary.{name}"]
