"""Counters and delays."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from tests.support.fake_hub import hub_of
from tests.support.fake_view import FakeView

from distributary.httpd.prometheus_text import render
from distributary.publisher import metrics
from distributary.publisher.metrics import SILENT_MS, WINDOW, Latency, shared_endpoint, sibling_stats


def test_percentiles_are_of_recent_windows() -> None:
    clock = [1000.0]
    latency = Latency(lambda: clock[0])
    assert latency.percentile(0.5) is None
    latency.observe_all([1_000_000 - 10] * 98 + [1_000_000 - 900] * 2)
    assert 10 <= (latency.percentile(0.5) or 0) <= 12
    assert 900 <= (latency.percentile(0.99) or 0) <= 1100
    clock[0] += 3 * WINDOW
    assert latency.percentile(0.5) is None
    assert latency.total == 100
    assert dict(latency.cumulative())[latency.cumulative()[-1][0]] == 100


def test_window_change_neither_loses_nor_repeats_counts() -> None:
    clock = [1000.0]
    latency = Latency(lambda: clock[0])
    for _ in range(10):
        latency.observe_all([int(clock[0] * 1000) - 5])
        clock[0] += WINDOW * 0.7
    assert latency.cumulative()[-1][1] == latency.total == 10


def test_delays_out_of_range_are_counted() -> None:
    latency = Latency(lambda: 1000.0)
    latency.observe_all([2_000_000, -10_000_000])
    assert latency.percentile(0.1) == 1.0
    assert latency.total == 2
    assert latency.sum == 11_000_000


async def test_stats_are_of_live_processes_of_the_endpoint() -> None:
    fake_view = FakeView()
    clock = [1000.0]
    fake_view.store.clock = lambda: clock[0]
    here = shared_endpoint(8001)
    await fake_view.reader.heartbeat("publisher", "silent", json.dumps({"endpoint": here}))
    clock[0] += SILENT_MS / 1000
    await fake_view.reader.heartbeat("publisher", "one", json.dumps({"endpoint": here, "pid": 1}))
    await fake_view.reader.heartbeat("publisher", "two", json.dumps({"endpoint": here, "pid": 2}))
    await fake_view.reader.heartbeat("publisher", "far", json.dumps({"endpoint": "elsewhere:8001"}))
    await fake_view.reader.heartbeat("publisher", "old", json.dumps({"pid": 3}))
    await fake_view.reader.heartbeat("publisher", "odd", "nonsense")
    await fake_view.reader.heartbeat("control", "other", json.dumps({"endpoint": here}))
    found = await sibling_stats(fake_view.reader, here)
    assert {id: message["pid"] for id, message in found.items()} == {"one": 1, "two": 2}


async def result(pid: int) -> dict[str, Any]:
    async with hub_of(FakeView()) as hub:
        hub.stats.closed(1009)
        hub.stats.publishes["written"] = 3
        hub.stats.latency('o"dds').observe_all([0])
        message = metrics.full_stats(hub, hub.stats, "id") | {"pid": pid}
        return dict(json.loads(json.dumps(message)))  # as it comes out of the store


async def test_every_series_has_its_process() -> None:
    text = render(metrics.families([await result(11), await result(12)]))
    lines = text.splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert samples
    assert all(re.match(r'\w+\{(.*,)?process="1[12]"(,.*)?\} [\d.e+]+$', line) for line in samples)
    assert len({line.rsplit(" ", 1)[0] for line in samples}) == len(samples)
    assert 'distributary_publisher_closes_total{code="1009",process="12"} 1.0' in lines
    assert 'distributary_publisher_publishes_total{outcome="written",process="11"} 3.0' in lines
    assert 'distributary_publisher_delay_ms_count{process="11",view="o\\"dds"} 1.0' in lines


async def test_metric_is_described_once_with_all_its_samples() -> None:
    text = render(metrics.families([await result(11), await result(12)]))
    seen: list[str] = []
    for line in text.splitlines():
        name = line.split()[2] if line.startswith("#") else re.split(r"[{ ]", line)[0]
        base = re.sub(r"(delay_ms)_(bucket|sum|count)$", r"\1", name)
        if not seen or seen[-1] != base:
            seen.append(base)
    assert len(seen) == len(set(seen))


def test_process_of_another_version_may_report_less() -> None:
    assert 'distributary_publisher_connections{process="7"} 0.0' in render(metrics.families([{"pid": 7}]))


async def test_description_is_json() -> None:
    async with hub_of(FakeView()) as hub:
        message = json.loads(json.dumps(metrics.describe(hub, hub.stats, "id")))
    assert (message["id"], message["pid"], message["publishes"]) == (
        "id",
        os.getpid(),
        {"written": 0, "refused": 0},
    )
