"""What a stack requires of the machine: found, or downloaded, before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from distributary.config import Config
from distributary.setup import jars, java, store_server
from distributary.stack.stack_components import Service


@dataclass(frozen=True)
class BrokerTools:
    """What the embedded broker runs with."""

    java: Path
    jars: Path


@dataclass(frozen=True)
class ServerTools:
    """What the embedded store runs with."""

    program: Path
    kind: Literal["valkey", "redis"]


@dataclass(frozen=True)
class Found:
    """What was found; None where the stack starts no such component."""

    broker: BrokerTools | None
    server: ServerTools | None
    java_home: Path | None


def check(config: Config, services: Sequence[Service], report: Callable[[str], None]) -> Found:
    """Find all that the stack requires, downloading missing jars; raises SetupError."""
    sets = {name for service in services for name in service.jars}
    own_kafka = not config.kafka.bootstrap_servers
    runtime = java.ensure(report) if own_kafka or sets else None
    for name in sorted(sets):
        jars.ensure(name)
    broker = BrokerTools(runtime.path, jars.ensure("kafka")) if runtime and own_kafka else None
    server = None
    if not config.store.addresses:
        found = store_server.find()
        server = ServerTools(found.path, found.kind)
    return Found(broker, server, runtime.home if runtime else None)
