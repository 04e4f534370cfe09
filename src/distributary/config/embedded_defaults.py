"""Where the parts of an embedded stack are when nobody says otherwise, and how to be let in there."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

from distributary.config.loader import Config
from distributary.config.private_files import read_secret
from distributary.config.sections import Kafka

HOST = "127.0.0.1"


SUPER_USER = "distributary"
"""Who may do all with a secure embedded Kafka: `up`, and the commands of whoever can read the data folder."""


def with_embedded(config: Config) -> Config:
    """Fill in the addresses of an embedded Kafka and store, where no others are given."""
    kafka, store = config.kafka, config.store
    if not kafka.bootstrap_servers:
        kafka = embedded_kafka(kafka, f"{HOST}:{kafka.port}", config.data_dir)
    if not store.addresses:
        store = replace(store, url=store_url(store.port, read_secret(store_secret(config.data_dir))))
    return replace(config, kafka=kafka, store=store)


def embedded_kafka(kafka: Kafka, address: str, data_dir: Path) -> Kafka:
    """The embedded broker at that address: with the super user's login, if it is a secure one."""
    password = read_secret(kafka_secret(data_dir, SUPER_USER))
    login = scram_login(SUPER_USER, password, tls=bool(kafka.tls_certificate)) if password else {}
    return replace(kafka, bootstrap_servers=address, properties={**kafka.properties, **login})


def kafka_secret(data_dir: Path, user: str) -> Path:
    """The file with the password of a user of the embedded Kafka; there is none unless it is secure."""
    return data_dir / "secrets" / f"kafka-{user}"


def scram_login(user: str, password: str, *, tls: bool = False) -> dict[str, str]:
    """The properties, under Java's names, of a client that logs in by SCRAM, over TLS or not."""
    login = _login("SCRAM-SHA-512", "scram.ScramLoginModule", user, password)
    return login | {"security.protocol": "SASL_SSL"} if tls else login


def plain_login(user: str, password: str) -> dict[str, str]:
    """Those of one that logs in by PLAIN, which the broker's own connections use."""
    return _login("PLAIN", "plain.PlainLoginModule", user, password)


def _login(mechanism: str, module: str, user: str, password: str) -> dict[str, str]:
    name = f"org.apache.kafka.common.security.{module}"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{name} required username="{user}" password="{password}";',
    }


def store_secret(data_dir: Path) -> Path:
    """The file with the password of the embedded store."""
    return data_dir / "secrets" / "store"


def store_url(port: int, password: str | None) -> str:
    """Where clients find the embedded store."""
    return f"redis://:{password}@{HOST}:{port}/0" if password else f"redis://{HOST}:{port}/0"


def new_password() -> str:
    """A password that fits into addresses and configuration files as it is."""
    return secrets.token_urlsafe(32)
