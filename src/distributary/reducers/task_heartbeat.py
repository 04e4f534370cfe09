"""The heartbeat of one task: told from a thread, about the loop that does the work.

A loop that folds for long cannot say so itself, and one that hangs must not seem alive: so the thread says
when the loop last turned, and the driver judges.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Any

from redis.exceptions import RedisError

from distributary.store.redis_writer import RedisWriter

log = logging.getLogger(__name__)

EVERY = 1.0


class TaskBeat:
    """Sends what the loop last said, once a second, on a connection of its own."""

    def __init__(self, store_url: str, name: str) -> None:
        self._name = name
        self._store = RedisWriter(store_url, timeout=5.0)
        self._facts: dict[str, Any] | None = None
        self._turned = 0.0
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> TaskBeat:
        """Begin; the first heartbeat goes out with the first ``turn``."""
        self._thread.start()
        return self

    def turn(self, facts: dict[str, Any]) -> None:
        """Say that the loop turns, and with what figures."""
        first = self._facts is None
        self._turned, self._facts = time.monotonic(), facts
        if first:
            self._wake.set()

    def close(self) -> None:
        """End; does not wait for a store that does not answer."""
        self._stopping = True
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping:
            if self._facts is not None:
                self._beat(self._facts)
            self._wake.wait(EVERY)
            self._wake.clear()
        self._store.close()

    def _beat(self, facts: dict[str, Any]) -> None:
        age = round(time.monotonic() - self._turned, 1)
        try:
            self._store.heartbeat("reducer", self._name, json.dumps({**facts, "loop_age": age}))
        except (RedisError, OSError) as error:
            log.debug("the store does not take the heartbeat: %s", error)
            self._store.close()
