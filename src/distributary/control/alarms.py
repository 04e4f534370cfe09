"""Alarms: what is wrong with a stack, derived from its observations. Pure.

An alarm is raised by an observation, and cleared by the first one that does not raise it. ``since`` is the
time of the first of an unbroken series of observations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

from distributary.control.lag import (
    RATE_SECONDS,
    Lag,
    LagTracker,
    folded_offsets,
    max_filtered,
    read_topic,
    with_age,
)
from distributary.control.observation import ComponentReport, Observation, ViewState
from distributary.model.build import BuildStatus, Definition
from distributary.store.store_types import BuildInfo

Severity = Literal["error", "warning"]

SILENT = 6.0
"""Seconds after which a process without a heartbeat is silent."""
STALLED, SUSPECT = 10.0, 2.0
"""Seconds for which records wait and none is folded; and after which it is checked whether any does."""
BEHIND = 10.0
"""Seconds that the oldest record waits although others are folded."""
RESTART_SECONDS = 10.0
"""For which a restart is reported, so that those who poll see it."""
HORIZON = 60.0
"""Seconds of changes that the log should contain, for subscribers that resume."""
NEARLY_FULL = 0.9
"""Fraction of its memory at which a store is nearly full."""
MIN_FREE_BYTES = 200 * 1024 * 1024
"""Of the disk of the data folder."""


class Kind(NamedTuple):
    """A kind of alarm. An error: something is not served. A warning: that may happen soon."""

    severity: Severity
    about: str


KINDS: Mapping[str, Kind] = {
    "part-silent": Kind("error", "A process sends no heartbeat."),
    "part-restarting": Kind(
        "error", "A process died, or was killed because it hung, and is being restarted."
    ),
    "view-stalled": Kind("error", "Records wait and none is folded."),
    "view-restarting": Kind("error", "A view's query failed and was restarted."),
    "view-stopped": Kind("error", "A view cannot run as it is defined."),
    "view-waiting": Kind("error", "A view cannot start yet."),
    "view-behind": Kind("warning", "Records are folded, but later than they should be."),
    "view-stale": Kind("warning", "A view's source sends no records."),
    "view-degraded": Kind("warning", "A view runs in micro-batches because there are too few slots."),
    "incomplete": Kind("warning", "Kafka no longer had some of a view's records."),
    "dead-letters": Kind("warning", "Records cannot be folded and are written to the dead-letter topic."),
    "log-short": Kind("warning", "Subscribers that were disconnected for a minute get a snapshot."),
    "store-unreachable": Kind("error", "A server of the store does not respond."),
    "store-read-only": Kind("error", "A server of the store rejects writes."),
    "store-nearly-full": Kind("warning", "A server of the store has little memory left."),
    "kafka-unreachable": Kind("error", "Kafka does not respond."),
    "kafka-no-leader": Kind("error", "Partitions have no leader: they cannot be read or written."),
    "kafka-under-replicated": Kind("warning", "Partitions have fewer replicas in sync than they should."),
    "disk-nearly-full": Kind("warning", "The disk of the data folder has little free space."),
}


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that needs attention: ``subject`` is what it is about, "" for the whole stack.

    ``since`` is in ms since 1970, ``text`` describes the problem, ``hint`` what to do.
    """

    name: str
    subject: str
    text: str
    hint: str
    since: int = 0

    @property
    def severity(self) -> Severity:
        """Error or warning."""
        return KINDS[self.name].severity

    def to_json(self) -> dict[str, Any]:
        """The alarm as in the API."""
        return {**asdict(self), "severity": self.severity}


class AlarmTracker:
    """Derives alarms from observations; it keeps what the next one needs."""

    def __init__(self) -> None:
        self._trackers: dict[tuple[str, str], LagTracker] = {}
        self._topics: dict[tuple[str, str], str] = {}
        self._since: dict[tuple[str, str], int] = {}
        self.lags: dict[tuple[str, str], Lag] = {}
        """Of each build (view, id), by the last observation; unknown ones are missing."""

    def update_lags(self, observation: Observation) -> None:
        """Compute how far every build is behind."""
        found: dict[tuple[str, str], Lag] = {}
        for name, id, view, build in _builds(observation):
            topic = read_topic(view, observation.kafka)
            if topic is None:
                continue
            offsets = folded_offsets(view, build, *topic)
            tracker = self._trackers.setdefault((name, id), LagTracker())
            slack = max_filtered(view, len(topic[0]))
            found[name, id] = tracker.observe(observation.at, build, offsets, topic[0], slack=slack)
            self._topics[name, id] = view.feed.topic
        if observation.overview is not None:
            existing = {(name, id) for name, id, _, _ in _builds(observation)}
            self._trackers = {key: one for key, one in self._trackers.items() if key in existing}
        self.lags = found

    def stalled(self) -> list[tuple[tuple[str, str], str, dict[int, int]]]:
        """List builds with partitions that seem to have stalled: with their topic and next offsets."""
        found = [(key, self._topics[key], self._trackers[key].stalled(SUSPECT)) for key in self.lags]
        return [one for one in found if one[2]]

    def evaluate(self, observation: Observation) -> list[Alarm]:
        """List the alarms, the worst first; ``update_lags`` must have been called with this observation."""
        for key, records in observation.next_records.items():
            if key in self.lags:
                empty = [partition for partition, record in records.items() if record is None]
                lag = self._trackers[key].note_empty(empty) if empty else self.lags[key]
                for record in filter(None, records.values()):
                    lag = with_age(lag, record, observation.time)
                self.lags[key] = lag
        found = [*_components(observation), *_stores(observation), *_kafka(observation), *_disk(observation)]
        for name, id, view, build in _builds(observation):
            found += _build(observation, name, view, build, self.lags.get((name, id)))
        found += _views(observation)
        known = {(one.name, one.subject): one for one in found}
        self._since = {key: self._since.get(key, observation.time) for key in known}
        dated = [replace(one, since=self._since[key]) for key, one in known.items()]
        return sorted(dated, key=lambda one: (one.severity != "error", one.since, one.name, one.subject))


