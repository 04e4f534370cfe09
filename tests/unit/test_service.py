"""How a process runs: heartbeat, ready line, signals and exit codes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.clock import LIMIT

from distributary.errors import StoreUnavailable
from distributary.service import HEARTBEAT_FILE, ExitCode, Heartbeat, Service, print_ready, run_service


def test_heartbeat_moves_the_time_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "heartbeats" / "control"
    heartbeat = Heartbeat.from_environment({HEARTBEAT_FILE: str(file)})
    heartbeat.touch()
    os.utime(file, (1, 1))
    heartbeat.touch()
    assert file.stat().st_mtime > 1


def test_heartbeat_without_a_file_does_nothing() -> None:
    Heartbeat.from_environment({}).touch()


def test_heartbeat_does_not_raise_when_the_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Heartbeat(tmp_path / "file" / "not-a-folder").touch()


async def test_heartbeat_pauses_while_the_work_is_not_healthy(tmp_path: Path) -> None:
    file, healthy = tmp_path / "heartbeat", False
    task = asyncio.create_task(Heartbeat(file).run(lambda: healthy))
    await asyncio.sleep(0)
    assert not file.exists()
    healthy = True
    async with asyncio.timeout(10):
        while not file.exists():
            await asyncio.sleep(0.01)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def stop_soon(addresses: Mapping[str, str]) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def test_service_ends_on_a_signal_and_cancels_its_work() -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    async with asyncio.timeout(10 * LIMIT):
        await Service("control", stop_soon).run({}, work())
    assert cancelled.is_set()


async def test_service_raises_the_error_of_its_work() -> None:
    async def work() -> None:
        raise StoreUnavailable("it is gone")

    with pytest.raises(StoreUnavailable):
        await Service("control", lambda addresses: None).run({}, work())


async def test_service_touches_its_heartbeat_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "heartbeat"
    monkeypatch.setenv(HEARTBEAT_FILE, str(file))

    async def until_touched() -> None:
        while not file.exists():
            await asyncio.sleep(0.01)

    async with asyncio.timeout(10 * LIMIT):
        await Service("control", lambda addresses: None).run({}, until_touched())


def test_ready_line_names_the_component_and_its_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    print_ready("control", {"http": "http://x"})
    assert json.loads(capsys.readouterr().out) == {
        "ready": True,
        "component": "control",
        "addresses": {"http": "http://x"},
    }


def test_run_service_prints_an_error_as_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def serve() -> None:
        raise StoreUnavailable("it is gone")

    assert run_service(serve) == ExitCode.FAILED
    assert capsys.readouterr().err.startswith("error: it is gone")
