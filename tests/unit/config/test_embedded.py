"""Addresses that nobody gave are those of an embedded stack."""

from __future__ import annotations

from distributary.config import Config
from distributary.config.embedded import with_embedded
from distributary.config.sections import Kafka, Store


def test_what_is_not_given_is_embedded() -> None:
    found = with_embedded(Config(kafka=Kafka(port=9), store=Store(port=7)))
    assert found.kafka.bootstrap_servers == "127.0.0.1:9"
    assert found.store.addresses == ("redis://127.0.0.1:7/0",)


def test_what_is_given_stays() -> None:
    given = Config(kafka=Kafka(bootstrap_servers="k:1"), store=Store(shards=("redis://a:1", "redis://b:1")))
    assert with_embedded(given) == given