def _builds(observation: Observation) -> Iterator[tuple[str, str, Definition, BuildInfo]]:
    """The builds, live and next, of all views whose definitions can be parsed."""
    for name, state in observation.overview.views.items() if observation.overview is not None else ():
        for id, build in ((state.info.live, state.live), (state.info.next, state.next)):
            if id and build is not None and state.definition is not None:
                yield name, id, state.definition, build


def _components(observation: Observation) -> Iterator[Alarm]:
    stack = observation.stack
    if stack is not None and not observation.supervised:
        text = f"`distributary up` (pid {stack.pid}) sends no heartbeat: failed processes are not restarted"
        yield Alarm("part-silent", "supervisor", text, "Restart it: distributary up")
    for component in stack.components if stack is not None else ():
        log = f"Its log is {component.log}" if component.log else "See its log"
        if component.state == "silent":
            yield Alarm("part-silent", component.name, f"{component.name}: {component.error}", log)
        elif component.state == "failed":
            yield Alarm(
                "part-restarting",
                component.name,
                f"{component.name} failed too often and is no longer restarted: {component.error}",
                log,
            )
        elif component.state == "restarting" or (component.state == "starting" and component.restarts):
            yield Alarm(
                "part-restarting",
                component.name,
                f"{component.name} is being restarted: {component.error}",
                log,
            )
        elif (
            component.restarted is not None
            and observation.time / 1000 - component.restarted < RESTART_SECONDS
        ):
            text = f"{component.name} was restarted just now ({component.restarts} restarts so far)"
            yield Alarm("part-restarting", component.name, text, log)
    yield from _heartbeats(observation)


def _heartbeats(observation: Observation) -> Iterator[Alarm]:
    """Heartbeats in the store: of processes without a supervisor here, and of what a driver supervises."""
    components = observation.stack.components if observation.stack is not None else []
    pids = {str(component.pid) for component in components if component.pid is not None}
    kinds = {component.name.rstrip("0123456789-") for component in components if not component.external}
    for report in observation.overview.reports if observation.overview is not None else ():
        heartbeat = report.heartbeat
        supervised = str(report.stats.get("pid")) in pids or heartbeat.id in pids
        if heartbeat.component == "reducer" or (heartbeat.component in kinds and not supervised):
            continue  # a task, which its driver supervises; or a process that was replaced by another
        if heartbeat.age_ms > SILENT * 1000:
            seconds = heartbeat.age_ms / 1000
            text = f"{heartbeat.component} ({heartbeat.id}) has sent no heartbeat for {seconds:.0f} s"
            yield Alarm(
                "part-silent",
                heartbeat.component,
                text,
                "See its log, and check whether its process still runs",
            )
        ago = report.stats.get("daemon_restarted")
        if isinstance(ago, int | float) and ago + heartbeat.age_ms / 1000 < RESTART_SECONDS:
            text = f"{heartbeat.component}: the PySpark daemon died and is being restarted"
            yield Alarm("part-restarting", heartbeat.component, text, "Views keep running")
        for child in _silent(report):
            yield Alarm(
                "part-silent",
                heartbeat.component,
                f"{heartbeat.component}: no heartbeat from {child}",
                "It is being restarted",
            )


def _silent(report: ComponentReport) -> list[str]:
    found = report.stats.get("silent")
    return [str(one) for one in found] if isinstance(found, list) else []


