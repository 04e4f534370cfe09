"""What the driver and a task exchange: the task's order, which travels pickled, and its heartbeat."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import RedisError

from distributary.config.sections import Kafka
from distributary.model.build import Build, Engine
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.reducers.event_reader import EventFeed
from distributary.reducers.record_codec import Projection
from distributary.reducers.topic_identity import Leaders
from distributary.store.redis_writer import RedisWriter
from distributary.store.store_types import Claim

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Task:
    """All that a task of a query needs to know."""

    view: View
    feed: Feed
    build: Build
    claim: Claim
    store_url: str
    log_length: int
    kafka: Kafka
    topic: str
    """Where the records come from, for dead letters: the source also of a re-keyed view."""
    projection: Projection
    leaders: Leaders
    """Of the topic that the task reads."""
    source_leaders: Leaders | None = None
    """Of the source of a re-keyed view, where only the task would notice an election."""
    engine: Engine = Engine.REAL_TIME
    """In Real-Time Mode a task stays for its partition; a task of a batch ends soon."""
    quiet: bool = False
    """The build is not live yet: no changes are reported."""
    rekeyed: bool = False
    events: EventFeed | None = None
    unusable: Mapping[int, str] = field(default_factory=dict)
    """Why records of some schemas cannot be read."""


class TaskHeartbeat:
    """Sends what the task's loop last reported, once a second, on a connection of its own.

    It runs in a thread: a loop that folds for long cannot report, and one that hangs must not seem alive. So
    the heartbeat says when the loop last turned, and the driver judges.
    """

    def __init__(self, store_url: str, name: str) -> None:
        self._name = name
        self._store = RedisWriter(store_url, timeout=5.0)
        self._stats: dict[str, Any] | None = None
        self._turned = 0.0  # when the loop last turned
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> TaskHeartbeat:
        """Begin; the first heartbeat is sent with the first ``turn``."""
        self._thread.start()
        return self

    def turn(self, stats: dict[str, Any]) -> None:
        """Report that the loop turns, and its figures."""
        first = self._stats is None
        self._turned, self._stats = time.monotonic(), stats
        if first:
            self._wake.set()

    def close(self) -> None:
        """Stop; does not wait for a store that is not responding."""
        self._stopping = True
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping:
            if self._stats is not None:
                self._send(self._stats)
            self._wake.wait(HEARTBEAT_SECONDS)
            self._wake.clear()
        self._store.close()

    def _send(self, stats: dict[str, Any]) -> None:
        age = round(time.monotonic() - self._turned, 1)
        try:
            self._store.heartbeat("reducer", self._name, json.dumps({**stats, "loop_age": age}))
        except (RedisError, OSError) as error:
            log.debug("cannot send the heartbeat: %s", error)
            self._store.close()
