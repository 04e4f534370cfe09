"""A heartbeat moves the time of a file, whatever the disk says."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from distributary.service import ENV, Heartbeat


def test_a_beat_moves_the_time_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "beats" / "control"
    heartbeat = Heartbeat.of_process({ENV: str(file)})
    heartbeat.beat()
    os.utime(file, (1, 1))
    heartbeat.beat()
    assert file.stat().st_mtime > 1


def test_without_a_file_nothing_happens() -> None:
    Heartbeat.of_process({}).beat()


def test_a_disk_that_takes_nothing_is_no_reason_to_end(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Heartbeat(tmp_path / "file" / "not-a-folder").beat()


async def test_only_a_loop_whose_work_goes_on_beats(tmp_path: Path) -> None:
    file, works = tmp_path / "beats", False
    task = asyncio.create_task(Heartbeat(file).run(lambda: works))
    await asyncio.sleep(0)
    assert not file.exists()
    works = True
    async with asyncio.timeout(10):
        while not file.exists():
            await asyncio.sleep(0.01)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
