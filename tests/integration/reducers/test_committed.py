"""Only committed records are folded; gaps in offsets mean nothing (R10)."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Producer
from tests.support.clock import LIMIT
from tests.support.stack import Feeding


def _transact(feeding: Feeding, records: list[tuple[str, dict[str, Any]]], *, commit: bool) -> None:
    address = feeding.stack.config.kafka.bootstrap_servers
    producer = Producer({"bootstrap.servers": address, "transactional.id": f"{feeding.topic}-{commit}"})
    producer.init_transactions(20 * LIMIT)
    producer.begin_transaction()
    for key, value in records:
        producer.produce(feeding.topic, json.dumps(value).encode(), key.encode())
    producer.flush(20 * LIMIT)
    if commit:
        producer.commit_transaction(20 * LIMIT)
    else:
        producer.abort_transaction(20 * LIMIT)


async def test_aborted_records_are_never_seen(feeding: Feeding) -> None:
    live = await feeding.view(reduce="aggregate", aggregates={"n": "sum(n)"}, feed={"partitions": 1})
    await feeding.live(live, engine="realtime")
    _transact(feeding, [("a", {"n": 100})], commit=False)
    _transact(feeding, [("a", {"n": 1}), ("b", {"n": 2})], commit=True)
    _transact(feeding, [("b", {"n": 100})], commit=False)
    feeding.produce([("a", {"n": 10})])
    rows = {"a": {"n": 11}, "b": {"n": 2}}
    await feeding.rows_become(live, rows)
    # Catching up reads them from the start, with another engine.
    later = await feeding.view(reduce="aggregate", aggregates={"n": "sum(n)"}, feed={"partitions": 1})
    await feeding.rows_become(later, rows)
