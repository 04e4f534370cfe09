"""The commands of the gateway's how-to pages work as shown."""

from __future__ import annotations

import asyncio
import shutil
import sys

import pytest
from tests.support.clock import LIMIT
from tests.support.doc_blocks import blocks, missing
from tests.support.stack import Feeding, RunningStack

from distributary.kafka.topics import ensure_topic

CURL_TIMED_OUT = 28


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("page", ["docs/how-to/kafka-over-http.md", "docs/how-to/schemas.md"])
async def test_commands_of_a_how_to_page_print_what_it_shows(
    page: str, url: str, stack: RunningStack, feeding: Feeding
) -> None:
    ensure_topic(stack.admin(), feeding.topic, 1)

    def adapt(text: str) -> str:
        """Use the topic, group and gateway of the test."""
        text = text.replace("bets", feeding.topic).replace("audit", f"{feeding.topic}-group")
        text = text.replace(".distributary/token", str(stack.config.data_dir / "token"))
        return text.replace("http://127.0.0.1:8082", url)

    printed, done = "", 0
    for block in blocks(page):
        if block.mark.startswith("run") or block.language == "python":
            command = ["bash", "-c"] if block.language == "sh" else [sys.executable, "-c"]
            process = await asyncio.create_subprocess_exec(
                *command, adapt(block.text), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
            output, _ = await asyncio.wait_for(process.communicate(), 60 * LIMIT)
            printed = output.decode()
            assert process.returncode in (0, CURL_TIMED_OUT), f"{block.place}: {printed}"
            done += 1
        elif block.mark.startswith("shows"):
            assert not missing(adapt(block.text), printed), f"{block.place}: {printed}"
    assert done >= 2
