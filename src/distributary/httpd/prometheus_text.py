"""Metrics as Prometheus text, written by its client library.

The figures are counted elsewhere, partly in other processes, so a server creates its metric families for
every scrape. No registry of the library is used: the collectors that it registers at import (of the process
and of Python) are not part of the response.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiohttp import web
from prometheus_client import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

PREFIX = "distributary_"

Sample = tuple[Mapping[str, str], float]
"""Labels and value."""


def gauge(name: str, help: str, samples: Iterable[Sample]) -> Metric:
    """Create a gauge; the ``name`` is given without `PREFIX`."""
    return _family("gauge", name, help, "", samples)


def counter(name: str, help: str, samples: Iterable[Sample]) -> Metric:
    """Create a counter; the ``name`` is given without `PREFIX` and ``_total``."""
    return _family("counter", name, help, "_total", samples)


class Histogram:
    """Builds a histogram from cumulative counts."""

    def __init__(self, name: str, help: str) -> None:
        """Create an empty one; the ``name`` is given without `PREFIX`."""
        self.family = Metric(PREFIX + name, help, "histogram")

    def add(
        self, labels: Mapping[str, str], buckets: Iterable[tuple[float, float]], *, total: float, count: float
    ) -> None:
        """Add the samples of some labels; a bucket is an upper bound and the number of values up to it."""
        for bound, below in buckets:
            self._add("_bucket", {**labels, "le": str(bound)}, below)
        self._add("_bucket", {**labels, "le": "+Inf"}, count)
        self._add("_sum", labels, total)
        self._add("_count", labels, count)

    def _add(self, suffix: str, labels: Mapping[str, str], value: float) -> None:
        self.family.add_sample(self.family.name + suffix, dict(labels), value)


def render(families: Iterable[Metric]) -> str:
    """Write metric families in the text format, version 0.0.4."""
    return generate_latest(_Families(families)).decode()


def metrics_response(families: Iterable[Metric]) -> web.Response:
    """Create the response to a scrape."""
    return web.Response(text=render(families), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


class _Families:
    """What the library takes for a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _family(kind: str, name: str, help: str, suffix: str, samples: Iterable[Sample]) -> Metric:
    family = Metric(PREFIX + name, help, kind)
    for labels, value in samples:
        family.add_sample(family.name + suffix, dict(labels), value)
    return family