def _stores(observation: Observation) -> Iterator[Alarm]:
    for store in observation.stores:
        if not store.answers:
            views = f"not served: {', '.join(store.views)}" if store.views else "its views are not served"
            text = f"the store at {store.address} does not respond ({store.error or 'no response'}): {views}"
            yield Alarm("store-unreachable", store.address, text, "Check that it runs, and store.url")
            continue
        if store.refuses:
            text = f"the store at {store.address} rejects writes: {store.refuses}"
            yield Alarm("store-read-only", store.address, text, "Rows do not change until it accepts them")
        if store.limit and store.used > store.limit * NEARLY_FULL:
            used = store.used / store.limit
            text = f"the store at {store.address} uses {used:.0%} of its {store.limit / 2**20:,.0f} MiB"
            hint = "Raise maxmemory, lower store.log_length, or give views a ttl"
            yield Alarm("store-nearly-full", store.address, text, hint)


def _kafka(observation: Observation) -> Iterator[Alarm]:
    kafka = observation.kafka
    if kafka is None:
        return
    if not kafka.answers:
        text = f"Kafka does not respond ({kafka.error or 'no response'})"
        yield Alarm("kafka-unreachable", "", text, "Check that it runs, and kafka.bootstrap_servers")
    if kafka.leaderless:
        text = (
            f"{_list_partitions(kafka.leaderless)} {'have' if len(kafka.leaderless) > 1 else 'has'} no leader"
        )
        yield Alarm("kafka-no-leader", "", text, "Start the brokers that have them")
    if kafka.under_replicated:
        text = f"{_list_partitions(kafka.under_replicated)}: fewer in-sync replicas than configured"
        yield Alarm("kafka-under-replicated", "", text, "See: distributary topics describe")


def _list_partitions(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"partition{'s' if len(names) > 1 else ''} {', '.join(names[:3])}{more}"


def _disk(observation: Observation) -> Iterator[Alarm]:
    for folder, free in observation.free_bytes.items():
        if free < MIN_FREE_BYTES:
            text = f"the disk of {folder} has {free / 2**20:,.0f} MiB left"
            hint = "Free some space before Kafka or the store must reject writes"
            yield Alarm("disk-nearly-full", folder, text, hint)


def _build(
    observation: Observation, name: str, view: Definition, build: BuildInfo, lag: Lag | None
) -> Iterator[Alarm]:
    describe = f"See: distributary view describe {name}"
    now = observation.overview.views[name].info.now if observation.overview is not None else observation.time
    if build.status == BuildStatus.STOPPED:
        text = f"view {name} is stopped: {build.reason or 'no reason given'}"
        yield Alarm("view-stopped", name, text, "See: docs/how-to/when-a-view-is-stopped.md")
        return
    if build.reason:
        yield Alarm("view-waiting", name, f"view {name} is waiting: {build.reason}", describe)
    failed, _, cause = build.failed.partition(" ")
    if failed and now - int(failed) < RESTART_SECONDS * 1000:
        text = f"view {name} was restarted {max(0, now - int(failed)) / 1000:.0f} s ago: {cause}"
        yield Alarm("view-restarting", name, text, "See the reducers' log")
    if build.incomplete:
        text = f"view {name} is incomplete: Kafka no longer had all its records"
        yield Alarm("incomplete", name, text, "Raise the retention of its topic, and define the view again")
    if lag is None:
        return
    if lag.stalled_for >= STALLED:
        text = f"view {name}: {lag.records:,} records wait and none was folded for {lag.stalled_for:.0f} s"
        yield Alarm("view-stalled", name, text, describe)
    elif lag.seconds >= BEHIND and build.status == BuildStatus.LIVE:
        text = f"view {name} is {lag.seconds:.0f} s behind: {lag.records:,} records wait"
        hint = "Give its topic more partitions, or the reducers more cores"
        yield Alarm("view-behind", name, text, hint)
    if lag.dead:
        text = (
            f"view {name}: {lag.dead:,} records were written to the dead-letter topic "
            f"in the last {RATE_SECONDS:.0f} s"
        )
        hint = f"See why: distributary consume {view.feed.dead_letter_topic} --from earliest"
        yield Alarm("dead-letters", name, text, hint)
    logged = build.seq - build.floor
    if lag.changes and logged / lag.changes < HORIZON and build.floor > 0:
        text = f"view {name}: its log covers {logged / lag.changes:.0f} s at the current rate"
        yield Alarm("log-short", name, text, "Raise store.log_length")


def _views(observation: Observation) -> Iterator[Alarm]:
    for name, state in observation.overview.views.items() if observation.overview is not None else ():
        if state.stale:
            text = f"view {name} is stale: its source has sent no record for {_silent_seconds(state):.0f} s"
            yield Alarm("view-stale", name, text, "Check whether its producers run")
        for report in (
            observation.overview.of_component("reducers") if observation.overview is not None else ()
        ):
            reason = report.of_view(name).get("engine_reason")
            if reason and report.heartbeat.age_ms < SILENT * 1000:
                text = f"view {name} runs in micro-batches: {reason}"
                yield Alarm("view-degraded", name, text, "Raise spark.slots")


def _silent_seconds(state: ViewState) -> float:
    return (state.info.now - state.info.last_record) / 1000
