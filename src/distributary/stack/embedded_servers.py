"""The users of a secure embedded Kafka: their passwords in the data folder, and their rights in Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from distributary.config import Config
from distributary.config.embedded_defaults import SUPER_USER, kafka_secret, new_password, scram_login
from distributary.config.private_files import read_secret, secret_file
from distributary.kafka import admin, broker_security
from distributary.kafka.admin import wait_for_kafka
from distributary.kafka.embedded_broker import Broker

INTERNAL = "internal"
"""The name of the file with the password of the broker's own connections."""
_WITHOUT = ("socketio",)
"""Parts that have no business with Kafka."""
_SECONDS = 20.0


def users() -> tuple[str, ...]:
    """All that `up` makes."""
    return SUPER_USER, *map(broker_security.user_of, broker_security.PARTS)


def make_logins(data_dir: Path, *, secure: bool) -> None:
    """Make the passwords unless they are there; remove them where the broker wants none (any more).

    By them commands know whether it does.
    """
    for user in users():
        if secure:
            secret_file(kafka_secret(data_dir, user), new_password)
        else:
            kafka_secret(data_dir, user).unlink(missing_ok=True)
    if not secure:
        kafka_secret(data_dir, INTERNAL).unlink(missing_ok=True)


def part_login(data_dir: Path, part: str, *, tls: bool = False) -> Mapping[str, str]:
    """The properties that a part logs in with; what is no part of ours runs for the user, who may do all."""
    kind = part.partition("-")[0]  # publisher-2
    if kind in _WITHOUT:
        return {}
    user = broker_security.user_of(kind) if kind in broker_security.PARTS else SUPER_USER
    return scram_login(user, read_secret(kafka_secret(data_dir, user)) or "", tls=tls)


def let_in(broker: Broker, config: Config) -> None:
    """Give the users of the parts their rights and passwords, and wait until all can log in.

    Java's clients give up at the first refusal, so it must have arrived before a part connects.
    """
    passwords = {user: read_secret(kafka_secret(config.data_dir, user)) or "" for user in users()}
    wanted = broker_security.rights(config.kafka.commands_topic, config.gateway.schemas_topic)
    broker_security.provide(admin.connect(broker.own, _SECONDS), wanted, passwords)

    def check(user: str) -> None:
        login = scram_login(user, passwords[user], tls=bool(config.kafka.tls_certificate))
        wait_for_kafka(replace(config.kafka, properties={**config.kafka.properties, **login}), _SECONDS)

    with ThreadPoolExecutor(len(passwords)) as pool:
        list(pool.map(check, passwords))
