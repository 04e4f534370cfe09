"""What a publisher counts and reports: JSON for ``status``, Prometheus text for collectors.

The system picks one of the processes that share a port for every connection, so each reports for all of them.
What it reports is what each wrote at its last heartbeat, also of itself: two responses about one process then
never go back in time.
"""

from __future__ import annotations

import json
import os
import socket
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from prometheus_client import Metric

from distributary.httpd.connection_limits import Connections
from distributary.httpd.prometheus_text import Histogram, counter, gauge
from distributary.store.contract import ReaderStore

if TYPE_CHECKING:
    from distributary.publisher.hub.channel import Channel
    from distributary.publisher.hub.hub import Hub


WINDOW = 30.0
"""Percentiles are over the last one to two windows, in seconds."""

BOUNDS: tuple[int, ...] = tuple(sorted({round(1.2**i) for i in range(77)}))
"""Upper limits of the delay's buckets in ms, each about a fifth above the last: 1 ms to 17 minutes."""

PUBLIC = tuple(
    BOUNDS[bisect_left(BOUNDS, ms)] for ms in (1, 2, 5, 10, 20, 50, 100, 250, 500, 1000, 2500, 10_000)
)
"""The limits that the metrics have."""


class Latency:
    """A histogram of delays in ms; recent percentiles, and totals since the start."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0
        self.sum = 0.0
        self._clock = clock
        self._now = [0] * (len(BOUNDS) + 1)
        self._before = [0] * (len(BOUNDS) + 1)
        self._turned = clock()

    def observe_all(self, times: Sequence[int]) -> None:
        """Count records of these times (ms since 1970) as published now."""
        now = self._clock()
        self._turn(now)
        ms = now * 1000
        for at in times:
            delay = ms - at
            self._now[bisect_left(BOUNDS, delay)] += 1
            self.sum += max(0.0, delay)
        self.total += len(times)

    def percentile(self, share: float) -> float | None:
        """Return the delay (ms) that ``share`` of the recent changes did not exceed; None without any."""
        self._turn(self._clock())
        both = [a + b for a, b in zip(self._now, self._before, strict=True)]
        left = sum(both) * share
        if not left:
            return None
        for bound, count in zip((*BOUNDS, BOUNDS[-1]), both, strict=True):
            left -= count
            if left <= 0 and count:
                return float(bound)
        return float(BOUNDS[-1])

    def cumulative(self) -> list[tuple[int, int]]:
        """Return (limit, how many were at or below it) for the public limits, since the start."""
        whole = [a + b + c for a, b, c in zip(self.counts, self._now, self._before, strict=True)]
        return [(bound, sum(whole[: bisect_left(BOUNDS, bound) + 1])) for bound in PUBLIC]

    def _turn(self, now: float) -> None:
        turns = min(2, int((now - self._turned) / WINDOW))
        for _ in range(turns):
            self.counts = [a + b for a, b in zip(self.counts, self._before, strict=True)]
            self._before, self._now = self._now, [0] * (len(BOUNDS) + 1)
        if turns:
            self._turned = now


class Counters:
    """The counters of one process; ``tally`` has those of its connections."""

    def __init__(self, tally: Connections | None = None) -> None:
        self.refused_connections: Counter[str] = tally.refused if tally else Counter()
        self.slow_connections: Counter[str] = tally.timed_out if tally else Counter()
        self.connections = 0
        self.streams = 0
        self.accepted = 0
        self.deliveries = 0
        self.writes = 0
        self.bytes = 0
        self.slow = 0
        self.conflated = 0
        self.dropped = 0
        self.refused_origins = 0
        self.refused_access = 0
        self.pings = 0
        self.publishes = {"written": 0, "refused": 0}
        self.joins = {"snapshot": 0, "recovered": 0, "waiting": 0, "refused": 0}
        self.closes: dict[int, int] = {}
        self.started = time.time()
        self._latencies: dict[str, Latency] = {}

    def latency(self, view: str) -> Latency:
        """Return the histogram of a view; it is kept while the view exists, followed or not."""
        return self._latencies.setdefault(view, Latency())

    def keep(self, views: Collection[str]) -> None:
        """Forget the histograms of all other views: they are gone."""
        self._latencies = {view: found for view, found in self._latencies.items() if view in views}

    def latencies(self) -> Iterable[tuple[str, Latency]]:
        """List the histograms."""
        return self._latencies.items()

    def closed(self, code: int) -> None:
        """Count a connection that was closed from here."""
        self.closes[code] = self.closes.get(code, 0) + 1


SILENT_MS = 15_000


def shared_endpoint(port: int) -> str:
    """Name what sibling processes share: a machine and a port."""
    return f"{socket.gethostname()}:{port}"


async def sibling_stats(store: ReaderStore, endpoint: str) -> dict[str, Mapping[str, Any]]:
    """Read the latest stats of the processes of an endpoint, by their id, without those that are silent."""
    found: dict[str, Mapping[str, Any]] = {}
    for heartbeat in await store.heartbeats():
        if heartbeat.component == "publisher" and heartbeat.age_ms < SILENT_MS:
            try:
                stats = json.loads(heartbeat.stats)
            except ValueError:
                continue
            if isinstance(stats, dict) and stats.get("endpoint") == endpoint:
                found[heartbeat.id] = stats
    return found


MAX_CONFLATED = 1_000
"""How many conflated subscriptions are reported one by one."""


def describe(hub: Hub, stats: Counters, id: str) -> dict[str, Any]:
    """Return all counters and gauges, as values."""
    channels = [channel for follower in hub.followers.values() for channel in follower.channels.values()]
    materialized = [channel.materialized for channel in channels if channel.materialized is not None]
    views = {view: _view(hub, stats, view) for view, _ in stats.latencies()}
    return {
        "id": id,
        "pid": os.getpid(),
        "uptime": round(time.time() - stats.started, 1),
        "connections": stats.connections,
        "streams": stats.streams,
        "accepted": stats.accepted,
        "queries": len(channels),
        "channels": sum(len(channel.encoders) for channel in channels),
        "subscribers": sum(view["subscribers"] for view in views.values()),
        "followers": len(hub.followers),
        "deliveries": stats.deliveries,
        "writes": stats.writes,
        "bytes": stats.bytes,
        "slow": stats.slow,
        "conflated": stats.conflated,
        "dropped": stats.dropped,
        "kept_queries": len(materialized),
        "kept_rows": sum(len(one.rows) for one in materialized),
        "state_bytes": hub.budget.used,
        "joins_waiting": hub.budget.waiting,
        "paced": sum(len(channel.conflated) for channel in channels),
        "pings": stats.pings,
        "refused_origins": stats.refused_origins,
        "refused_access": stats.refused_access,
        "refused_connections": {why: stats.refused_connections[why] for why in ("total", "address")},
        "slow_connections": {what: stats.slow_connections[what] for what in ("head", "body", "write")},
        "joins": dict(stats.joins),
        "publishes": dict(stats.publishes),
        "closes": {str(code): count for code, count in sorted(stats.closes.items())},
        "paces": dict(_conflated(channels)),
        "views": views,
    }


def _conflated(channels: Iterable[Channel]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield how many changes conflated subscriptions were not sent one by one; of very many only some."""
    found = ((subscription, one) for channel in channels for subscription, one in channel.conflated.items())
    for subscription, one in islice(found, MAX_CONFLATED):
        yield subscription.id, {"conflated": one.conflated, "dropped": one.dropped}


