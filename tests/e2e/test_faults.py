"""Every process of a stack, killed and stopped: named in time, repaired in time, and no row is wrong.

`make faults` runs the whole table and ten quiet minutes; some of it runs with all tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.clock import LIMIT
from tests.support.load import Load
from tests.support.stack import Feeding
from tests.support.stack_under_load import SETTINGS, Flow, StackUnderLoad
from tests.support.up_command import Up

from distributary.kafka import librdkafka

NAMED, REPAIRED, HUNG = 15.0, 15.0, 15.0
"""Seconds to name a fault, to be live again after a kill, and to detect a hang."""
GONE = 15.0
"""Seconds in which an alarm ends after its cause."""


@dataclass(frozen=True)
class Fault:
    """A process, the signal that it gets, and the alarms that may name the fault."""

    process: str
    number: signal.Signals
    names: tuple[str, ...]
    within: float = REPAIRED

    @property
    def id(self) -> str:
        return f"{self.process}-{self.number.name}"


COMPONENT_ALARMS = ("part-silent", "part-restarting")
VIEW = ("view-restarting", "view-stalled")
KILLED = {
    "worker": (VIEW, 3.0),
    "jvm": (COMPONENT_ALARMS, REPAIRED),
    "reducers": (COMPONENT_ALARMS, REPAIRED),
    "daemon": (COMPONENT_ALARMS, REPAIRED),
    "publisher-1": (COMPONENT_ALARMS, 3.0),
    "control": (COMPONENT_ALARMS, REPAIRED),
    "gateway": (COMPONENT_ALARMS, REPAIRED),
    "socketio": (COMPONENT_ALARMS, REPAIRED),
    "store": (("store-unreachable", *COMPONENT_ALARMS), REPAIRED),
    "kafka": (("kafka-unreachable", *COMPONENT_ALARMS), REPAIRED),
}
FAULTS = [Fault(process, signal.SIGKILL, names, within) for process, (names, within) in KILLED.items()]
FAULTS += [
    Fault(process, signal.SIGSTOP, names, within + HUNG) for process, (names, within) in KILLED.items()
]
SHORT = [fault for fault in FAULTS if fault.id in ("worker-SIGSTOP", "jvm-SIGSTOP", "store-SIGSTOP")]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    one = Up(tmp_path_factory.mktemp("faults"), SETTINGS)
    try:
        one.start()
        yield one
    finally:
        one.stop()


@pytest.fixture
async def scene(up: Up) -> StackUnderLoad:
    one = StackUnderLoad(up)
    await one.feeding.live("sums", "realtime")
    await one.no_alarm(60)
    return one


async def strike(scene: StackUnderLoad, fault: Fault, flow: Flow) -> None:
    """Cause a fault; check that it is named and repaired, and that its alarm ends."""
    pid = await scene.pid(fault.process)
    before = scene.up.components()
    os.kill(pid, fault.number)
    began = time.monotonic()
    seen: set[str] = set()
    ready: set[str] = set()

    async def named() -> bool:
        seen.update(alarm["name"] for alarm in await scene.alarms())
        ready.update(await scene.not_ready())
        return bool(seen & set(fault.names))

    async def back() -> bool:
        component = scene.up.components().get(fault.process)
        return component is None or (
            component["state"] == "ready" and component["pid"] != before[fault.process]["pid"]
        )

    naming = asyncio.create_task(scene.until(named, NAMED, f"{fault.id}: named"))
    try:
        await scene.until(back, fault.within, f"{fault.id}: the component is back")
        await flow.goes_on(scene, fault.within, fault.id)
        repaired = time.monotonic() - began
        assert repaired < fault.within * LIMIT, f"{fault.id}: live again only after {repaired:.1f} s"
    except BaseException:
        naming.cancel()
        raise
    took = {"named": await naming, "repaired": repaired, "gone": await scene.no_alarm(GONE)}
    figures = {what: round(seconds, 1) for what, seconds in took.items()}
    print(f"{time.strftime('%T')} {fault.id} {figures} {sorted(seen)}", flush=True)
    if fault.process != "control":
        assert ready & set(fault.names), f"{fault.id} was not named by /readyz: {ready}"


async def go_through(scene: StackUnderLoad, faults: list[Fault]) -> None:
    """Try all faults, each on a stack that has recovered; failures are printed at once."""
    failures: list[str] = []
    async with scene.flowing() as flow:
        for fault in faults:
            try:
                await strike(scene, fault, flow)
            except AssertionError as error:
                failures.append(str(error))
                print("FAILED", error, flush=True)
                await scene.no_alarm(60)
                await flow.goes_on(scene, 30, f"after {fault.id}")
    assert not failures, failures


@pytest.mark.slow
@pytest.mark.latency
@pytest.mark.timeout(300 * LIMIT)
async def test_hanging_process_is_named_and_restarted(scene: StackUnderLoad) -> None:
    await go_through(scene, SHORT)


@pytest.mark.faults
@pytest.mark.timeout(1_800 * LIMIT)
async def test_every_process_killed_or_suspended_is_named_and_restarted(scene: StackUnderLoad) -> None:
    await go_through(scene, FAULTS)


@pytest.mark.faults
@pytest.mark.timeout(900 * LIMIT)
async def test_ten_minutes_of_normal_operation_raise_no_alarm(scene: StackUnderLoad) -> None:
    """A batch is a minute long; deploys are views that come, change and go."""
    raised: list[Any] = []
    ending = asyncio.Event()

    async def watch() -> None:
        while not ending.is_set():
            raised.extend(await scene.alarms())
            await asyncio.sleep(0.5)

    watching = asyncio.create_task(watch())
    try:
        load = Load(scene.stack, "events", rate=500)
        load.start()
        await asyncio.sleep(180)
        load.stop()
        await asyncio.sleep(120)
        feeding = Feeding(scene.stack)
        load = Load(scene.stack, "events", rate=200)
        load.start()
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            name = await feeding.view(feed={"partitions": 3}, where="n > 3")
            feeding.produce((f"k{n}", {"n": n % 5}) for n in range(500))
            await feeding.view(name=name, feed={"partitions": 3}, where="n > 2", wait=False)
            await feeding.live(name)
            await asyncio.sleep(5)
            await feeding.drop()
            feeding.views.clear()
        load.stop()
        writer = librdkafka.producer(scene.stack.config.kafka, transactional_id="faults")
        writer.init_transactions(30)
        for n in range(30):  # what ends a transaction is no record that waits
            writer.begin_transaction()
            writer.produce("events", json.dumps({"k": f"t{n}", "n": 1}), f"t{n}")
            writer.commit_transaction(30)
            await asyncio.sleep(4)
    finally:
        ending.set()
        await watching
    assert raised == []


def test_fault_table_has_every_component_of_a_stack() -> None:
    from distributary.stack.stack_components import services

    components = {service.name for service in services(2, socketio=True)} - {"publisher-2"}
    assert components | {"kafka", "store", "jvm", "daemon", "worker"} == {fault.process for fault in FAULTS}
