"""A gateway reports to its clients what Kafka denies to its own user."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from tests.integration.cli.conftest import Run
from tests.integration.secured.conftest import with_password
from tests.support.secured_kafka import SecuredCluster

from distributary.config import load
from distributary.gateway.__main__ import listen
from distributary.gateway.gateway_app import make_app
from distributary.store.memory_store import MemoryStore

pytestmark = pytest.mark.slow


async def test_denied_topic_is_reported_as_forbidden_not_as_missing(
    secured: SecuredCluster, run: Run, topic: str, tmp_path: Path
) -> None:
    await asyncio.to_thread(run, "acls", "remove", "--principal", "User:ann", "--execute")
    properties = with_password(secured, "ann")
    servers = properties.pop("bootstrap.servers")
    (tmp_path / "distributary.toml").write_text("")
    config = load(tmp_path / "distributary.toml", env={})
    config = replace(config, kafka=replace(config.kafka, bootstrap_servers=servers, properties=properties))
    listener = await listen(make_app(config, MemoryStore().reader), config, 0)
    try:
        url = f"http://127.0.0.1:{listener.port}/topics/{topic}"
        body = {"records": [{"value": "eA=="}]}
        kind = {"Content-Type": "application/vnd.kafka.binary.v2+json"}
        async with aiohttp.ClientSession() as http:
            for request in (http.get(url), http.post(url, json=body, headers=kind)):
                async with request as reply:
                    response = await reply.json()
                assert (reply.status, response["error_code"]) == (403, 40301), response
                assert topic in response["message"]
                assert "acls add" in response["message"]
    finally:
        await listener.stop()
