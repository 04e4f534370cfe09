"""The gateway as the stack runs it, and as a command."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
import uuid
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from tests.integration.gateway.conftest import Start
from tests.support.clock import LIMIT
from tests.support.processes import Process
from tests.support.servers import free_port
from tests.support.stack import Feeding, RunningStack

from distributary import __version__
from distributary.config import Config
from distributary.gateway.gateway_app import all_routes
from distributary.gateway.rest_proxy import metadata_client
from distributary.kafka.topics import ensure_topic

ROOT = Path(__file__).parents[3]


def env(stack: RunningStack, **more: str) -> dict[str, str]:
    return {
        "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS": stack.config.kafka.bootstrap_servers,
        "DISTRIBUTARY_STORE_URL": stack.config.store.url,
        "DISTRIBUTARY_GATEWAY_SCHEMAS_TOPIC": f"schemas-{uuid.uuid4().hex[:10]}",
        **more,
    }


async def test_process_ends_soon_while_requests_wait(
    stack: RunningStack, feeding: Feeding, tmp_path: Path
) -> None:
    ensure_topic(stack.admin(), feeding.topic, 1)
    port = str(free_port())
    process = await asyncio.to_thread(
        Process, "distributary.gateway", env(stack, DISTRIBUTARY_GATEWAY_PORT=port), tmp_path / "log"
    )
    assert (process.component, process.addresses) == ("gateway", {"http": f"http://127.0.0.1:{port}"})
    url = process.addresses["http"]
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{url}/consumers/{feeding.topic}", json={}) as reply:
            base = (await reply.json())["base_uri"]
        async with http.post(f"{base}/subscription", json={"topics": [feeding.topic]}) as reply:
            assert reply.status == 204
        stream = await http.get(f"{url}/v1/topics/{feeding.topic}/stream")
        assert await stream.content.readline()
        waiting = asyncio.create_task(http.get(f"{base}/records?timeout=60000"))
        async with http.get(f"{url}/readyz") as reply:
            assert reply.status == 200
        status, seconds = await asyncio.to_thread(process.stop)
        assert (status, seconds < 5 * LIMIT) == (0, True), seconds
        answered = (await asyncio.gather(waiting, return_exceptions=True))[0]
        assert isinstance(answered, BaseException) or await answered.json() == []
        stream.close()


def test_command_starts_a_gateway(stack: RunningStack, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "distributary.cli", "gateway"]
    port = str(free_port())
    with subprocess.Popen(
        [*command, "--port", port],
        env={**os.environ, **env(stack)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(f"gateway ready at http://127.0.0.1:{port}, for Kafka at ")
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(10 * LIMIT) == 0


async def test_root_lists_the_apis(start: Start) -> None:
    url = await start(advertised_url="https://kafka.example.com/rest")
    async with aiohttp.ClientSession() as http:
        for path in ("/", "/rest", "/rest/"):
            async with http.get(url + path, headers={"Accept": "*/*"}) as reply:
                assert (reply.status, reply.content_type) == (200, "application/json")
                text = await reply.text()
                description = json.loads(text)
                assert text.endswith("}\n")
            assert (description["name"], description["version"]) == ("distributary gateway", __version__)
            for api in description["apis"]:
                assert (ROOT / api["docs"].partition("#")[0]).is_file(), api
                assert {"name", "paths", "docs"} == set(api)
                for address in api["paths"]:
                    served = [route.name for route in all_routes() if route.path.startswith(address)]
                    assert served, address


async def test_unreachable_kafka_is_reported_with_its_address(
    start: Start, settings: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_client, "_TIMEOUT", 0.5)
    away = replace(settings, kafka=replace(settings.kafka, bootstrap_servers="127.0.0.1:1"))
    async with aiohttp.ClientSession() as http, http.get(f"{await start(away)}/brokers") as reply:
        body = await reply.json()
        assert (reply.status, body["error_code"]) == (500, 50003)
        assert "127.0.0.1:1" in body["message"]


def test_stack_starts_a_gateway(stack: RunningStack) -> None:
    """It serves a plain client, such as a script on the machine."""
    with urllib.request.urlopen(f"{stack.addresses['gateway']}/brokers", timeout=20 * LIMIT) as reply:
        assert json.load(reply)["brokers"]
