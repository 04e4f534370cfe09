"""The default addresses of the embedded components, and the credentials for them."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

from distributary.config.loader import Config
from distributary.config.private_files import read_secret
from distributary.config.sections import Kafka

HOST = "127.0.0.1"


SUPER_USER = "distributary"
"""The super user of a secure embedded Kafka: `up`, and commands of users who can read the data folder."""


def with_embedded(config: Config) -> Config:
    """Fill in the addresses of the embedded Kafka and store, unless others are configured."""
    kafka, store = config.kafka, config.store
    if not kafka.bootstrap_servers:
        kafka = embedded_kafka(kafka, f"{HOST}:{kafka.port}", config.data_dir)
    if not store.addresses:
        store = replace(store, url=store_url(store.port, read_secret(store_secret(config.data_dir))))
    return replace(config, kafka=kafka, store=store)


def embedded_kafka(kafka: Kafka, address: str, data_dir: Path) -> Kafka:
    """Return the settings for the embedded broker, with the super user's credentials if it is secure."""
    password = read_secret(kafka_secret(data_dir, SUPER_USER))
    login = scram_login(SUPER_USER, password, tls=bool(kafka.tls_certificate)) if password else {}
    return replace(kafka, bootstrap_servers=address, properties={**kafka.properties, **login})


def kafka_secret(data_dir: Path, user: str) -> Path:
    """Return the file with the password of a user of the embedded Kafka; it exists only if that is secure."""
    return data_dir / "secrets" / f"kafka-{user}"


def scram_login(user: str, password: str, *, tls: bool = False) -> dict[str, str]:
    """Return the properties, by their Java names, of a client that logs in by SCRAM, with TLS or without."""
    login = _login("SCRAM-SHA-512", "scram.ScramLoginModule", user, password)
    return login | {"security.protocol": "SASL_SSL"} if tls else login


def plain_login(user: str, password: str) -> dict[str, str]:
    """Return the properties of a client that logs in by PLAIN, as the broker's own connections do."""
    return _login("PLAIN", "plain.PlainLoginModule", user, password)


def _login(mechanism: str, module: str, user: str, password: str) -> dict[str, str]:
    name = f"org.apache.kafka.common.security.{module}"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{name} required username="{user}" password="{password}";',
    }


def store_secret(data_dir: Path) -> Path:
    """Return the file with the password of the embedded store."""
    return data_dir / "secrets" / "store"


def store_url(port: int, password: str | None) -> str:
    """Return the URL of the embedded store."""
    return f"redis://:{password}@{HOST}:{port}/0" if password else f"redis://{HOST}:{port}/0"


def new_password() -> str:
    """Return a random password that needs no escaping in URLs and configuration files."""
    return secrets.token_urlsafe(32)
