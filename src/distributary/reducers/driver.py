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
from distributary.errors import DistributaryError, Superseded
from distributary.kafka import librdkafka
from distributary.kafka.topics import delete_topic
from distributary.model.build import Build, Definition, JobState, load_definition
from distributary.reducers.job import Job
from distributary.reducers.process_watch import DAEMON_SILENT, DaemonWatch, Jvm, Watchdog
from distributary.reducers.rekey import internal_topic
from distributary.reducers.spark_session import SlotPool, slot_count, start_daemon
from distributary.service import Heartbeat
from distributary.store.redis_writer import RedisWriter

log = logging.getLogger(__name__)

LOOK = 1.0
STORE_ANSWERS = 3.0
"""Seconds that a store has for an answer to the driver, whose loop must turn whoever hangs."""
PATIENCE = 90.0
"""Seconds after which views that are still starting keep nobody waiting."""


class Driver:
    """Starts and stops jobs as views come, change and go."""

    def __init__(self, config: Config, spark: Any, heartbeat: Heartbeat, daemon: DaemonWatch) -> None:
        self._config = config
        self._spark = spark
        self._jvm = Jvm(spark)
        self._heartbeat = heartbeat
        self._daemon = daemon
        self._watchdog = Watchdog(lambda: f"{self._jvm.name} has not answered", self._jvm.kill)
        self._stores = {
            at: RedisWriter(at, log_length=config.store.log_length, timeout=STORE_ANSWERS)
            for at in config.store.addresses
        }
        self._silent: set[str] = set()
        self._jobs: dict[Build, Job] = {}
        self._known: dict[Build, Definition] = {}
        self._slots = SlotPool(lambda: slot_count(config, spark))
        self._admin = librdkafka.admin(config.kafka)
        self._stopping = threading.Event()
        self._wake = threading.Event()  # ends the pause between two looks
        self._restarted: float | None = None  # when a PySpark daemon was last found to be gone
        self.superseded: Superseded | None = None

    def stop(self) -> None:
        """Ask ``run`` to return."""
        self._stopping.set()
        self._wake.set()

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Keep the jobs in step with the store until stopped or superseded. Raises JvmLost.

        ``ready`` is called once the views that are there now are served, or will not be soon.
        """
        beaten, waiting = 0.0, time.monotonic() + PATIENCE
        self._watchdog.start()
        self._jvm.on_exit(self._wake.set)
        while not self._stopping.is_set():
            self._turn()
            due = time.monotonic() - beaten > 1.0
            beaten = time.monotonic() if due else beaten
            for address in self._stores:
                self._look(address, beat=due)
                self._turn()
            if due and self._daemon.check():
                log.warning("the PySpark daemon is gone: another one is started, before a task needs it")
                self._restarted = time.monotonic()
                threading.Thread(target=start_daemon, args=(self._spark, self._config), daemon=True).start()
            if waiting and (self._settled() or time.monotonic() > waiting):
                waiting = 0.0
                ready()
            self._wake.wait(0.1 if waiting else LOOK)
        self._watchdog.stop()
        self._daemon.close()
        for job in self._jobs.values():
            job.stop()
        for job in self._jobs.values():
            job.join(timeout=8)
        for store in self._stores.values():
            store.close()

    def _turn(self) -> None:
        """Give a sign of life, which passes through the JVM; raises JvmLost when that is gone."""
        self._jvm.check()
        self._watchdog.turn()
        self._heartbeat.touch()

    def _look(self, address: str, *, beat: bool) -> None:
        """Keep the jobs of one server's views in step with it; one that is down keeps no other waiting."""
        store = self._stores[address]
        try:
            self._reconcile(address, store)
            if beat:
                store.heartbeat("reducers", str(os.getpid()), json.dumps(self.stats()))
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
            if build.view in views and facts["status"] is not JobState.LIVE:
                views[build.view]["next"] = facts
            else:
                views[build.view] = facts
        silent = (
            [f"the PySpark daemon: {self._daemon.silent} s"] if self._daemon.silent >= DAEMON_SILENT else []
        )
        ago = time.monotonic() - self._restarted if self._restarted is not None else None
        return {"views": views, "silent": silent, "daemon_restarted": ago}

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
        displaced: list[Build] = []
        for name, info in store.views().items():
            displaced += [Build(name, id) for id in info.displaced if here(name)]
            for id in filter(None, (info.live, info.next)):
                build = Build(name, id)
                found = store.build(build)
                if found is not None and found.definition and here(name):
                    wanted[build] = load_definition(found.definition)
        self._known = {b: d for b, d in self._known.items() if b not in known} | wanted
        mine = [build for build in self._jobs if here(build.view)]
        for build in [b for b in mine if b not in wanted or self._changed(b, wanted[b]) or self._dead(b)]:
            job = self._jobs.pop(build)
            job.stop()
            deadline = time.monotonic() + 30
            while job.is_alive() and time.monotonic() < deadline:
                self._turn()
                job.join(timeout=0.5)
        for build in displaced:
            self._drop(build, store)
        for build, definition in wanted.items():
            if build not in self._jobs:
                own = RedisWriter(address, log_length=self._config.store.log_length)
                job = Job(
                    spark=self._spark,
                    config=self._config,
                    build=build,
                    definition=definition,
                    store=own,
                    slots=self._slots,
                    on_superseded=self._give_up,
                )
                self._jobs[build] = job
                job.start()

    def _drop(self, build: Build, store: RedisWriter) -> None:
        """Remove a build that another one took the place of, with the topic of its re-keyed records."""
        try:
            delete_topic(self._admin, internal_topic(build))
        except DistributaryError as error:
            log.warning("view %s: build %s waits to be dropped: %s", build.view, build.id, error)
            return
        if store.drop(build):
            log.info("view %s: build %s was displaced, and is dropped", build.view, build.id)

    def _dead(self, build: Build) -> bool:
        """Whether a job ended though nobody asked it to, and without a reason."""
        job = self._jobs[build]
        return not job.is_alive() and job.facts.status is not JobState.STOPPED

    def _changed(self, build: Build, definition: Definition) -> bool:
        """Whether a job runs another definition of the same build (settings that leave its rows alone)."""
        return self._jobs[build].definition != definition

    def _give_up(self, error: Superseded) -> None:
        self.superseded = error
        self.stop()
