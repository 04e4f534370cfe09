"""The page of all metrics, from the metric families of the servers.

Each server creates its families with one of everything in it, so that every name, help text and label is the
code's own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import Metric as Family

from distributary.config import Config
from distributary.control import control_metrics
from distributary.control.app_context import Context
from distributary.control.monitor import Monitor
from distributary.control.observation import KafkaObservation, NextRecord
from distributary.model.build import Definition
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.publisher import metrics
from distributary.publisher.codec.codes import SHUTDOWN
from distributary.publisher.hub.hub import Hub
from distributary.publisher.metrics import Counters
from distributary.store.memory_store import MemoryStore

_INTRO = """\
# Metrics

<!-- Made by `python -m distributary.docgen` from src/distributary/control/control_metrics.py and
     src/distributary/publisher/metrics.py. Do not edit. -->

In the Prometheus text format, at `/metrics` of the control API and of every publisher's HTTP port. A
publisher's series have the label `process` (its pid). If `publisher.processes` is over 1, the processes share
that port and the system chooses one for each connection; each responds with the metrics of all of them, at
most 2 seconds old. Publishers on another machine are scraped there.
"""


class Metric(NamedTuple):
    """One metric of a server."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]


def page() -> str:
    """The whole page."""
    servers = {"Control API": control(), "Publisher": publisher()}
    return "\n".join([_INTRO, *(_table(title, describe(families)) for title, families in servers.items())])


def control() -> list[Family]:
    """The families of a control API whose stack has one view."""
    store = MemoryStore()
    definition = Definition(View("odds", "odds"), Feed("odds", "odds"))
    store.writer.define("odds", definition.build, definition.text)
    store.writer.heartbeat("reducers", "1", json.dumps({"views": {"odds": {"build": definition.build}}}))
    return asyncio.run(_control(store))


async def _control(store: MemoryStore) -> list[Family]:
    unused: Any = None
    monitor = Monitor(Config(data_dir=Path("/nonexistent")), store.reader, _Kafka())
    context = Context(Config(), store.reader, store.writer, unused, monitor)
    context.counts["GET /v1", "200"] += 1
    await monitor.observe()
    return await control_metrics.families(context)


class _Kafka:
    """A cluster with one topic that lacks a replica, so that there is an alarm."""

    def observe(self, names: set[str]) -> KafkaObservation:
        return KafkaObservation(under_replicated=("odds-0",), ends={name: {0: 1} for name in names})

    def next_records(self, topic: str, offsets: dict[int, int]) -> dict[int, NextRecord | None]:
        return dict.fromkeys(offsets)


def publisher() -> list[Family]:
    """The families of a publisher that has served one view."""
    stats = Counters()
    stats.closed(SHUTDOWN.code)
    stats.latency("odds")
    hub = Hub(MemoryStore().reader, ttl=60, buffer_bytes=1, stats=stats)
    return list(metrics.families([metrics.full_stats(hub, stats, "1")]))


def describe(families: Iterable[Family]) -> list[Metric]:
    """Describe metric families by their names in the text, and their labels but a histogram's ``le``."""
    return [
        Metric(
            f"{family.name}_total" if family.type == "counter" else family.name,
            family.type,
            family.documentation,
            tuple(name for name in (family.samples[0].labels if family.samples else ()) if name != "le"),
        )
        for family in families
    ]


def _table(title: str, metrics: list[Metric]) -> str:
    return "\n".join([f"## {title}\n", "| name | type | labels | what it counts |", "|---|---|---|---|"]) + (
        "\n" + "".join(_rows(metrics))
    )


def _rows(metrics: list[Metric]) -> Iterator[str]:
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |\n"
