"""Estimates how many partitions and brokers a topic needs: arithmetic, each step with its reason. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from distributary.errors import UsageError


@dataclass(frozen=True)
class Load:
    """The load, and what a partition, a consumer and a broker can carry. Sizes in bytes, times in s.

    The defaults are conservative figures for ordinary machines; measure yours (`make bench`) and pass them.
    """

    rate: float
    size: float
    retention: float
    replication: int = 3
    readers: int = 1
    headroom: float = 1.5
    partition_rate: float = 10 << 20
    consumer_rate: float | None = None
    broker_rate: float = 100 << 20
    broker_disk: float = 1 << 40
    disk_fill: float = 0.7
    broker_partitions: int = 4000


class Step(NamedTuple):
    """One line of the arithmetic."""

    what: str
    how: str
    result: str


@dataclass(frozen=True)
class Estimate:
    """What is needed, and how that was calculated."""

    partitions: int
    brokers: int
    disk: float
    steps: tuple[Step, ...]


def estimate_capacity(load: Load) -> Estimate:
    """Estimate partitions, brokers and disk; raises UsageError for invalid figures."""
    _check(load)
    steps: list[Step] = []

    def step(what: str, how: str, result: str) -> None:
        steps.append(Step(what, how, result))

    incoming = load.rate * load.size
    peak = incoming * load.headroom
    step("written", f"{load.rate:,g} records/s x {size(load.size)}", f"{size(incoming)}/s")
    step("at peaks", f"{size(incoming)}/s x {load.headroom:g} headroom", f"{size(peak)}/s")

    by_rate = _up(peak / load.partition_rate)
    step("partitions for the writers", f"{size(peak)}/s / {size(load.partition_rate)}/s", str(by_rate))
    partitions = by_rate
    if load.consumer_rate is not None:
        by_reader = _up(load.rate * load.headroom / load.consumer_rate)
        how = f"{load.rate:,g} records/s x {load.headroom:g} / {load.consumer_rate:,g} records/s"
        step("partitions for the readers", how, str(by_reader))
        partitions = max(by_rate, by_reader)
    step("partitions", "the larger", str(partitions))

    disk = incoming * load.retention * load.replication
    how = f"{size(incoming)}/s x {duration(load.retention)} x {load.replication} replicas"
    step("stored", how, size(disk))
    by_disk = _up(disk / (load.broker_disk * load.disk_fill))
    step(
        "brokers for the disks",
        f"{size(disk)} / ({size(load.broker_disk)} x {load.disk_fill:g} full)",
        str(by_disk),
    )

    moved = peak * (load.replication + load.readers + load.replication - 1)
    how = (
        f"{size(peak)}/s x ({load.replication} written + {load.readers} read + {load.replication - 1} copied)"
    )
    step("moved by all brokers", how, f"{size(moved)}/s")
    by_net = _up(moved / load.broker_rate)
    step("brokers for the traffic", f"{size(moved)}/s / {size(load.broker_rate)}/s", str(by_net))

    replicas = partitions * load.replication
    by_count = _up(replicas / load.broker_partitions)
    how = f"{partitions} x {load.replication} replicas / {load.broker_partitions:,}"
    step("brokers for the partitions", how, str(by_count))
    step("brokers for the replicas", "each on another broker", str(load.replication))
    brokers = max(by_disk, by_net, by_count, load.replication)
    step("brokers", "the largest", str(brokers))
    return Estimate(partitions, brokers, disk, tuple(steps))


def size(value: float) -> str:
    """Format bytes for people, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            return f"{value:,.4g} {unit}"
        value /= 1024
    return f"{value:,.4g} PiB"


def duration(seconds: float) -> str:
    """Format a time for people, in the largest unit in which it is a whole number."""
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:,g} {unit}"
    return f"{seconds:,g} s"


def _up(value: float) -> int:
    # A tiny bit over a whole number is a rounding error.
    return max(1, math.ceil(value - 1e-9))


def _check(load: Load) -> None:
    least = {
        "rate": load.rate,
        "size": load.size,
        "retention": load.retention,
        "partition rate": load.partition_rate,
        "broker rate": load.broker_rate,
        "broker disk": load.broker_disk,
        "consumer rate": 1 if load.consumer_rate is None else load.consumer_rate,
    }
    for name, value in least.items():
        if not 0 < value < float("inf"):
            raise UsageError(f"the {name} is {value:g}", hint="It must be greater than 0")
    if load.replication < 1 or load.broker_partitions < 1 or load.readers < 0:
        raise UsageError("replicas and partitions must be at least 1, readers at least 0")
    if load.headroom < 1:
        raise UsageError(f"a headroom of {load.headroom:g} is less than the load", hint="Give 1 or more")
    if not 0 < load.disk_fill <= 1:
        raise UsageError(f"the disk fill is {load.disk_fill:g}", hint="Give a fraction of 1, such as 0.7")
