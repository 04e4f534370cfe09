"""The parts of a stack: the embedded broker, the embedded store, and the Python services."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from distributary.config.embedded_defaults import HOST
from distributary.config.secrets import mask_text
from distributary.config.sections import Kafka
from distributary.errors import KafkaRefused, KafkaUnavailable
from distributary.kafka.admin import wait_for_kafka
from distributary.kafka.embedded_broker import Broker
from distributary.service import HEARTBEAT_FILE
from distributary.stack import liveness
from distributary.stack.component import Launch, Part, Started
from distributary.store.embedded_server import Server


@dataclass(frozen=True)
class Service:
    """A Python part: a module that announces when it is ready. ``jars`` are the sets that it needs.

    One that is ``early`` waits for Kafka and the store itself, and is started together with them. One that
    ``beats`` moves the time of its heartbeat file. One that stands beside the flow of records is ``nice``:
    where processors are short, it is the one that waits.
    """

    name: str
    argv: Sequence[str]
    jars: Sequence[str] = ()
    early: bool = False
    beats: bool = False
    nice: int = 0


NICE = 10


def services(publishers: int = 1, *, socketio: bool = False) -> list[Service]:
    """The services of a whole stack, in the order they start."""
    names = ["publisher"] if publishers == 1 else [f"publisher-{n + 1}" for n in range(publishers)]
    return [
        Service("control", _module("control"), beats=True, nice=NICE),
        Service("gateway", _module("gateway"), beats=True, nice=NICE),
        Service("reducers", _module("reducers"), jars=("spark",), early=True, beats=True),
        *(Service(name, _module("publisher"), beats=True) for name in names),
        *([Service("socketio", _module("socketio_gateway"), beats=True)] if socketio else []),
    ]


def kafka_part(broker: Broker, kafka: Kafka, env: Mapping[str, str], log: Path) -> Part:
    """The embedded broker; ``kafka`` has its address."""

    def launch() -> Launch:
        before = broker.prepare()
        return Launch(broker.command(), env, before)

    async def ready(started: Started) -> Mapping[str, str]:
        # The port may be somebody else's by now: only the cluster of our own folder will do.
        while await _cluster(broker.own) != broker.cluster_id():
            await asyncio.sleep(0.05)
        return {"kafka": broker.address}

    sign = liveness.of_kafka(replace(broker.own, commands_topic=kafka.commands_topic))
    return Part("kafka", log, launch, ready, limit=kafka.start_timeout, sign=sign)


def store_part(server: Server, env: Mapping[str, str], log: Path, limit: float) -> Part:
    """The embedded store server."""
    restarted = False

    def launch() -> Launch:
        nonlocal restarted
        restarted = server.prepare()
        return Launch(server.command(), env)

    async def ready(started: Started) -> Mapping[str, str]:
        await server.wait_ready(started.pid, restarted=restarted)
        return {"store": mask_text(server.url)}

    return Part("store", log, launch, ready, limit=limit, sign=liveness.of_store(HOST, server.port))


def service_part(service: Service, env: Mapping[str, str], log: Path, limit: float, beats: Path) -> Part:
    """A Python service; ``beats`` is the folder of heartbeat files."""
    file = beats / service.name if service.beats else None

    def launch() -> Launch:
        if file is None:
            return Launch(service.argv, env, nice=service.nice)
        file.unlink(missing_ok=True)  # that of the process before says nothing of the next
        return Launch(service.argv, {**env, HEARTBEAT_FILE: str(file)}, nice=service.nice)

    async def ready(started: Started) -> Mapping[str, str]:
        return await started.line

    sign = liveness.of_file(file) if file is not None else None
    return Part(service.name, log, launch, ready, limit=limit, announces=True, sign=sign)


async def _cluster(kafka: Kafka) -> str | None:
    """The id of the cluster that answers; None while nothing does."""
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        await writer.wait_closed()
        return await asyncio.to_thread(wait_for_kafka, kafka, 1.0)
    except (OSError, KafkaUnavailable, KafkaRefused):  # of somebody else's, perhaps
        return None


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", f"distributary.{name}"]
