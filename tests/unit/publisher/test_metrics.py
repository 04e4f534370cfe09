"""What a publisher says of itself."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from tests.support.fake_hub import hub_of
from tests.support.fake_view import FakeView

from distributary.publisher import metrics


async def told(pid: int) -> dict[str, Any]:
    async with hub_of(FakeView()) as hub:
        hub.stats.closed(1009)
        hub.stats.publishes["written"] = 3
        hub.stats.latency('o"dds').observe_all([0])
        said = metrics.told(hub, hub.stats, "id") | {"pid": pid}
        return dict(json.loads(json.dumps(said)))  # as it comes out of the store


async def test_every_series_has_its_process() -> None:
    text = metrics.prometheus([await told(11), await told(12)])
    lines = text.splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert samples
    assert all(re.match(r'\w+\{process="1[12]"(,.*)?\} \d+$', line) for line in samples)
    assert len({line.rsplit(" ", 1)[0] for line in samples}) == len(samples)
    assert 'distributary_publisher_closes_total{process="12",code="1009"} 1' in lines
    assert 'distributary_publisher_publishes_total{process="11",outcome="written"} 3' in lines
    assert 'distributary_publisher_delay_ms_count{process="11",view="o\\"dds"} 1' in lines


async def test_a_metric_is_told_of_once_and_its_samples_stand_together() -> None:
    text = metrics.prometheus([await told(11), await told(12)])
    seen: list[str] = []
    for line in text.splitlines():
        name = line.split()[2] if line.startswith("#") else re.split(r"[{ ]", line)[0]
        base = re.sub(r"(delay_ms)_(bucket|sum|count)$", r"\1", name)
        if not seen or seen[-1] != base:
            seen.append(base)
    assert len(seen) == len(set(seen))


def test_a_process_of_another_version_may_say_less() -> None:
    assert 'distributary_publisher_connections{process="7"} 0' in metrics.prometheus([{"pid": 7}])


async def test_describe_is_json() -> None:
    async with hub_of(FakeView()) as hub:
        said = json.loads(json.dumps(metrics.describe(hub, hub.stats, "id")))
    assert (said["id"], said["pid"], said["publishes"]) == ("id", os.getpid(), {"written": 0, "refused": 0})
