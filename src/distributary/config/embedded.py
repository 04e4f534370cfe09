"""Where the parts of an embedded stack are when nobody says otherwise."""

from __future__ import annotations

from dataclasses import replace

from distributary.config.loading import Config


def with_embedded(config: Config) -> Config:
    """Fill in the addresses of an embedded Kafka and store, where no others are given."""
    kafka, store = config.kafka, config.store
    if not kafka.bootstrap_servers:
        kafka = replace(kafka, bootstrap_servers=f"127.0.0.1:{kafka.port}")
    if not store.addresses:
        store = replace(store, url=f"redis://127.0.0.1:{store.port}/0")
    return replace(config, kafka=kafka, store=store)
