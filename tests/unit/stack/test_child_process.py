"""One process: its ready line is used, the rest of its output goes to its log."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.support.clock import LIMIT
from tests.support.fake_components import launch

from distributary.service import describe_exit
from distributary.stack.child_process import Child, log_tail, rotate_log, run_to_end

TALKS = """
import sys
print('{"ready": maybe}')
print('{"ready": true, "component": "x", "addresses": {"http": "http://a"}}')
print("and more")
print("to stderr", file=sys.stderr)
sys.stdout.write("no end of line")
"""


async def test_child_takes_the_ready_line_and_logs_all_other_output(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = await Child.start(launch(TALKS), log, announces=True)
    assert await asyncio.wait_for(child.ready_line, 10 * LIMIT) == {"http": "http://a"}
    assert await child.wait() == 0
    assert child._reading is not None
    await child._reading
    await child.close()
    logged = log.read_text()
    assert '{"ready": true' not in logged
    for part in ('{"ready": maybe}', "and more", "to stderr", "no end of line"):
        assert part in logged


async def test_child_runs_on_when_its_log_cannot_be_written() -> None:
    script = """
for n in range(20_000):
    print("a line that nobody keeps", n)
print('{"ready": true, "component": "x", "addresses": {}}')
"""
    child = await Child.start(launch(script), Path("/dev/full"), announces=True)
    assert await asyncio.wait_for(child.ready_line, 10 * LIMIT) == {}
    assert await asyncio.wait_for(child.wait(), 10 * LIMIT) == 0
    await child.close()


async def test_end_of_child_is_seen_while_a_descendant_holds_its_output_open(tmp_path: Path) -> None:
    script = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    log = tmp_path / "log"
    child = await Child.start(launch(script), log, announces=True)
    assert await asyncio.wait_for(child.wait(), 10 * LIMIT) == 0
    async with asyncio.timeout(10 * LIMIT):
        while not log.read_text().strip():
            await asyncio.sleep(0.01)
    os.kill(int(log.read_text()), 9)
    await child.close()


async def test_cancelled_preparation_is_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    task = asyncio.create_task(run_to_end(launch(script), tmp_path / "log"))
    async with asyncio.timeout(10 * LIMIT):
        while not (pid_file.exists() and pid_file.read_text()):
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_exit_code_is_described_in_words() -> None:
    assert describe_exit(3) == "ended with exit code 3"
    assert describe_exit(-9) == "was killed by SIGKILL"
    assert describe_exit(-99) == "was killed by signal 99"


async def test_files_that_a_child_creates_are_private(tmp_path: Path) -> None:
    script = f"open({str(tmp_path / 'made')!r}, 'w').close()"
    before = os.umask(0)
    try:
        assert await run_to_end(launch(script), tmp_path / "log") == 0
    finally:
        os.umask(before)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600


def test_tail_returns_the_last_lines_since_an_offset(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"{n}\n" for n in range(100)))
    assert log_tail(log, 3) == ["97", "98", "99"]
    mark = log.stat().st_size
    with log.open("a") as file:
        file.write("new\n")
    assert log_tail(log, 3, since=mark) == ["new"]


def test_tail_of_a_rotated_log_starts_at_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert log_tail(log) == []
    log.write_text("short\n")
    assert log_tail(log, since=10_000) == ["short"]


def test_tail_reads_only_the_end_of_a_huge_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\xff" * 1_000_000 + b"\nlast\n")
    assert log_tail(log, 1) == ["last"]


def test_large_log_is_rotated(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("12345")
    rotate_log(log, 5)
    assert log.exists()
    rotate_log(log, 4)
    assert not log.exists()
    assert (tmp_path / "log.1").read_text() == "12345"
