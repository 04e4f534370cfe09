"""What a publisher says of itself: JSON for ``status``, Prometheus text for collectors."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from distributary.publish.hub import Hub
from distributary.publish.stats import Stats


def describe(hub: Hub, stats: Stats, id: str) -> dict[str, Any]:
    """Say everything, as values."""
    channels = [channel for follower in hub.followers.values() for channel in follower.channels.values()]
    views = {view: _view(hub, stats, view) for view, _ in stats.latencies()}
    return {
        "id": id,
        "pid": os.getpid(),
        "uptime": round(time.time() - stats.started, 1),
        "connections": stats.connections,
        "streams": stats.streams,
        "accepted": stats.accepted,
        "queries": len(channels),
        "channels": sum(len(channel.outlets) for channel in channels),
        "subscribers": sum(view["subscribers"] for view in views.values()),
        "followers": len(hub.followers),
        "deliveries": stats.deliveries,
        "writes": stats.writes,
        "bytes": stats.bytes,
        "slow": stats.slow,
        "refused_origins": stats.refused_origins,
        "joins": dict(stats.joins),
        "closes": {str(code): count for code, count in sorted(stats.closes.items())},
        "views": views,
    }


def _view(hub: Hub, stats: Stats, view: str) -> dict[str, Any]:
    latency = stats.latency(view)
    follower = hub.followers.get(view)
    return {
        "subscribers": len(follower.members) if follower else 0,
        "queries": len(follower.channels) if follower else 0,
        "published": latency.total,
        "epoch": follower.epoch if follower else "",
        "seq": follower.seq if follower else 0,
        "stale": follower.stale if follower else False,
        "e2e_p50_ms": latency.percentile(0.5),
        "e2e_p99_ms": latency.percentile(0.99),
    }


GAUGES = (
    ("connections", "WebSocket connections."),
    ("streams", "SSE streams."),
    ("queries", "Queries with a subscriber here."),
    ("channels", "Channel names in use."),
    ("subscribers", "Subscriptions served here."),
    ("followers", "Views whose log is followed."),
)
COUNTERS = (
    ("accepted", "WebSocket connections accepted."),
    ("deliveries", "Changes delivered, each to one subscriber."),
    ("writes", "Writes to connections."),
    ("bytes", "Bytes written."),
    ("slow", "Subscribers closed because they read too slowly."),
    ("refused_origins", "Connections refused for their origin."),
)


def prometheus(hub: Hub, stats: Stats, id: str) -> str:
    """Write the same as Prometheus text."""
    return "\n".join(_lines(describe(hub, stats, id), stats)) + "\n"


def _lines(said: dict[str, Any], stats: Stats) -> Iterator[str]:
    for name, help in GAUGES:
        yield from _one(f"distributary_publisher_{name}", "gauge", help, said[name])
    for name, help in COUNTERS:
        yield from _one(f"distributary_publisher_{name}_total", "counter", help, said[name])
    yield from _head("distributary_publisher_joins_total", "counter", "Joins by their outcome.")
    for how, count in said["joins"].items():
        yield f'distributary_publisher_joins_total{{outcome="{how}"}} {count}'
    yield from _head(
        "distributary_publisher_closes_total", "counter", "Connections closed from here, by code."
    )
    for code, count in said["closes"].items():
        yield f'distributary_publisher_closes_total{{code="{code}"}} {count}'
    name = "distributary_publisher_delay_ms"
    yield from _head(name, "histogram", "From a record's time to its publication, in ms.")
    for view, latency in stats.latencies():
        label = view.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for bound, count in latency.cumulative():
            yield f'{name}_bucket{{view="{label}",le="{bound}"}} {count}'
        yield f'{name}_bucket{{view="{label}",le="+Inf"}} {latency.total}'
        yield f'{name}_sum{{view="{label}"}} {latency.sum:.0f}'
        yield f'{name}_count{{view="{label}"}} {latency.total}'


def _one(name: str, kind: str, help: str, value: Any) -> Iterator[str]:
    yield from _head(name, kind, help)
    yield f"{name} {value}"


def _head(name: str, kind: str, help: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"
