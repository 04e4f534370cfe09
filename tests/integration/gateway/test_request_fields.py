"""Everything that the gateway accepts has an effect, and everything else is rejected by name.

What it accepts is enumerated from the code; a parameter, field or setting without a case fails.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from confluent_kafka import TopicPartition
from tests.integration.gateway import proxy_field_cases, registry_field_cases
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.field_cases import ODDS, GatewayUnderTest
from tests.integration.gateway.rest_proxy.gateway_client import JSON, GatewayClient
from tests.support.stack import Feeding, RunningStack

from distributary.config import Config
from distributary.gateway.gateway_app import all_routes
from distributary.gateway.request_fields import RequestFields, accepted_fields
from distributary.gateway.rest_proxy import consumer_requests, produce_requests
from distributary.kafka import librdkafka
from distributary.kafka.topics import ensure_topic

ROUTES = [(route.name, route.handler) for route in all_routes()]
CASES = {**registry_field_cases.CASES, **proxy_field_cases.CASES}


def handler_name(handler: Any) -> str:
    return f"{handler.__module__.removeprefix('distributary.gateway.')}.{handler.__name__}"


def accepted_names() -> dict[str, set[str]]:
    """Every name that has an effect, by the handler or object that accepts it."""
    found = {
        handler_name(handler): {*accepted_fields(handler).query, *accepted_fields(handler).body}
        for _, handler in ROUTES
    }
    parts = {
        "RecordV2": produce_requests.RecordV2,
        "Header": produce_requests.Header,
        "Datum": produce_requests.Datum,
    }
    found |= {f"bodies.{name}": set(part.__struct_fields__) for name, part in parts.items()}
    found["bodies.PartitionOffset"] = {
        *consumer_requests.PARTITION_FIELDS,
        *consumer_requests.OFFSET_FIELDS,
        *consumer_requests.COMMIT_FIELDS,
    }
    return {name: names for name, names in found.items() if names}


@pytest.fixture
async def gateway(
    start: Start, settings: Config, stack: RunningStack, feeding: Feeding
) -> AsyncIterator[GatewayUnderTest]:
    topic, admin, log = feeding.topic, stack.admin(), settings.gateway.schemas_topic
    for name in (topic, f"{topic}-w"):
        ensure_topic(admin, name, 2)
    ensure_topic(admin, log, 1, {"cleanup.policy": "compact"})
    for at in range(5):
        stack.produce(topic, [(None, at)], partition=0, timestamp=1_700_000_000_000 + at * 1000)
    consumer = librdkafka.consumer(stack.config.kafka, f"{topic}-group")
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    async with aiohttp.ClientSession() as http:
        gateway = GatewayUnderTest(GatewayClient(await start(), http), http, stack)
        gateway.names = {"topic": topic, "written": f"{topic}-w", "group": f"{topic}-group"}
        await gateway.request("PUT", "/config", {"compatibility": "NONE"})
        ids = {}
        for subject, text in (
            ("a", '"int"'),
            ("a", '"string"'),
            ("a", '"bytes"'),
            ("b", '"int"'),
            ("d", '"int"'),
            ("h", '"int"'),
            ("strict", '"int"'),
            ("rec", ODDS),
            ("{written}-value", '"long"'),
            ("{written}-key", '"int"'),
        ):
            made = await gateway.request("POST", f"/subjects/{subject}/versions", {"schema": text})
            ids[subject] = made.body["id"]
        await gateway.request("PUT", "/config/strict", {"compatibility": "BACKWARD"})
        for path in ("/subjects/a/versions/2", "/subjects/b", "/subjects/h"):
            assert (await gateway.request("DELETE", path)).status == 200
        producer = librdkafka.producer(stack.config.kafka)
        for at in range(3):  # as another registry writes them
            value = {"subject": f"r{at}", "version": 1, "id": 50 + at, "schema": '"a"', "deleted": at == 2}
            value["references"] = [{"name": "a", "subject": "a", "version": 1}]
            key = {"keytype": "SCHEMA", "subject": f"r{at}", "version": 1, "magic": 1}
            producer.produce(log, json.dumps(value), json.dumps(key), 0)
        assert producer.flush(20) == 0
        cluster = (await gateway.request("GET", "/v3/clusters")).body["data"][0]["cluster_id"]
        gateway.names |= {
            "cluster": cluster,
            "rec_id": str(ids["rec"]),
            "value_id": str(ids["{written}-value"]),
            "key_id": str(ids["{written}-key"]),
        }
        yield gateway


def test_every_accepted_name_has_a_case() -> None:
    assert {name: set(cases) for name, cases in CASES.items()} == accepted_names()


async def test_every_accepted_name_has_an_effect(gateway: GatewayUnderTest) -> None:
    failed: dict[str, str] = {}
    done: set[Any] = set()
    for where, cases in CASES.items():
        for name, case in cases.items():
            if case not in done:
                done.add(case)
                try:
                    await case(gateway)
                except Exception as error:
                    failed[f"{where} {name}"] = f"{type(error).__name__} {error}"
    assert not failed, json.dumps(failed, indent=1)


async def test_every_other_name_is_rejected(gateway: GatewayUnderTest) -> None:
    base = await gateway.instance()
    group, name = base.split("/consumers/")[1].split("/instances/")
    gateway.names |= {
        "group": group,
        "instance": name,
        "subject": "d",
        "version": "1",
        "id": "1",
        "partition": "0",
    }
    for address, handler in ROUTES:
        method, _, path = address.partition(" ")
        fields: RequestFields = accepted_fields(handler)
        body: Any = {} if fields.body else None
        for odd in ("nonsense", *fields.ignored):
            refused = await gateway.request(method, f"{path}?{odd}=x", body)
            assert refused.status // 100 == 4, (address, odd, refused)
            assert odd in refused.body["message"], (address, odd, refused)
            if fields.body:
                sent = await gateway.request(method, path, {odd: "x"}, JSON)
                assert sent.status // 100 == 4, (address, odd, sent)
                assert odd in sent.body["message"], (address, odd, sent)
