"""Default addresses are those of the embedded stack."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from distributary.config import Config
from distributary.config.embedded_defaults import (
    SUPER_USER,
    kafka_secret,
    new_password,
    scram_login,
    store_secret,
    with_embedded,
)
from distributary.config.private_files import secret_file
from distributary.config.sections import Kafka, Store
from distributary.errors import SecretFileError
from distributary.kafka.property_translation import translate


def test_embedded_addresses_fill_in_missing_ones(tmp_path: Path) -> None:
    found = with_embedded(Config(kafka=Kafka(port=9), store=Store(port=7), data_dir=tmp_path))
    assert found.kafka.bootstrap_servers == "127.0.0.1:9"
    assert found.store.addresses == ("redis://127.0.0.1:7/0",)


def test_configured_addresses_are_kept() -> None:
    given = Config(kafka=Kafka(bootstrap_servers="k:1"), store=Store(shards=("redis://a:1", "redis://b:1")))
    assert with_embedded(given) == given


def test_store_password_is_read_from_the_data_folder(tmp_path: Path) -> None:
    password = secret_file(store_secret(tmp_path), new_password)
    found = with_embedded(Config(store=Store(port=7), data_dir=tmp_path))
    assert found.store.addresses == (f"redis://:{password}@127.0.0.1:7/0",)
    assert urlsplit(found.store.url).password == password
    assert password not in repr(found)


def test_password_that_others_can_read_is_rejected(tmp_path: Path) -> None:
    secret_file(store_secret(tmp_path), new_password)
    store_secret(tmp_path).chmod(0o644)
    with pytest.raises(SecretFileError, match="chmod 600"):
        with_embedded(Config(data_dir=tmp_path))


def test_new_password_needs_no_quotes() -> None:
    for password in {new_password() for _ in range(100)}:
        assert quote(password, safe="") == password
        assert len(password) == 43


def test_kafka_credentials_are_read_from_the_data_folder(tmp_path: Path) -> None:
    given = Config(kafka=Kafka(properties={"linger.ms": "1"}), data_dir=tmp_path)
    assert with_embedded(given).kafka.properties == {"linger.ms": "1"}
    password = secret_file(kafka_secret(tmp_path, SUPER_USER), new_password)
    found = with_embedded(given).kafka
    assert found.properties == {"linger.ms": "1", **scram_login(SUPER_USER, password)}
    assert translate(found.properties).librdkafka["sasl.password"] == password
    assert password not in repr(found)
    theirs = replace(given, kafka=Kafka(bootstrap_servers="k:1"))
    assert with_embedded(theirs).kafka == theirs.kafka, "a cluster of the user's has nothing to do with it"
