"""The demo as a user sees it: one command, a first change soon, a page on which odds move."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.webdriver import browser, chromium
from tests.support.clock import LIMIT
from tests.support.stack import AttachedStack, Feeding
from tests.support.up_command import Up

from distributary.demo.demo_run import CONFIG
from distributary.stack import orphans, processes, stack_file

FIRST_CHANGE = 30.0
"""Seconds from the command to the first change on the screen."""


class Demo:
    """A running command; ``event`` waits for what it prints."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._printed: list[dict[str, Any]] = []

    async def event(self, name: str, limit: float) -> dict[str, Any]:
        """Wait for the next event of that name."""
        assert self.process.stdout is not None
        async with asyncio.timeout(limit * LIMIT):
            while True:
                line = await self.process.stdout.readline()
                assert line, f"the demo ended with {await self.process.wait()}; it printed {self._printed}"
                self._printed.append(json.loads(line))
                if self._printed[-1]["event"] == name:
                    return self._printed[-1]


async def command(folder: Path, *words: str) -> asyncio.subprocess.Process:
    """Start a command in a folder, on a machine where no other stack of this user runs."""
    alone = folder.parent / f"{folder.name}-tmp"
    alone.mkdir(exist_ok=True)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "import sys; from distributary.cli.main import main; sys.exit(main())"),
        *words,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(alone)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )


@contextlib.asynccontextmanager
async def demo(folder: Path) -> AsyncIterator[Demo]:
    process = await command(folder, "demo", "--json")
    try:
        yield Demo(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        data = folder / ".distributary" / "demo"
        if (data / "stack.id").exists():  # a test that failed leaves nothing either
            for left in orphans.find((data / "stack.id").read_text().strip(), data):
                left.kill()


@pytest.mark.latency
async def test_demo_page_shows_moving_odds_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    async with demo(tmp_path) as running:
        page = await running.event("page", 60)
        first = await running.event("first-change", 60)
        assert first["seconds"] < FIRST_CHANGE * LIMIT
        status = await command(tmp_path, "status", "--json")
        found = json.loads((await status.communicate())[0])
        assert "odds" in {view["name"] for view in found["views"]}, "a command without options finds the demo"
        if chromium() is None:
            pytest.skip("chromium is not installed (Debian: apt-get install chromium chromium-driver)")
        async with browser(tmp_path / "profile") as window:
            await window.open(page["page"])
            await window.until("document.querySelectorAll('#list button').length > 3")
            await window.click("#list button:nth-of-type(1)")
            await window.until("document.querySelectorAll('.selection').length > 2")
            # The tape has an entry: a price of this match changed meanwhile, and its delay is shown.
            await window.until("document.querySelector('#tape .took')")
            assert await window.errors() == []
        figures = await running.event("figures", 20)
        assert figures["changes"] > 0
        running.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(15 * LIMIT):
            assert await running.process.wait() == 0
    found = stack_file.read(tmp_path / ".distributary" / "demo")
    assert found is not None
    assert list(processes.marked(found.stack)) == []


async def test_rows_of_ended_matches_are_removed_without_dead_letters(tmp_path: Path) -> None:
    up = Up(tmp_path, CONFIG.read_text())
    try:
        up.start()
        stack = AttachedStack(tmp_path)
        feeding = Feeding(stack)
        producer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "distributary.demo.demo_producer", "--matches", "3"),
            cwd=tmp_path,
            env={**os.environ, "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS": stack.config.kafka.bootstrap_servers},
        )
        try:
            async with asyncio.timeout(30 * LIMIT):
                while len(await feeding.rows("matches")) < 3 or not await feeding.rows("odds"):
                    await asyncio.sleep(0.1)
        finally:
            producer.terminate()  # it ends all of its matches
            assert await producer.wait() == 0
        await feeding.rows_become("matches", {})
        await feeding.rows_become("odds", {})
        for view in ("matches", "odds"):
            assert (await feeding.until(view, lambda status: status["lag"] == 0))["dead_letters"] == 0
    finally:
        up.stop()
