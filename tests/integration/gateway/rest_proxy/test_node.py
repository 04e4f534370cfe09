"""The npm client kafka-rest 0.0.5, unmodified, with its own examples: version 1, binary and Avro."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from tests.integration.gateway.conftest import Start
from tests.support.clock import LIMIT
from tests.support.stack import Feeding, RunningStack

from distributary.kafka.topics import ensure_topic

EXAMPLES = Path(__file__).parents[3] / "node" / "node_modules" / "kafka-rest" / "examples"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not EXAMPLES.is_dir(),
    reason="node or its packages are not installed (make node-deps)",
)

SCHEMA = {"type": "record", "name": "Line", "fields": [{"name": "text", "type": "string"}]}


async def example(name: str, *args: str, lines: str = "") -> str:
    """Run one of the client's examples and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        "node", str(EXAMPLES / f"{name}.js"), *args,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = await asyncio.wait_for(process.communicate(lines.encode()), 30 * LIMIT)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_metadata_example_prints_the_topic(url: str, stack: RunningStack, feeding: Feeding) -> None:
    ensure_topic(stack.admin(), feeding.topic, 2)
    output = await example("metadata", "--url", url)
    assert "Broker{id=" in output
    assert f'Topic{{name="{feeding.topic}"}}' in output
    assert "Getting single partition" in output
    assert "Failed" not in output


@pytest.mark.parametrize("prefix", ["", "/rest"])
async def test_console_consumer_reads_what_the_console_producer_wrote(
    start: Start, stack: RunningStack, feeding: Feeding, prefix: str
) -> None:
    url = await start(advertised_url=f"http://127.0.0.1{prefix}" if prefix else "")
    ensure_topic(stack.admin(), feeding.topic, 1)
    common = ("--url", url + prefix, "--topic", feeding.topic, "--format", "binary")
    lines = "one\ntwo é\nthree\n"
    assert "Finished sending 3 messages" in await example("console_producer", *common, lines=lines)
    # The example sends each line separately without waiting, so they may arrive in any order.
    assert {one.value() for one in stack.read(feeding.topic, 3)} == {b"one", "two é".encode(), b"three"}
    output = await example("console_consumer", *common, "--from-beginning", "--message-limit", "3")
    assert set(output.splitlines()[1:4]) == {"one", "two é", "three"}
    assert "Shutdown cleanly." in output


async def test_console_examples_write_and_read_avro(url: str, stack: RunningStack, feeding: Feeding) -> None:
    ensure_topic(stack.admin(), feeding.topic, 1)
    common = ("--url", url, "--topic", feeding.topic)
    lines = "".join(json.dumps({"text": text}) + "\n" for text in ("one", "two"))
    output = await example("console_producer", *common, "--value-schema", json.dumps(SCHEMA), lines=lines)
    assert "Error" not in output
    assert {one.value() for one in stack.read(feeding.topic, 2)} == {b"\0\0\0\0\1\6one", b"\0\0\0\0\1\6two"}
    output = await example("console_consumer", *common, "--from-beginning", "--message-limit", "2")
    assert set(output.splitlines()[1:3]) == {'{"text":"one"}', '{"text":"two"}'}
    assert "Shutdown cleanly." in output
