"""The README and the tutorial, executed: files are written and commands run, on a separate stack."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.clock import LIMIT
from tests.support.doc_blocks import ROOT, Block, blocks, missing

from distributary.stack import orphans, processes, stack_file

TUTORIAL, README, WATCH = "docs/tutorial/first-stream.md", "README.md", "docs/how-to/watch-a-stack.md"
TLS = "docs/how-to/tls.md"

ELSEWHERE = {
    "make demo": "tests/e2e/test_demo.py runs the command behind it, and looks at its page",
    "make test": "it is what runs this test",
    "make setup && . .venv/bin/activate": "make test begins with it; tests/unit/setup has its steps",
}
"""Commands that are not run here, and what covers each."""

DEFAULT_ADDRESSES = {"127.0.0.1:8080": "control", "127.0.0.1:8001": "http"}
"""The default addresses in the pages; a stack beside another one has others."""

CURL_TIMED_OUT = 28  # what curl says when --max-time ended an endless stream


class Running:
    """A running command, with what it has printed so far."""

    def __init__(self, text: str, shell: Shell) -> None:
        self._file = shell.folder / f"printed-{time.monotonic_ns()}"
        with self._file.open("wb") as out:
            self.process = subprocess.Popen(
                ["bash", "-c", text],
                cwd=shell.folder,
                env=shell.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def printed(self) -> str:
        return self._file.read_text(errors="replace")

    def wait_until(self, ready: Callable[[], bool], limit: float) -> None:
        deadline = time.monotonic() + limit * LIMIT
        while not ready():
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.printed()}"
            assert time.monotonic() < deadline, f"not within {limit} s: {self.printed()}"
            time.sleep(0.05)

    def end(self) -> int:
        """Press Ctrl-C, as in a terminal."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(20 * LIMIT)


class Shell:
    """A terminal in an empty folder, in which ``distributary`` and ``python`` are this project's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tools = folder / "tools"
        tools.mkdir()
        for name, words in (("distributary", "-m distributary.cli"), ("python", "")):
            tool = tools / name
            tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            tool.chmod(0o755)
        ours = ("DISTRIBUTARY_CACHE", "DISTRIBUTARY_STORE_SERVER", "DISTRIBUTARY_IVY_SETTINGS")
        env = {k: v for k, v in os.environ.items() if not k.startswith("DISTRIBUTARY_") or k in ours}
        self.env = env | {
            "PATH": f"{tools}{os.pathsep}{env['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONUNBUFFERED": "1",
        }
        self.stack: Running | None = None

    def write(self, block: Block) -> None:
        (self.folder / block.mark.removeprefix("file: ")).write_text(block.text)

    def start(self, block: Block) -> Running:
        text = block.text
        found = stack_file.read(self.folder / ".distributary")
        for usual, name in DEFAULT_ADDRESSES.items():
            if found is not None and name in found.addresses:
                text = text.replace(usual, found.addresses[name].partition("://")[2])
        return Running(text, self)

    def run(self, block: Block) -> str:
        """Run a block to its end; it must succeed."""
        running = self.start(block)
        try:
            code = running.process.wait(60 * LIMIT)
        finally:
            running.end()
        assert code in (0, CURL_TIMED_OUT), f"{block.place}: exit status {code}: {running.printed()}"
        return running.printed()

    def up(self, block: Block) -> None:
        self.stack = self.start(block)

        def ready() -> bool:
            found = stack_file.read(self.folder / ".distributary")
            return found is not None and found.state == "ready"

        self.stack.wait_until(ready, 90)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    one = Shell(tmp_path)
    yield one
    data = tmp_path / ".distributary"
    if one.stack is not None:
        one.stack.end()
    if (data / "stack.id").exists():
        for process in orphans.find((data / "stack.id").read_text().strip(), data):
            process.kill()


class Reader:
    """Executes a page, block by block."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.skipped: list[str] = []
        self._printed = ""
        self._beside: Running | None = None

    def read(self, page: str) -> None:
        found = blocks(page)
        for at, block in enumerate(found):
            self._do(block, found[at + 1 :])

    def _do(self, block: Block, rest: list[Block]) -> None:
        word, _, how = block.mark.partition(": ")
        if word == "file":
            self._write(block)
        elif word == "run":
            self._run(block, how, rest)
        elif word.startswith("shows") and self._printed is not None:
            self._shows(block)

    def _write(self, block: Block) -> None:
        file = self.shell.folder / block.mark.removeprefix("file: ")
        if file.exists():
            assert file.read_text() == block.text, f"{block.place}: the pages differ in {file.name}"
        self.shell.write(block)

    def _run(self, block: Block, how: str, rest: list[Block]) -> None:
        if how == "in the background":
            if self.shell.stack is None:
                self.shell.up(block)
        elif how == "beside the next":
            self._beside = self.shell.start(block)
            first = next(one for one in rest if one.mark.endswith("beside")).text.splitlines()[0]
            beside = self._beside
            beside.wait_until(lambda: not missing(first, beside.printed()), 20)
        elif how == "until it shows":
            deadline = time.monotonic() + 30 * LIMIT
            while missing(rest[0].text, printed := self.shell.run(block), ordered=False):
                assert time.monotonic() < deadline, f"{block.place}: {printed}"
            self._printed = printed
        elif how == "needs curl" and shutil.which("curl") is None:
            self.skipped.append(block.place)
            self._printed = rest[0].text.replace("…", "")
        else:
            self._printed = self.shell.run(block)

    def _shows(self, block: Block) -> None:
        if block.mark.endswith("beside"):
            assert self._beside is not None
            assert self._beside.process.wait(20 * LIMIT) == 0
            self._printed = self._beside.printed()
        lost = missing(block.text, self._printed, ordered=not block.mark.endswith("any order"))
        assert not lost, f"{block.place}: no line {lost!r} in:\n{self._printed}"


