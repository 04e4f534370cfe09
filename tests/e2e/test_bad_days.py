"""Faults of a machine: a clock that jumps by an hour, and a full disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import support
from tests.support.clock import LIMIT
from tests.support.stack_under_load import SETTINGS, StackUnderLoad
from tests.support.up_command import Up

from distributary.kafka import librdkafka
from distributary.kafka.topics import ensure_topic

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400 * LIMIT)]

NAMED, GONE = 15.0, 15.0
ALIVE = 45.0
"""Seconds from free space to a live stack: a component that failed often is restarted after a pause."""
LASTING = """
[[views]]
name = "lasting"
feed = "events"
ttl = "30 min"
"""


async def ready(up: Up) -> StackUnderLoad:
    scene = StackUnderLoad(up)
    await scene.feeding.live("sums", "realtime")
    await scene.no_alarm(60)
    return scene


class Clock:
    """The wall clock of all processes of a stack."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("there is no C compiler (make faults installs one on Debian as root)")
        source, library = Path(support.__file__).with_name("jumping_clock.c"), folder / "jumping_clock.so"
        subprocess.run(
            [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True
        )
        self._file = folder / "clock"
        self._file.write_bytes(bytes(8))
        self.env = {"LD_PRELOAD": str(library), "LD_JUMPING_CLOCK": str(self._file)}

    def set(self, seconds: int) -> None:
        with self._file.open("r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder))


async def test_clock_that_jumps_an_hour_restarts_nothing_and_rows_stay_exact(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    up = Up(tmp_path, SETTINGS + LASTING, clock.env)
    try:
        up.start()
        scene = await ready(up)
        await scene.feeding.live("lasting", "realtime")
        pids = {name: component["pid"] for name, component in up.components().items()}
        workers = up.jvm(), up.daemon()
        async with scene.flowing() as flow:
            for jump in (3600, 0):
                before = await scene.feeding.rows("lasting")
                assert before
                clock.set(jump)
                await flow.goes_on(scene, 15, f"after the clock was set to {jump:+d} s")
                await scene.no_alarm(GONE)
                await flow.goes_on(scene, 5, "later")
            # Rows expire by the store's clock, and continue to after it was set back.
            clock.set(1_900)

            async def renewed() -> bool:
                return bool(await scene.feeding.rows("lasting"))

            await scene.until(renewed, 15, "rows that are written again live on")
        assert {name: component["pid"] for name, component in up.components().items()} == pids
        assert (up.jvm(), up.daemon()) == workers
        clock.set(3_800)  # no record is written after this

        async def over() -> bool:
            return not await scene.feeding.rows("lasting")

        await scene.until(over, 15, "rows end by the store's clock")
    finally:
        up.stop()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of 400 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    folder.mkdir(parents=True, exist_ok=True)
    # A data folder must be private; a mount without a mode is accessible to all.
    options = "size=400m,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "distributary-test", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> Path:
    """Fill the free space."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        chunk = bytes(1 << 20)
        try:
            while True:
                file.write(chunk)
        except OSError:
            pass
    assert shutil.disk_usage(disk).free < 4096
    return ballast


def refused(scene: StackUnderLoad) -> bool:
    """Whether a record that is produced now is not acknowledged."""
    reports: list[Any] = []
    producer = librdkafka.producer(scene.stack.config.kafka, message_timeout_ms=3_000)
    producer.produce("other", b"{}", on_delivery=lambda error, _: reports.append(error))
    assert producer.flush(10) == 0
    return reports[0] is not None


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("kafka", {"kafka-unreachable", "part-restarting", "part-silent"}),
        ("store", {"store-read-only", "store-unreachable"}),
        (".", {"kafka-unreachable", "store-read-only", "store-unreachable", "part-restarting"}),
    ],
)
async def test_full_disk_is_named_and_no_acknowledged_record_is_lost(
    tmp_path: Path, where: str, names: set[str]
) -> None:
    folder = tmp_path / ".distributary"
    folder.mkdir(mode=0o700)
    with small_disk(folder / where) as disk:
        up = Up(tmp_path, SETTINGS)
        try:
            up.start()
            scene = await ready(up)
            ensure_topic(scene.stack.admin(), "other", 1)
            async with scene.flowing() as flow:
                seen: dict[str, str] = {}
                ballast = fill(disk)
                began = time.monotonic()

                async def named() -> bool:
                    seen.update({alarm["name"]: alarm["text"] for alarm in await scene.alarms()})
                    return bool(names & seen.keys()) and "disk-nearly-full" in seen

                took = await scene.until(named, NAMED, f"{sorted(names)}, of {seen}")
                if where != "store":
                    assert await asyncio.to_thread(refused, scene)
                await scene.until(lambda: _later(began, 20), 30, "full for 20 s")
                ballast.unlink()
                began = time.monotonic()
                await flow.goes_on(scene, ALIVE, f"{where} has room")
                print(f"{where}: named {took:.1f} s, live again {time.monotonic() - began:.1f} s", seen)
                await scene.no_alarm(GONE)
        finally:
            up.stop()


async def _later(began: float, seconds: float) -> bool:
    return time.monotonic() - began > seconds
