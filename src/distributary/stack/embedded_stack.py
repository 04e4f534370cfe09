"""A whole stack as one value: ``async with Stack(config) as stack: await stack.wait_ready()``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType

from distributary.auth.audit import AuditLog
from distributary.auth.token_issuer import create_stack_token
from distributary.config import Config
from distributary.config.embedded_defaults import HOST, embedded_kafka, store_url
from distributary.config.secrets import mask_text
from distributary.errors import StackError
from distributary.httpd.certificates import Certificates
from distributary.kafka import commands_topic, librdkafka
from distributary.kafka.admin import wait_for_kafka
from distributary.kafka.embedded_broker import Broker
from distributary.kafka.outgoing_record import ensure_dead_letter_topic
from distributary.kafka.topics import ensure_topic
from distributary.stack import embedded_servers, orphans, prerequisites, stack_file
from distributary.stack.component import Component, Event, EventKind, Listener, never_raising
from distributary.stack.data_dir import DataDir
from distributary.stack.define_views import define_views
from distributary.stack.ports import Ports, listening_sections
from distributary.stack.process_environment import (
    chosen_settings,
    server_environment,
    service_environment,
)
from distributary.stack.process_keeper import Policy
from distributary.stack.stack_components import (
    Service,
    kafka_component,
    service_component,
    services,
    store_component,
)
from distributary.stack.stack_file import Phase, StackState
from distributary.stack.supervisor import Supervisor
from distributary.store.embedded_server import wait_for_store
from distributary.store.store_factory import open_writer

SERVICE_START_SECONDS = 120.0
"""Seconds that a Python service may take to be ready once Kafka and the store are: Spark starts a JVM."""


class Stack:
    """Runs the components of a configuration in its data folder, from entering to leaving.

    Where the configuration names a Kafka or a store, the stack waits for those and starts none.
    ``services`` replaces the Python components. ``listener`` is called with every event. Leaving it leaves
    no process behind.
    """

    def __init__(
        self,
        config: Config,
        *,
        listener: Listener = lambda event: None,
        services: Sequence[Service] | None = None,
        policy: Policy | None = None,
    ) -> None:
        self._given = config
        self._listener = never_raising(listener)
        self._services = services
        self._policy = policy
        self._exit = AsyncExitStack()
        """What is undone on leaving, in reverse order."""
        self._supervisor: Supervisor | None = None
        self._coming_up: asyncio.Task[None] | None = None
        self._secure = config.kafka.secure and not config.kafka.bootstrap_servers
        self.config = config
        """As given; once entered, with the addresses and ports that were chosen."""

    async def __aenter__(self) -> Stack:
        """Lock the folder, check what the machine needs, end what an earlier run left, and begin to start."""
        try:
            # 1. Own the data folder.
            certificates = _certificates(self._given)
            folder = DataDir.open(self._given.data_dir)
            self._exit.callback(folder.close)
            create_stack_token(folder.path)
            stack_file.register(folder.id, folder.path)
            self._exit.callback(stack_file.unregister, folder.id)
            if folder.shared:
                self._note(f"other users can read {folder.path}, and you cannot change that")
            if warning := self._given.exposed_warning():
                self._note(warning)
            await orphans.end(folder.id, folder.path, self._note)
            # 2. Find what the components need: programs, then free ports.
            started = self._services
            if started is None:
                started = services(self._given.publisher.processes, socketio=bool(self._given.socketio.port))
            found = await asyncio.to_thread(prerequisites.check, self._given, started, self._note)
            ports = Ports(folder.path / "ports.json")
            self._exit.callback(ports.close)
            self.config = _choose_ports(self._given, ports)
            # 3. Start them, in a task of its own.
            self._supervisor = Supervisor(folder.id, folder.path, self._listener, self._policy)
            self._supervisor.state.certificates = certificates
            self._supervisor.write()
            self._exit.push_async_callback(self._supervisor.stop)
            self._coming_up = asyncio.create_task(self._come_up(folder, ports, found, started))
            self._exit.push_async_callback(self._stop_coming_up, self._coming_up)
        except BaseException:
            await self._exit.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything, within 10 seconds."""
        # Shielded: a second Ctrl-C must not leave processes behind.
        await asyncio.shield(self._exit.aclose())

    @property
    def state(self) -> StackState:
        """What runs now."""
        return self._running().state

    @property
    def addresses(self) -> dict[str, str]:
        """Where to reach each component: ``kafka``, ``store``, ``control``, ``gateway``, ``websocket``, …"""
        return dict(self.state.addresses)

    async def wait_ready(self) -> None:
        """Wait until every component serves; raises the error of one that does not start."""
        if self._coming_up is None:
            raise StackError("the stack was not entered")
        await asyncio.shield(self._coming_up)

    def kill(self, component: str) -> int:
        """SIGKILL one component's process, to see it restart; returns the pid that it had."""
        return self._running().keeper(component).kill()

    def _running(self) -> Supervisor:
        if self._supervisor is None:
            raise StackError("the stack was not entered")
        return self._supervisor

    async def _stop_coming_up(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _come_up(
        self, folder: DataDir, ports: Ports, found: prerequisites.Found, started: Sequence[Service]
    ) -> None:
        supervisor = self._running()
        config, env = self.config, server_environment(os.environ)
        embedded: list[Component] = []
        external: list[Awaitable[None]] = []
        broker: Broker | None = None
        if found.broker is not None:
            broker = embedded_servers.make_broker(folder, found.broker, ports, config.kafka)
            embedded.append(kafka_component(broker, config.kafka, env, folder.logs / "kafka.log"))
        else:
            external.append(self._external_kafka())
        if found.server is not None:
            server = embedded_servers.make_store(folder, found.server, config.store.port)
            log = folder.logs / "store.log"
            embedded.append(store_component(server, env, log, config.store.start_timeout))
        else:
            external.append(self._external_store())
        timeout = SERVICE_START_SECONDS + max(config.kafka.start_timeout, config.store.start_timeout)
        early: list[Component] = []
        late: list[Component] = []
        for one in started:
            component = service_component(
                one,
                self._environment(one.name, found),
                folder.logs / f"{one.name}.log",
                timeout,
                folder.path / "heartbeats",
            )
            (early if one.early else late).append(component)
        # In this order: what is started last is stopped first.
        starting_servers = asyncio.gather(supervisor.start(embedded), *external)
        starting_early = asyncio.gather(supervisor.start(early))
        try:
            await starting_servers
            if broker is not None and broker.security is not None:
                await asyncio.to_thread(embedded_servers.create_users, broker, config)
            await asyncio.to_thread(create_topics, config)
            for line in await asyncio.to_thread(apply, config):
                self._note(line)
            await supervisor.start(late)
            await starting_early
        finally:
            starting_early.cancel()
            await asyncio.gather(starting_early, return_exceptions=True)
        supervisor.set_phase(Phase.READY)

    async def _external_kafka(self) -> None:
        kafka = self.config.kafka
        state = self._running().add_external("kafka", {"kafka": kafka.bootstrap_servers})
        wait = self._waiter("kafka")
        await asyncio.to_thread(wait_for_kafka, kafka, kafka.start_timeout, wait)
        state.state = Phase.READY
        self._listener(Event(EventKind.READY, "kafka", "external", state.addresses))

    async def _external_store(self) -> None:
        store = self.config.store
        names = [f"store-{n}" for n in range(1, len(store.shards) + 1)] or ["store"]
        at = {name: mask_text(address) for name, address in zip(names, store.addresses, strict=True)}
        state = self._running().add_external("store", at)
        wait = self._waiter("store")
        await asyncio.gather(*(wait_for_store(one, store.start_timeout, wait) for one in store.addresses))
        state.state = Phase.READY
        self._listener(Event(EventKind.READY, "store", "external", state.addresses))

    def environment(self, component: str) -> dict[str, str]:
        """The environment of a Python program that runs as a component, without the stack's marks."""
        return {
            **service_environment(component, os.environ, self.config.spark.environment),
            **chosen_settings(self.config, component, secure=self._secure),
        }

    def _environment(self, component: str, found: prerequisites.Found) -> dict[str, str]:
        java = {} if found.java_home is None else {"JAVA_HOME": str(found.java_home)}
        return {**self.environment(component), **java}

    def _note(self, line: str) -> None:
        self._listener(Event(EventKind.NOTE, message=line))

    def _waiter(self, component: str) -> Callable[[str], None]:
        loop = asyncio.get_running_loop()

        def report(line: str) -> None:
            loop.call_soon_threadsafe(self._listener, Event(EventKind.WAITING, component, line))

        return report


def create_topics(config: Config) -> None:
    """Create the commands topic, the topics of feeds with ``create``, and every feed's dead-letter topic."""
    admin = librdkafka.admin(config.kafka)
    commands_topic.ensure_commands_topic(admin, config.kafka)
    for feed in config.feeds:
        if feed.create:
            ensure_topic(admin, feed.topic, feed.partitions)
        ensure_dead_letter_topic(admin, feed.dead_letter_topic)


def apply(config: Config) -> list[str]:
    """Write the configuration's views into the store, and return what was done, in words."""
    writer = open_writer(config.store.addresses, log_length=config.store.log_length)
    try:
        audit = AuditLog.of("up", config)
        user = f"uid {os.getuid()}"

        def defined(view: str) -> None:
            audit.write("define", "ok", user=user, address="", target=view, reason="configuration file")

        return define_views(config, writer, defined)
    finally:
        writer.close()


def _certificates(config: Config) -> list[str]:
    """List the certificates of the servers; raises ConfigError for those that cannot be used."""
    servers = {name: one for name, one in listening_sections(config).items() if one.port}
    for section, server in servers.items():
        Certificates(server, section)
    return list(dict.fromkeys(one.tls_certificate for one in servers.values() if one.tls_certificate))


def _choose_ports(config: Config, ports: Ports) -> Config:
    """The configuration with ports that are free, and the addresses of the embedded servers."""
    kafka, store = config.kafka, config.store
    if not kafka.bootstrap_servers:
        port = ports.choose("kafka", kafka.port)
        embedded_servers.make_logins(config.data_dir, secure=kafka.secure)
        kafka = embedded_kafka(replace(kafka, port=port), f"{HOST}:{port}", config.data_dir)
    if not store.addresses:
        port = ports.choose("store", store.port)
        password = embedded_servers.store_password(config.data_dir)
        store = replace(store, port=port, url=store_url(port, password))
    return ports.choose_for_services(replace(config, kafka=kafka, store=store))