def full_stats(hub: Hub, stats: Counters, id: str) -> dict[str, Any]:
    """Return all that another process needs to report for this one: also the whole histograms."""
    delays = {
        view: {"buckets": latency.cumulative(), "sum": latency.sum, "count": latency.total}
        for view, latency in stats.latencies()
    }
    return describe(hub, stats, id) | {"delays": delays}


def _view(hub: Hub, stats: Counters, view: str) -> dict[str, Any]:
    latency = stats.latency(view)
    follower = hub.followers.get(view)
    return {
        "subscribers": len(follower.subscriptions) if follower else 0,
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
    ("streams", "HTTP streams."),
    ("queries", "Queries with a subscriber here."),
    ("channels", "Channel names in use."),
    ("subscribers", "Subscriptions served here."),
    ("followers", "Views whose log is followed."),
    ("kept_queries", "Queries whose rows are materialized for an order or conflation."),
    ("kept_rows", "Rows that are materialized for them."),
    ("paced", "Conflated subscriptions."),
    ("state_bytes", "Bytes of large snapshots and resumes that connections have still to read."),
    ("joins_waiting", "Joins that wait for room in the state budget."),
)
COUNTERS = (
    ("accepted", "WebSocket connections accepted."),
    ("deliveries", "Changes delivered, each to one subscriber."),
    ("writes", "Writes to connections."),
    ("bytes", "Bytes written."),
    ("pings", "Pings sent."),
    ("slow", "Subscribers closed because they read too slowly."),
    ("conflated", "Changes that were not sent because a later one of the same row was."),
    ("dropped", "Changes that were not sent because their row came and went between two sends."),
    ("refused_origins", "Connections refused for their origin."),
    ("refused_access", "Connections, streams and subscriptions refused for their token or key."),
)


OUTCOMES = (
    ("joins", "outcome", "Joins, by outcome."),
    ("publishes", "outcome", "Messages that clients published, by outcome."),
    ("closes", "code", "Connections closed by the publisher, by code."),
    ("refused_connections", "reason", "Connections refused over a limit, by limit."),
    ("slow_connections", "waited_for", "HTTP connections closed because the client was slow."),
)


def families(processes: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    """Create the metric families from the reports of all processes; another version may report less."""
    reports = [({"process": str(one.get("pid", ""))}, one) for one in processes]
    for name, help in GAUGES:
        yield gauge(f"publisher_{name}", help, [(labels, one.get(name, 0)) for labels, one in reports])
    for name, help in COUNTERS:
        yield counter(f"publisher_{name}", help, [(labels, one.get(name, 0)) for labels, one in reports])
    for name, by, help in OUTCOMES:
        counts = [
            ({**labels, by: outcome}, count)
            for labels, one in reports
            for outcome, count in one.get(name, {}).items()
        ]
        yield counter(f"publisher_{name}", help, counts)
    delays = Histogram("publisher_delay_ms", "From a record's time to its publication, in ms.")
    for labels, one in reports:
        for view, delay in one.get("delays", {}).items():
            delays.add(
                {**labels, "view": view}, delay["buckets"], total=round(delay["sum"]), count=delay["count"]
            )
    yield delays.family
