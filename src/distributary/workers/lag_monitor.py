"""Reads the lag of a consumer group at intervals, in a thread of its own: Kafka may take long to respond."""

from __future__ import annotations

import logging
import threading

from distributary.errors import DistributaryError
from distributary.kafka import group_admin, topic_offsets
from distributary.kafka.admin import Cluster
from distributary.kafka.topics import get_topic

log = logging.getLogger(__name__)


class LagMonitor:
    """``lag`` is None until it is known, and while Kafka is not responding."""

    def __init__(self, cluster: Cluster, topic: str, group: str, *, earliest: bool, interval: float) -> None:
        self.partitions = get_topic(cluster.admin, topic).partitions
        self.lag: int | None = None
        self._cluster = cluster
        self._topic = topic
        self._group = group
        self._earliest = earliest
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading."""
        self._stop.set()

    def _run(self) -> None:
        failing = False
        while True:
            try:
                self._read()
                failing = False
            except DistributaryError as error:
                self.lag = None
                if not failing:
                    log.warning("cannot read the lag: %s", error)
                failing = True
            if self._stop.wait(self._interval):
                return

    def _read(self) -> None:
        admin = self._cluster.admin
        ends = topic_offsets.end_offsets(admin, self._topic)
        firsts = topic_offsets.earliest_offsets(admin, self._topic) if self._earliest else ends
        committed = group_admin.committed_offsets(self._cluster, self._group)
        self.partitions = len(ends)
        self.lag = sum(
            max(0, end - max(committed.get((self._topic, number), firsts[number]), 0))
            for number, end in ends.items()
        )
