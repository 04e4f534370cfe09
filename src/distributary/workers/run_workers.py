"""``distributary worker run``: checks, then looks after a crew until it is told to stop."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import msgspec

from distributary.errors import WorkerBusy
from distributary.kafka import group_admin
from distributary.kafka.admin import Cluster
from distributary.kafka.outgoing_record import ensure_dead_letter_topic
from distributary.kafka.topics import get_topic
from distributary.stack.processes import birth
from distributary.workers import pool_state
from distributary.workers.autoscaler import Scaler, Span
from distributary.workers.function_loader import load_function, look_here
from distributary.workers.lag_monitor import Gauge
from distributary.workers.worker_pool import TICK, Crew
from distributary.workers.worker_spec import Spec

EVERY = 1.0
"""How often the lag is read, in seconds."""
GRACE = 30.0
"""How long workers may take to finish what is in hand, in seconds."""


def run(
    cluster: Cluster,
    spec: Spec,
    span: Span,
    scaler: Scaler,
    data_dir: Path,
    name: str,
    say: Callable[[str], None],
    *,
    convention: str | None,
    force: bool = False,
    grace: float = GRACE,
) -> pool_state.CrewState:
    """Work until SIGINT or SIGTERM, and say what was done.

    ``convention`` is ``naming.groups``; ``force`` skips it, and the check for members of other applications.
    Raises BadFunction, TopicMissing, NameRefused, GroupBusy, WorkerBusy, WorkerFailed.
    """
    look_here()
    load_function(spec.function)
    for topic in filter(None, (spec.topic, spec.to)):
        get_topic(cluster.admin, topic)
    if not force and (note := group_admin.check_group_free(cluster, spec.group, spec.client_id, convention)):
        say(f"note: {note}")
    ensure_dead_letter_topic(cluster.admin, spec.dead_letters)
    spec = msgspec.structs.replace(spec, owner=_owner(data_dir, name))
    own = _claim(data_dir, name, spec, span)
    gauge = Gauge(cluster, spec.topic, spec.group, earliest=spec.start == "earliest", every=EVERY)
    most = span.most
    if most > gauge.partitions:
        say(
            f"{spec.topic} has {gauge.partitions} partitions: more workers than that would have nothing to do"
        )
    crew = Crew(spec, scaler, gauge, span, say)
    try:
        with _stopped() as stop:
            _look_after(crew, gauge, own, data_dir, stop)
            say(f"stopping: {crew.workers} workers finish what they have in hand (Ctrl-C again: at once)")
            crew.drain()
            _wait(crew, stop, grace, say)
    finally:
        crew.kill()
        gauge.stop()
        pool_state.forget(data_dir, name)
    _note(own, crew, gauge)
    return own


def _look_after(
    crew: Crew, gauge: Gauge, own: pool_state.CrewState, data_dir: Path, stop: threading.Event
) -> None:
    told = None
    while not stop.is_set():
        wish = pool_state.asked(data_dir, own.name)
        if wish is not None and wish.id != own.wish:
            own.wish, own.least, own.most = wish.id, wish.least, wish.most
            crew.span = Span(wish.least, wish.most)
        crew.step()
        _note(own, crew, gauge)
        if (now := msgspec.json.encode(own)) != told:
            pool_state.write_state(data_dir, own)
            told = now
        stop.wait(TICK)


def _note(own: pool_state.CrewState, crew: Crew, gauge: Gauge) -> None:
    own.workers, own.wanted, own.partitions, own.lag = crew.workers, crew.wanted, gauge.partitions, gauge.lag
    own.done, own.dead, own.restarts = crew.done, crew.dead, crew.restarts


def _wait(crew: Crew, stop: threading.Event, grace: float, say: Callable[[str], None]) -> None:
    stop.clear()
    deadline = time.monotonic() + grace
    while crew.finishing:
        crew.step()
        if stop.wait(TICK / 4) or time.monotonic() > deadline:
            say(f"{crew.finishing} workers are ended; what they had in hand is read again")
            return


@contextlib.contextmanager
def _stopped() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set."""
    stop = threading.Event()

    def heard(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {one: signal.signal(one, heard) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _claim(data_dir: Path, name: str, spec: Spec, span: Span) -> pool_state.CrewState:
    for one in pool_state.crews(data_dir):
        if one.name == name:
            raise WorkerBusy(
                f"worker {name!r} runs already (pid {one.pid})",
                hint=f"Change it with: distributary worker scale {name} N, or give this one another --name",
            )
    pool_state.forget(data_dir, name)
    own = pool_state.CrewState(
        name, os.getpid(), birth(os.getpid()), spec.function, spec.topic, spec.group, span.least, span.most
    )
    pool_state.write_state(data_dir, own)
    return own


def _owner(data_dir: Path, name: str) -> str:
    """Tells crews of one group on several machines apart, the same after a restart."""
    place = f"{socket.gethostname()} {data_dir.absolute()} {name}"
    return hashlib.sha256(place.encode()).hexdigest()[:12]
