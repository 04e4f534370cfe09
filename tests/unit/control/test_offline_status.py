"""Without the control API, an embedded Kafka and store are found at their ports, with their passwords."""

from __future__ import annotations

from pathlib import Path

from distributary.config import Config, Kafka, Store
from distributary.config.embedded_defaults import kafka_secret, new_password, store_secret
from distributary.config.private_files import secret_file
from distributary.control.offline_status import with_ports
from distributary.stack.ports import Ports


def test_embedded_parts_are_found_at_the_chosen_ports_with_their_passwords(tmp_path: Path) -> None:
    given = Config(Kafka(port=1), Store(port=2), data_dir=tmp_path)
    ports = Ports(tmp_path / "ports.json")
    kafka, store = ports.choose("kafka", 0), ports.choose("store", 0)
    ports.close()
    found = with_ports(given)
    assert found.kafka.bootstrap_servers == f"127.0.0.1:{kafka}"
    assert found.store.url == f"redis://127.0.0.1:{store}/0"
    assert found.kafka.properties == {}
    password = secret_file(store_secret(tmp_path), new_password)
    login = secret_file(kafka_secret(tmp_path, "distributary"), new_password)
    found = with_ports(given)
    assert found.store.url == f"redis://:{password}@127.0.0.1:{store}/0"
    assert login in found.kafka.properties["sasl.jaas.config"]


def test_configured_addresses_are_kept(tmp_path: Path) -> None:
    secret_file(store_secret(tmp_path), new_password)
    secret_file(kafka_secret(tmp_path, "distributary"), new_password)
    given = Config(Kafka(bootstrap_servers="k:1"), Store(url="redis://h:1/0"), data_dir=tmp_path)
    assert with_ports(given) == given
