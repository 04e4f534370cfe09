"""A whole stack as one value: ``async with Stack(config) as stack: await stack.wait_ready()``."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from distributary.auth.audit import Audit
from distributary.auth.stack_token import make_token
from distributary.config import Config
from distributary.config.embedded_defaults import (
    HOST,
    embedded_kafka,
    kafka_secret,
    new_password,
    store_secret,
    store_url,
)
from distributary.config.exposed import exposed_warning
from distributary.config.private_files import secret_file, write_private
from distributary.config.secrets import mask_text
from distributary.config.sections import Kafka
from distributary.config.server_sections import Listening
from distributary.errors import StackError
from distributary.httpd.certificates import Certificates
from distributary.kafka import commands_topic, librdkafka
from distributary.kafka.admin import wait_for_kafka
from distributary.kafka.broker_security import Guard, pem_keystore
from distributary.kafka.embedded_broker import Broker
from distributary.kafka.outgoing_record import ensure_dead_letter_topic
from distributary.kafka.topics import ensure_topic
from distributary.stack import orphans, prerequisites, process_environment, running_stacks
from distributary.stack.component import Event, Listener, Part, guarded
from distributary.stack.data_dir import DataDir
from distributary.stack.define_views import define_views
from distributary.stack.embedded_servers import INTERNAL, let_in, make_logins, part_login
from distributary.stack.ports import Ports
from distributary.stack.process_keeper import Policy
from distributary.stack.stack_components import Service, kafka_part, service_part, services, store_part
from distributary.stack.stack_file import StackState
from distributary.stack.supervisor import Supervisor
from distributary.store.embedded_server import Server, wait_for_store
from distributary.store.store_factory import open_writer

SERVICE_LIMIT = 120.0
"""Seconds that a Python service may take to be ready once Kafka and the store are: Spark starts a JVM."""


class Stack:
    """Runs the parts of a configuration in its data folder, from entering to leaving.

    Where the configuration names a Kafka or a store, those are waited for and none is started. ``services``
    replaces the Python parts. ``say`` hears of all that happens. Leaving it leaves no process behind.
    """

    def __init__(
        self,
        config: Config,
        *,
        say: Listener = lambda event: None,
        services: Sequence[Service] | None = None,
        policy: Policy | None = None,
    ) -> None:
        self._given = config
        self._say = guarded(say)
        self._services = services
        self._policy = policy
        self._exit = AsyncExitStack()
        self._supervisor: Supervisor | None = None
        self._coming_up: asyncio.Task[None] | None = None
        self._secure = config.kafka.secure and not config.kafka.bootstrap_servers
        self.config = config
        """As given, with the addresses and ports that were chosen, once entered."""

    async def __aenter__(self) -> Stack:
        """Lock the folder, check what the machine needs, end what an earlier run left, and begin to start."""
        try:
            certificates = _certificates(self._given)
            folder = DataDir.open(self._given.data_dir)
            self._exit.callback(folder.close)
            make_token(folder.path)
            running_stacks.enter(folder.id, folder.path)
            self._exit.callback(running_stacks.leave, folder.id)
            if folder.shared:
                self._note(f"other users can look into {folder.path}, which is not yours to change")
            if warning := exposed_warning(self._given):
                self._note(warning)
            await orphans.clear(folder.id, folder.path, self._note)
            wanted = self._services
            if wanted is None:
                wanted = services(self._given.publisher.processes, socketio=bool(self._given.socketio.port))
            found = await asyncio.to_thread(prerequisites.check, self._given, wanted, self._note)
            ports = Ports(folder.path / "ports.json")
            self._exit.callback(ports.close)
            self.config = _choose_ports(self._given, ports)
            self._supervisor = Supervisor(folder.id, folder.path, self._say, self._policy)
            self._supervisor.state.certificates = certificates
            self._supervisor.write()
            self._exit.push_async_callback(self._supervisor.stop)
            self._coming_up = asyncio.create_task(self._come_up(folder, ports, found, wanted))
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
        """Where each part can be reached: ``kafka``, ``store``, ``control``, ``gateway``, ``websocket``, …"""
        return dict(self.state.addresses)

    async def wait_ready(self) -> None:
        """Wait until every part serves; raises what kept one from it."""
        if self._coming_up is None:
            raise StackError("the stack was not entered")
        await asyncio.shield(self._coming_up)

    def kill(self, part: str) -> int:
        """SIGKILL one part's process, to see it come back; returns the pid that it had."""
        return self._running().keeper(part).kill()

    def _running(self) -> Supervisor:
        if self._supervisor is None:
            raise StackError("the stack was not entered")
        return self._supervisor

    async def _stop_coming_up(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _come_up(
        self, folder: DataDir, ports: Ports, found: prerequisites.Found, wanted: Sequence[Service]
    ) -> None:
        supervisor = self._running()
        own: list[Part] = []
        others: list[Awaitable[None]] = []
        broker: Broker | None = None
        if found.broker is not None:
            broker = self._broker(folder, found.broker, ports)
            env, log = process_environment.of_server(os.environ), folder.logs / "kafka.log"
            own.append(kafka_part(broker, self.config.kafka, env, log))
        else:
            others.append(self._external_kafka())
        if found.server is not None:
            own.append(self._store(folder, found.server))
        else:
            others.append(self._external_store())
        waits = SERVICE_LIMIT + max(self.config.kafka.start_timeout, self.config.store.start_timeout)
        beats = folder.path / "heartbeats"
        parts = [
            (one.early, service_part(one, env, folder.logs / f"{one.name}.log", waits, beats))
            for one in wanted
            for env in [self._environment(one.name, found)]
        ]
        # In this order: what is started last is stopped first.
        ground = asyncio.gather(supervisor.start(own), *others)
        early = asyncio.gather(supervisor.start([part for soon, part in parts if soon]))
        try:
            await ground
            if broker is not None and broker.guard is not None:
                await asyncio.to_thread(let_in, broker, self.config)
            await asyncio.to_thread(create_topics, self.config)
            for line in await asyncio.to_thread(apply, self.config):
                self._note(line)
            await supervisor.start([part for soon, part in parts if not soon])
            await early
        finally:
            early.cancel()
            await asyncio.gather(early, return_exceptions=True)
        supervisor.announce("ready")

    def _broker(self, folder: DataDir, tools: prerequisites.BrokerTools, ports: Ports) -> Broker:
        kafka, guard = self.config.kafka, None
        if kafka.secure:
            password = secret_file(kafka_secret(folder.path, INTERNAL), new_password)
            guard = Guard(ports.choose("kafka-internal", 0), password, _keystore(folder.path, kafka))
        return Broker(
            folder.path / "kafka",
            folder.logs / "kafka.log",
            tools.java,
            tools.jars,
            kafka.port,
            ports.choose("kafka-controller", 0),
            kafka.broker_id,
            kafka.memory,
            guard,
        )

    def _store(self, folder: DataDir, tools: prerequisites.ServerTools) -> Part:
        password = _store_password(folder.path)
        server = Server(folder.path / "store", tools.program, tools.kind, self.config.store.port, password)
        env, limit = process_environment.of_server(os.environ), self.config.store.start_timeout
        return store_part(server, env, folder.logs / "store.log", limit)

    async def _external_kafka(self) -> None:
        kafka = self.config.kafka
        part = self._running().external("kafka", {"kafka": kafka.bootstrap_servers})
        wait = self._waiter("kafka")
        await asyncio.to_thread(wait_for_kafka, kafka, kafka.start_timeout, wait)
        part.state = "ready"
        self._say(Event("ready", "kafka", "not ours", part.addresses))

    async def _external_store(self) -> None:
        store = self.config.store
        names = [f"store-{n}" for n in range(1, len(store.shards) + 1)] or ["store"]
        at = {name: mask_text(address) for name, address in zip(names, store.addresses, strict=True)}
        part = self._running().external("store", at)
        wait = self._waiter("store")
        await asyncio.gather(*(wait_for_store(one, store.start_timeout, wait) for one in store.addresses))
        part.state = "ready"
        self._say(Event("ready", "store", "not ours", part.addresses))

    def environment(self, part: str) -> dict[str, str]:
        """What a Python program gets that runs as a part of the stack, but for the stack's mark."""
        config = self.config
        env = {
            **process_environment.of_service(part, os.environ, config.spark.environment),
            "DISTRIBUTARY_DATA_DIR": str(config.data_dir),
            "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS": config.kafka.bootstrap_servers,
            "DISTRIBUTARY_STORE_URL": config.store.url,
            # A comma would end an address.
            "DISTRIBUTARY_STORE_SHARDS": ",".join(one.replace(",", "%2C") for one in config.store.shards),
            "DISTRIBUTARY_CONTROL_PORT": str(config.control.port),
            "DISTRIBUTARY_GATEWAY_PORT": str(config.gateway.port),
            "DISTRIBUTARY_PUBLISHER_PORT": str(config.publisher.port),
            "DISTRIBUTARY_PUBLISHER_HTTP_PORT": str(config.publisher.http_port),
            "DISTRIBUTARY_SOCKETIO_PORT": str(config.socketio.port),
        }
        if config.publisher.static_dir:
            env["DISTRIBUTARY_PUBLISHER_STATIC_DIR"] = config.publisher.static_dir
        if self._secure:
            login = part_login(config.data_dir, part, tls=bool(config.kafka.tls_certificate))
            env["DISTRIBUTARY_KAFKA_PROPERTIES"] = json.dumps({**config.kafka.properties, **login})
        if config.path is not None:
            env["DISTRIBUTARY_CONFIG"] = str(Path(config.path).absolute())
        return env

    def _environment(self, part: str, found: prerequisites.Found) -> dict[str, str]:
        java = {} if found.java_home is None else {"JAVA_HOME": str(found.java_home)}
        return {**self.environment(part), **java}

    def _note(self, line: str) -> None:
        self._say(Event("note", message=line))

    def _waiter(self, part: str) -> Callable[[str], None]:
        loop = asyncio.get_running_loop()

        def say(line: str) -> None:
            loop.call_soon_threadsafe(self._say, Event("waiting", part, line))

        return say


def create_topics(config: Config) -> None:
    """Create the commands topic, the topics of feeds that say so, and every feed's dead-letter topic."""
    admin = librdkafka.admin(config.kafka)
    commands_topic.ensure_commands_topic(admin, config.kafka)
    for feed in config.feeds:
        if feed.create:
            ensure_topic(admin, feed.topic, feed.partitions)
        ensure_dead_letter_topic(admin, feed.dead_letter_topic)


def apply(config: Config) -> list[str]:
    """Write the configuration's views into the store, where the other parts find them; say what was done."""
    writer = open_writer(config.store.addresses, log_length=config.store.log_length)
    try:
        audit = Audit.of("up", config)
        user = f"uid {os.getuid()}"

        def defined(view: str) -> None:
            audit.note("define", "ok", user=user, address="", target=view, reason="configuration file")

        return define_views(config, writer, defined)
    finally:
        writer.close()


def _store_password(data_dir: Path) -> str:
    return secret_file(store_secret(data_dir), new_password)


def _certificates(config: Config) -> list[str]:
    """List the files that servers show; raises ConfigError for those that no part could start with."""
    servers: dict[str, Listening] = {"publisher": config.publisher, "control": config.control}
    servers["gateway"] = config.gateway
    if config.socketio.port:
        servers["socketio"] = config.socketio
    for section, server in servers.items():
        Certificates(server, section)
    return list(dict.fromkeys(one.tls_certificate for one in servers.values() if one.tls_certificate))


def _keystore(data_dir: Path, kafka: Kafka) -> Path | None:
    """Write the file that Kafka reads its certificate from: the key and the chain. None without TLS."""
    path = data_dir / "secrets" / "kafka-tls.pem"
    if not kafka.tls_certificate:
        path.unlink(missing_ok=True)
        return None
    write_private(path, pem_keystore(kafka.tls_certificate, kafka.tls_key))
    return path


def _choose_ports(config: Config, ports: Ports) -> Config:
    """The configuration with ports that are free, and the addresses of the parts that we start."""
    kafka, store, publisher, control = config.kafka, config.store, config.publisher, config.control
    if not kafka.bootstrap_servers:
        port = ports.choose("kafka", kafka.port)
        make_logins(config.data_dir, secure=kafka.secure)
        kafka = embedded_kafka(replace(kafka, port=port), f"{HOST}:{port}", config.data_dir)
    if not store.addresses:
        port = ports.choose("store", store.port)
        store = replace(store, port=port, url=store_url(port, _store_password(config.data_dir)))
    control = replace(control, port=ports.choose("control", control.port, control.host))
    gateway = config.gateway
    gateway = replace(gateway, port=ports.choose("gateway", gateway.port, gateway.host))
    publisher = replace(
        publisher,
        port=ports.choose("publisher", publisher.port, publisher.host),
        http_port=ports.choose("publisher-http", publisher.http_port, publisher.host),
    )
    socketio = config.socketio
    if socketio.port:
        socketio = replace(socketio, port=ports.choose("socketio", socketio.port, socketio.host))
    return replace(
        config,
        kafka=kafka,
        store=store,
        control=control,
        gateway=gateway,
        publisher=publisher,
        socketio=socketio,
    )
