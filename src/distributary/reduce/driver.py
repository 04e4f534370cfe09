"""The reducers' process: keeps a job for every build that the store names."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from redis.exceptions import RedisError

from distributary.config import Config
from distributary.config.secrets import mask_text
from distributary.errors import Superseded
from distributary.model.definition import Definition, load_definition
from distributary.reduce import engine
from distributary.reduce.job import Job
from distributary.reduce.slots import Slots
from distributary.store.redis import RedisWriter
from distributary.store.tail import Build

log = logging.getLogger(__name__)

LOOK = 1.0
PATIENCE = 90.0
"""Seconds after which views that are still starting keep nobody waiting."""


class Driver:
    """Starts and stops jobs as views come, change and go."""

    def __init__(self, config: Config, spark: Any) -> None:
        self._config = config
        self._spark = spark
        self._stores = {at: RedisWriter(at, log_keep=config.store.log_keep) for at in config.store.addresses}
        self._silent: set[str] = set()
        self._jobs: dict[Build, Job] = {}
        self._known: dict[Build, Definition] = {}
        self._slots = Slots(lambda: engine.slots(config, spark))
        self._stopping = threading.Event()
        self.superseded: Superseded | None = None

    def stop(self) -> None:
        """Ask ``run`` to return."""
        self._stopping.set()

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Keep the jobs in step with the store until stopped or superseded.

        ``ready`` is called once the views that are there now are served, or will not be soon.
        """
        beaten, waiting = 0.0, time.monotonic() + PATIENCE
        while not self._stopping.is_set():
            due = time.monotonic() - beaten > 1.0
            beaten = time.monotonic() if due else beaten
            for address in self._stores:
                self._look(address, beat=due)
            if waiting and (self._settled() or time.monotonic() > waiting):
                waiting = 0.0
                ready()
            self._stopping.wait(0.1 if waiting else LOOK)
        for job in self._jobs.values():
            job.stop()
        for job in self._jobs.values():
            job.join(timeout=8)
        for store in self._stores.values():
            store.close()

    def _look(self, address: str, *, beat: bool) -> None:
        """Keep the jobs of one server's views in step with it; one that is down keeps no other waiting."""
        store = self._stores[address]
        try:
            self._reconcile(address, store)
            if beat:
                store.beat("reducers", str(os.getpid()), json.dumps(self.stats()))
            self._silent.discard(address)
        except (RedisError, OSError) as error:
            log.warning("the store at %s does not answer: %s", mask_text(address), error)
            self._silent.add(address)
            store.close()

    def stats(self) -> dict[str, Any]:
        """What each view's live job says of itself."""
        views: dict[str, Any] = {}
        for build, job in self._jobs.items():
            facts = asdict(job.facts)
            if build.view in views and facts["status"] != "live":
                views[build.view]["next"] = facts
            else:
                views[build.view] = facts
        return {"views": views}

    def _settled(self) -> bool:
        """Whether every view that is configured or known has settled."""
        there = {build.view for build in self._jobs}
        place = self._config.store.address_of
        configured = {view.name for view in self._config.views if place(view.name) not in self._silent}
        return configured <= there and all(job.settled.is_set() for job in self._jobs.values())

    def _reconcile(self, address: str, store: RedisWriter) -> None:
        def here(view: str) -> bool:
            return self._config.store.address_of(view) == address

        known = {build: found for build, found in self._known.items() if here(build.view)}
        if known and store.flushed():
            log.warning("the store is empty: all views are defined again and rebuilt")
            for build, definition in known.items():
                store.define(build.view, build.id, definition.text)
        wanted: dict[Build, Definition] = {}
        for name, info in store.views().items():
            for id in filter(None, (info.live, info.next)):
                build = Build(name, id)
                found = store.build(build)
                if found is not None and found.definition and here(name):
                    wanted[build] = load_definition(found.definition)
        self._known = {b: d for b, d in self._known.items() if b not in known} | wanted
        mine = [build for build in self._jobs if here(build.view)]
        for build in [b for b in mine if b not in wanted or self._changed(b, wanted[b])]:
            job = self._jobs.pop(build)
            job.stop()
            job.join(timeout=30)
        for build, definition in wanted.items():
            if build not in self._jobs:
                own = RedisWriter(address, log_keep=self._config.store.log_keep)
                job = Job(self._spark, self._config, build, definition, own, self._slots, self._give_up)
                self._jobs[build] = job
                job.start()

    def _changed(self, build: Build, definition: Definition) -> bool:
        """Whether a job runs another definition of the same build (settings that leave its rows alone)."""
        return self._jobs[build].definition != definition

    def _give_up(self, error: Superseded) -> None:
        self.superseded = error
        self._stopping.set()
