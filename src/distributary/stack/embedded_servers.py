"""The embedded Kafka and store of a stack: how they are configured, and the logins of a secure Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from distributary.config import Config
from distributary.config.embedded_defaults import (
    SUPER_USER,
    kafka_secret,
    new_password,
    scram_login,
    store_secret,
)
from distributary.config.private_files import read_secret, secret_file, write_private
from distributary.config.sections import Kafka
from distributary.kafka import admin, broker_security
from distributary.kafka.admin import wait_for_kafka
from distributary.kafka.broker_security import BrokerSecurity, pem_keystore
from distributary.kafka.embedded_broker import Broker
from distributary.stack.data_dir import DataDir
from distributary.stack.ports import Ports
from distributary.stack.prerequisites import BrokerTools, ServerTools
from distributary.store.embedded_server import EmbeddedServer

INTERNAL = "internal"
"""The name of the file with the password of the broker's own connections."""
_WITHOUT_KAFKA = ("socketio",)
"""Components that do not connect to Kafka."""
_LOGIN_SECONDS = 20.0


def make_broker(folder: DataDir, tools: BrokerTools, ports: Ports, kafka: Kafka) -> Broker:
    """The embedded broker; ``kafka`` has its address."""
    security = None
    if kafka.secure:
        password = secret_file(kafka_secret(folder.path, INTERNAL), new_password)
        security = BrokerSecurity(ports.choose("kafka-internal", 0), password, _keystore(folder.path, kafka))
    return Broker(
        folder=folder.path / "kafka",
        log=folder.logs / "kafka.log",
        java=tools.java,
        jars=tools.jars,
        port=kafka.port,
        controller_port=ports.choose("kafka-controller", 0),
        broker_id=kafka.broker_id,
        memory=kafka.memory,
        security=security,
    )


def make_store(folder: DataDir, tools: ServerTools, port: int) -> EmbeddedServer:
    """The embedded store server."""
    return EmbeddedServer(folder.path / "store", tools.program, tools.kind, port, store_password(folder.path))


def store_password(data_dir: Path) -> str:
    """The password of the embedded store, which is created at its first start."""
    return secret_file(store_secret(data_dir), new_password)


def users() -> tuple[str, ...]:
    """All users of a secure Kafka that `up` creates."""
    return SUPER_USER, *map(broker_security.user_of, broker_security.COMPONENTS)


def make_logins(data_dir: Path, *, secure: bool) -> None:
    """Create the missing passwords; for a broker without authentication, remove those that are there.

    Commands recognize a secure broker by these files.
    """
    for user in users():
        if secure:
            secret_file(kafka_secret(data_dir, user), new_password)
        else:
            kafka_secret(data_dir, user).unlink(missing_ok=True)
    if not secure:
        kafka_secret(data_dir, INTERNAL).unlink(missing_ok=True)


def component_login(data_dir: Path, component: str, *, tls: bool = False) -> Mapping[str, str]:
    """The properties that a component logs in with.

    A program that is not a component of the stack runs for the user, and logs in as the super user.
    """
    kind = component.partition("-")[0]  # publisher-2
    if kind in _WITHOUT_KAFKA:
        return {}
    user = broker_security.user_of(kind) if kind in broker_security.COMPONENTS else SUPER_USER
    return scram_login(user, read_secret(kafka_secret(data_dir, user)) or "", tls=tls)


def create_users(broker: Broker, config: Config) -> None:
    """Give the users of the components their ACLs and passwords, and wait until all can log in.

    Java's clients give up at the first refusal, so both must have arrived before a component connects.
    """
    passwords = {user: read_secret(kafka_secret(config.data_dir, user)) or "" for user in users()}
    acls = broker_security.component_acls(config.kafka.commands_topic, config.gateway.schemas_topic)
    broker_security.apply_acls(admin.connect(broker.own, _LOGIN_SECONDS), acls, passwords)

    def check(user: str) -> None:
        login = scram_login(user, passwords[user], tls=bool(config.kafka.tls_certificate))
        kafka = replace(config.kafka, properties={**config.kafka.properties, **login})
        wait_for_kafka(kafka, _LOGIN_SECONDS)

    with ThreadPoolExecutor(len(passwords)) as pool:
        list(pool.map(check, passwords))


def _keystore(data_dir: Path, kafka: Kafka) -> Path | None:
    """Write the file that Kafka reads its certificate from: the key and the chain. None without TLS."""
    path = data_dir / "secrets" / "kafka-tls.pem"
    if not kafka.tls_certificate:
        path.unlink(missing_ok=True)
        return None
    write_private(path, pem_keystore(kafka.tls_certificate, kafka.tls_key))
    return path
