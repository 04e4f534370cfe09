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

CHECK_SECONDS = 1.0
STORE_TIMEOUT = 3.0
"""Seconds that a server of the store has to respond: the driver's loop must turn although one hangs."""
START_TIMEOUT = 90.0
"""Seconds after which the driver is ready although views are still starting."""
JOB_STOPS = 30.0
"""Seconds that a job has to end, before another one of its build may start."""


class Driver:
    """Starts and stops jobs as views are defined, changed and deleted."""

    def __init__(self, config: Config, spark: Any, heartbeat: Heartbeat, daemon: DaemonWatch) -> None:
        self._config = config
        self._spark = spark
        self._jvm = Jvm(spark)
        self._heartbeat = heartbeat
        self._daemon = daemon
        self._watchdog = Watchdog(lambda: f"{self._jvm.name} has not responded", self._jvm.kill)
        self._stores = {
            at: RedisWriter(at, log_length=config.store.log_length, timeout=STORE_TIMEOUT)
            for at in config.store.addresses
        }
        self._unreachable: set[str] = set()  # addresses of servers of the store
        self._jobs: dict[Build, Job] = {}
        # What the store defined last, so that a store that was emptied gets it again.
        self._known: dict[Build, Definition] = {}
        self._slots = SlotPool(lambda: slot_count(config, spark))
        self._admin = librdkafka.admin(config.kafka)
        self._stopping = threading.Event()
        self._wake = threading.Event()  # ends the pause between two checks
        self._restarted: float | None = None  # when a PySpark daemon was last found to be gone
        self.superseded: Superseded | None = None

    def stop(self) -> None:
        """Make ``run`` return."""
        self._stopping.set()
        self._wake.set()

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Keep the jobs in step with the store until stopped or superseded. Raises JvmLost.

        ``ready`` is called once the views that exist now are served, or will not be soon.
        """
        beaten, waiting = 0.0, time.monotonic() + START_TIMEOUT
        self._watchdog.start()
        self._jvm.on_exit(self._wake.set)
        while not self._stopping.is_set():
            self._turn()
            due = time.monotonic() - beaten > 1.0
            beaten = time.monotonic() if due else beaten
            for address in self._stores:
                self._update(address, heartbeat=due)
                self._turn()
            if due and self._daemon.check():
                log.warning("the PySpark daemon is gone: starting another before a task needs it")
                self._restarted = time.monotonic()
                threading.Thread(target=start_daemon, args=(self._spark, self._config), daemon=True).start()
            if waiting and (self._settled() or time.monotonic() > waiting):
                waiting = 0.0
                ready()
            self._wake.wait(0.1 if waiting else CHECK_SECONDS)
        self._watchdog.stop()
        self._daemon.close()
        for job in self._jobs.values():
            job.stop()
        for job in self._jobs.values():
            job.join(timeout=8)
        for store in self._stores.values():
            store.close()

    def _turn(self) -> None:
        """Send a heartbeat, which passes through the JVM; raises JvmLost when that is gone."""
        self._jvm.check()
        self._watchdog.turn()
        self._heartbeat.touch()

    def _update(self, address: str, *, heartbeat: bool) -> None:
        """Update the jobs of one server's views; a server that is down delays no other."""
        store = self._stores[address]
        try:
            self._reconcile(address, store)
            if heartbeat:
                store.heartbeat("reducers", str(os.getpid()), json.dumps(self.stats()))
            self._unreachable.discard(address)
        except (RedisError, OSError) as error:
            log.warning("the store at %s is not responding: %s", mask_text(address), error)
            self._unreachable.add(address)
            store.close()

    def stats(self) -> dict[str, Any]:
        """Return the report of each view's job."""
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
        """Whether every view that is configured or known is served, or will not be soon."""
        known = {build.view for build in self._jobs}
        address = self._config.store.address_of
        configured = {v.name for v in self._config.views if address(v.name) not in self._unreachable}
        return configured <= known and all(job.settled.is_set() for job in self._jobs.values())

    def _reconcile(self, address: str, store: RedisWriter) -> None:
        """Start and stop jobs so that each build that one server names has one."""

        def is_here(view: str) -> bool:
            return self._config.store.address_of(view) == address

        # 1. A server that was emptied gets its views again.
        known = {build: found for build, found in self._known.items() if is_here(build.view)}
        if known and store.flushed():
            log.warning("the store is empty: all views are defined again and rebuilt")
            for build, definition in known.items():
                store.define(build.view, build.id, definition.text)
        # 2. Read what it names.
        defined: dict[Build, Definition] = {}
        displaced: list[Build] = []
        for name, info in store.views().items():
            displaced += [Build(name, id) for id in info.displaced if is_here(name)]
            for id in filter(None, (info.live, info.next)):
                build = Build(name, id)
                found = store.build(build)
                if found is not None and found.definition and is_here(name):
                    defined[build] = load_definition(found.definition)
        self._known = {b: d for b, d in self._known.items() if b not in known} | defined
        # 3. Stop the jobs of builds that are gone or changed, and remove those that have ended.
        for build in [build for build in self._jobs if is_here(build.view)]:
            if build not in defined or self._is_changed(build, defined[build]) or self._is_dead(build):
                self._stop_job(self._jobs.pop(build))
        for build in displaced:
            self._drop(build, store)
        # 4. Start those that are missing.
        for build, definition in defined.items():
            if build not in self._jobs:
                job = self._jobs[build] = Job(
                    spark=self._spark,
                    config=self._config,
                    build=build,
                    definition=definition,
                    store=RedisWriter(address, log_length=self._config.store.log_length),
                    slots=self._slots,
                    on_superseded=self._give_up,
                )
                job.start()

    def _stop_job(self, job: Job) -> None:
        job.stop()
        deadline = time.monotonic() + JOB_STOPS
        while job.is_alive() and time.monotonic() < deadline:
            self._turn()
            job.join(timeout=0.5)

    def _drop(self, build: Build, store: RedisWriter) -> None:
        """Remove a build that another has replaced, with the topic of its re-keyed records."""
        try:
            delete_topic(self._admin, internal_topic(build))
        except DistributaryError as error:
            log.warning("view %s: cannot drop build %s yet: %s", build.view, build.id, error)
            return
        if store.drop(build):
            log.info("view %s: dropped build %s, which another has replaced", build.view, build.id)

    def _is_dead(self, build: Build) -> bool:
        """Whether a job ended unexpectedly, without a reason."""
        job = self._jobs[build]
        return not job.is_alive() and job.facts.status is not JobState.STOPPED

    def _is_changed(self, build: Build, definition: Definition) -> bool:
        """Whether a job runs another definition of the same build (settings that leave its rows alone)."""
        return self._jobs[build].definition != definition

    def _give_up(self, error: Superseded) -> None:
        self.superseded = error
        self.stop()