def test_every_shell_block_is_run_or_covered_elsewhere() -> None:
    for block in blocks(README) + blocks(TUTORIAL) + blocks(WATCH) + blocks(TLS):
        if block.language == "sh" and not block.mark.startswith("run"):
            for line in block.text.splitlines():
                assert line.partition("#")[0].strip() in ELSEWHERE, f"{block.place}: {line!r} is not run"


@pytest.mark.slow
@pytest.mark.timeout(300 * max(1.0, LIMIT))
def test_shell_blocks_of_the_pages_print_what_they_show(shell: Shell) -> None:
    reader = Reader(shell)
    reader.read(TUTORIAL)
    reader.read(README)
    reader.read(WATCH)
    the_ten_line_subscriber(shell)
    assert shell.stack is not None
    began = time.monotonic()
    assert shell.stack.end() == 0, shell.stack.printed()
    assert time.monotonic() - began < 10 * max(1.0, LIMIT), "the tutorial promises ten seconds"
    stack = json.loads((shell.folder / ".distributary" / "stack.json").read_text())["stack"]
    assert processes.marked(stack) == []
    if reader.skipped:
        pytest.skip(
            f"all else passed, but without curl these blocks were not run: {', '.join(reader.skipped)}"
        )


@pytest.mark.slow
@pytest.mark.timeout(300 * max(1.0, LIMIT))
def test_stack_uses_tls_as_its_page_describes(shell: Shell) -> None:
    reader = Reader(shell)
    reader.read(TLS)
    found = stack_file.read(shell.folder / ".distributary")
    assert found is not None
    schemes = {name: address.partition("://")[0] for name, address in found.addresses.items()}
    assert (schemes["control"], schemes["gateway"], schemes["http"]) == ("https",) * 3
    assert schemes["websocket"] == "wss"
    if reader.skipped:
        pytest.skip(
            f"all else passed, but without curl these blocks were not run: {', '.join(reader.skipped)}"
        )


def the_ten_line_subscriber(shell: Shell) -> None:
    """Check that ``follow.py`` of the README prints the snapshot, then what is produced."""
    assert len((shell.folder / "follow.py").read_text().splitlines()) <= 10
    following = Running("exec python follow.py", shell)
    try:
        following.wait_until(lambda: "snapshot 1 {}" in following.printed(), 20)
        price = '{"market_id": "m1", "price": 1.75}'
        assert Running(f"echo '{price}' | python produce.py", shell).process.wait(20 * LIMIT) == 0
        following.wait_until(lambda: "change m1 {'price': Decimal('1.75')}" in following.printed(), 20)
    finally:
        following.end()
