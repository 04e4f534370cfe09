"""What is wrong, by name: judged from what is seen from look to look. Pure.

An alarm is raised by a look and gone with the first look that does not raise it. ``since`` is the first of an
unbroken row of looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

from distributary.control import lag as lags
from distributary.control.lag import Lag, Track
from distributary.control.observation import Said, Sight, ViewState
from distributary.model.build import Definition
from distributary.store.store_types import BuildInfo

Severity = Literal["error", "warning"]

SILENT = 6.0
"""Seconds after which a process without a heartbeat is silent."""
STALLED, SUSPECT = 10.0, 2.0
"""Seconds for which records wait and none is folded; and after which it is looked up whether any does."""
BEHIND = 10.0
"""Seconds that the oldest record waits, though others are folded."""
HOLD = 10.0
"""Seconds for which it is said that something was restarted: whoever looks now and then must see it."""
HORIZON = 60.0
"""Seconds of changes that the log should have, for those who come back."""
FULL = 0.9
"""Share of its memory at which a store is nearly full."""
ROOM = 200 * 1024 * 1024
"""Bytes that the disk should have left."""


class Kind(NamedTuple):
    """A name that an alarm may have. An error: something is not served. A warning: it may come to that."""

    severity: Severity
    about: str


KINDS: Mapping[str, Kind] = {
    "part-silent": Kind("error", "A process gives no sign of life."),
    "part-restarting": Kind("error", "A process died, or was killed because it hung, and is started again."),
    "view-stalled": Kind("error", "Records wait and none is folded."),
    "view-restarting": Kind("error", "A view's query failed and was started again."),
    "view-stopped": Kind("error", "A view cannot run as it is defined."),
    "view-waiting": Kind("error", "A view cannot start yet."),
    "view-behind": Kind("warning", "Records are folded, but later than they should be."),
    "view-stale": Kind("warning", "A view's source gives no records."),
    "view-degraded": Kind("warning", "A view runs in micro-batches for want of slots."),
    "incomplete": Kind("warning", "Kafka no longer had records that a view is made of."),
    "dead-letters": Kind("warning", "Records cannot be folded and are set aside."),
    "log-short": Kind("warning", "Subscribers who were away for a minute get a snapshot."),
    "store-unreachable": Kind("error", "A server of the store does not answer."),
    "store-read-only": Kind("error", "A server of the store takes no writes."),
    "store-nearly-full": Kind("warning", "A server of the store has little memory left."),
    "kafka-unreachable": Kind("error", "Kafka does not answer."),
    "kafka-no-leader": Kind("error", "Partitions have no leader: they can be neither read nor written."),
    "kafka-under-replicated": Kind("warning", "Partitions have fewer replicas in sync than they should."),
    "disk-nearly-full": Kind("warning", "The disk of the data folder has little room left."),
}


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that needs somebody's attention: ``subject`` is what it is about, '' for the whole.

    ``since`` is in ms since 1970, ``text`` says what with the figure, ``hint`` what to do.
    """

    name: str
    subject: str
    text: str
    hint: str
    since: int = 0

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return KINDS[self.name].severity

    def as_json(self) -> dict[str, Any]:
        """As the API says it."""
        return {**asdict(self), "severity": self.severity}


class Judge:
    """Remembers what it takes to judge the next look."""

    def __init__(self) -> None:
        self._tracks: dict[tuple[str, str], Track] = {}
        self._topics: dict[tuple[str, str], str] = {}
        self._since: dict[tuple[str, str], int] = {}
        self.lags: dict[tuple[str, str], Lag] = {}
        """Of each build (view, id), as of the last look; those that cannot be told are missing."""

    def follow(self, sight: Sight) -> None:
        """Work out how far every build is behind."""
        found: dict[tuple[str, str], Lag] = {}
        for name, id, view, build in _builds(sight):
            topic = lags.read_topic(view, sight.kafka)
            if topic is None:
                continue
            offsets = lags.reached(view, build, *topic)
            track = self._tracks.setdefault((name, id), Track())
            slack = lags.unseen(view, len(topic[0]))
            found[name, id] = track.look(sight.at, build, offsets, topic[0], slack=slack)
            self._topics[name, id] = view.feed.topic
        if sight.overview is not None:
            there = {(name, id) for name, id, _, _ in _builds(sight)}
            self._tracks = {key: one for key, one in self._tracks.items() if key in there}
        self.lags = found

    def suspects(self) -> list[tuple[tuple[str, str], str, dict[int, int]]]:
        """Builds of which partitions seem to stand still, with their topic and what they read next."""
        found = [(key, self._topics[key], self._tracks[key].suspects(SUSPECT)) for key in self.lags]
        return [one for one in found if one[2]]

    def judge(self, sight: Sight) -> list[Alarm]:
        """Say what is wrong, the worst first; ``follow`` was called with this sight."""
        for key, next_ones in sight.oldest.items():
            if key in self.lags:
                none = [partition for partition, oldest in next_ones.items() if oldest is None]
                lag = self._tracks[key].nothing_at(none) if none else self.lags[key]
                for oldest in filter(None, next_ones.values()):
                    lag = lags.with_age(lag, oldest, sight.time)
                self.lags[key] = lag
        found = [*_parts(sight), *_stores(sight), *_kafka(sight), *_disk(sight)]
        for name, id, view, build in _builds(sight):
            found += _build(sight, name, view, build, self.lags.get((name, id)))
        found += _views(sight)
        known = {(one.name, one.subject): one for one in found}
        self._since = {key: self._since.get(key, sight.time) for key in known}
        dated = [replace(one, since=self._since[key]) for key, one in known.items()]
        return sorted(dated, key=lambda one: (one.severity != "error", one.since, one.name, one.subject))


def _builds(sight: Sight) -> Iterator[tuple[str, str, Definition, BuildInfo]]:
    """The builds of all views whose definitions can be read, the live ones and those under way."""
    for name, state in sight.overview.views.items() if sight.overview is not None else ():
        for id, build in ((state.info.live, state.live), (state.info.next, state.next)):
            if id and build is not None and state.definition is not None:
                yield name, id, state.definition, build


def _parts(sight: Sight) -> Iterator[Alarm]:
    stack = sight.stack
    if stack is not None and not sight.watched:
        text = f"`distributary up` (pid {stack.pid}) gives no sign of life: what dies is not started again"
        yield Alarm("part-silent", "supervisor", text, "Start it again: distributary up")
    for part in stack.components if stack is not None else ():
        log = f"Its log is {part.log}" if part.log else "See its log"
        if part.state == "silent":
            yield Alarm("part-silent", part.name, f"{part.name}: {part.error}", log)
        elif part.state == "failed":
            yield Alarm("part-restarting", part.name, f"{part.name} was given up: {part.error}", log)
        elif part.state == "restarting" or (part.state == "starting" and part.restarts):
            yield Alarm("part-restarting", part.name, f"{part.name} is started again: {part.error}", log)
        elif part.restarted is not None and sight.time / 1000 - part.restarted < HOLD:
            text = f"{part.name} was started again just now ({part.restarts} times so far)"
            yield Alarm("part-restarting", part.name, text, log)
    yield from _heartbeats(sight)


def _heartbeats(sight: Sight) -> Iterator[Alarm]:
    """Heartbeats in the store: of processes that nobody here supervises, and of what a driver looks after."""
    parts = sight.stack.components if sight.stack is not None else []
    pids = {str(part.pid) for part in parts if part.pid is not None}
    kinds = {part.name.rstrip("0123456789-") for part in parts if not part.external}
    for said in sight.overview.said if sight.overview is not None else ():
        beat = said.beat
        mine = str(said.stats.get("pid")) in pids or beat.id in pids
        if beat.component == "reducer" or (beat.component in kinds and not mine):
            continue  # a task, which its driver judges; or a process that was replaced by another
        if beat.age_ms > SILENT * 1000:
            text = f"{beat.component} ({beat.id}) has given no sign of life for {beat.age_ms / 1000:.0f} s"
            yield Alarm(
                "part-silent", beat.component, text, "See its log, and whether its process still runs"
            )
        ago = said.stats.get("daemon_restarted")
        if isinstance(ago, int | float) and ago + beat.age_ms / 1000 < HOLD:
            text = f"{beat.component}: the PySpark daemon was gone, and is started again"
            yield Alarm("part-restarting", beat.component, text, "Views run on meanwhile")
        for child in _silent(said):
            yield Alarm(
                "part-silent",
                beat.component,
                f"{beat.component}: no sign of life from {child}",
                "It is restarted",
            )


def _silent(said: Said) -> list[str]:
    found = said.stats.get("silent")
    return [str(one) for one in found] if isinstance(found, list) else []


def _stores(sight: Sight) -> Iterator[Alarm]:
    for store in sight.stores:
        if not store.answers:
            views = f"not served: {', '.join(store.views)}" if store.views else "its views are not served"
            text = f"the store at {store.address} does not answer ({store.error or 'no answer'}): {views}"
            yield Alarm("store-unreachable", store.address, text, "Check that it runs, and store.url")
            continue
        if store.refuses:
            text = f"the store at {store.address} takes no writes: {store.refuses}"
            yield Alarm("store-read-only", store.address, text, "Rows stand still until it does")
        if store.limit and store.used > store.limit * FULL:
            share = store.used / store.limit
            text = f"the store at {store.address} uses {share:.0%} of its {store.limit / 2**20:,.0f} MiB"
            hint = "Raise maxmemory, lower store.log_length, or give views a ttl"
            yield Alarm("store-nearly-full", store.address, text, hint)


def _kafka(sight: Sight) -> Iterator[Alarm]:
    kafka = sight.kafka
    if kafka is None:
        return
    if not kafka.answers:
        text = f"Kafka does not answer ({kafka.error or 'no answer'})"
        yield Alarm("kafka-unreachable", "", text, "Check that it runs, and kafka.bootstrap_servers")
    if kafka.leaderless:
        text = f"{_some(kafka.leaderless)} {'have' if len(kafka.leaderless) > 1 else 'has'} no leader"
        yield Alarm("kafka-no-leader", "", text, "Start the brokers that hold them")
    if kafka.under_replicated:
        text = f"{_some(kafka.under_replicated)}: fewer replicas in sync than there should be"
        yield Alarm("kafka-under-replicated", "", text, "See: distributary topics describe")


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"partition{'s' if len(names) > 1 else ''} {', '.join(names[:3])}{more}"


def _disk(sight: Sight) -> Iterator[Alarm]:
    for folder, free in sight.free.items():
        if free < ROOM:
            text = f"the disk of {folder} has {free / 2**20:,.0f} MiB left"
            hint = "Make room before Kafka or the store must refuse writes"
            yield Alarm("disk-nearly-full", folder, text, hint)


def _build(sight: Sight, name: str, view: Definition, build: BuildInfo, lag: Lag | None) -> Iterator[Alarm]:
    describe = f"See: distributary view describe {name}"
    now = sight.overview.views[name].info.now if sight.overview is not None else sight.time
    if build.status == "stopped":
        text = f"view {name} is stopped: {build.reason or 'no reason given'}"
        yield Alarm("view-stopped", name, text, "See: docs/how-to/when-a-view-is-stopped.md")
        return
    if build.reason:
        yield Alarm("view-waiting", name, f"view {name} waits: {build.reason}", describe)
    when, _, why = build.failed.partition(" ")
    if when and now - int(when) < HOLD * 1000:
        text = f"view {name} was started again {max(0, now - int(when)) / 1000:.0f} s ago: {why}"
        yield Alarm("view-restarting", name, text, "See the reducers' log")
    if build.incomplete:
        text = f"view {name} is incomplete: Kafka no longer had all its records"
        yield Alarm("incomplete", name, text, "Raise the retention of its topic, and define the view anew")
    if lag is None:
        return
    if lag.still >= STALLED:
        text = f"view {name}: {lag.records:,} records wait and none was folded for {lag.still:.0f} s"
        yield Alarm("view-stalled", name, text, describe)
    elif lag.seconds >= BEHIND and build.status == "live":
        text = f"view {name} is {lag.seconds:.0f} s behind: {lag.records:,} records wait"
        hint = "Give its topic more partitions, or the reducers more cores"
        yield Alarm("view-behind", name, text, hint)
    if lag.dead:
        text = f"view {name}: {lag.dead:,} records were set aside in the last {lags.OVER:.0f} s"
        hint = f"See why: distributary consume {view.feed.dead_letter_topic} --from earliest"
        yield Alarm("dead-letters", name, text, hint)
    kept = build.seq - build.floor
    if lag.changes and kept / lag.changes < HORIZON and build.floor > 0:
        text = f"view {name}: its log reaches back {kept / lag.changes:.0f} s at this rate"
        yield Alarm("log-short", name, text, "Raise store.log_length")


def _views(sight: Sight) -> Iterator[Alarm]:
    for name, state in sight.overview.views.items() if sight.overview is not None else ():
        if state.stale:
            text = f"view {name} is stale: its source has given no record for {_quiet(state):.0f} s"
            yield Alarm("view-stale", name, text, "See whether its producers run")
        for said in sight.overview.of_part("reducers") if sight.overview is not None else ():
            why = said.of_view(name).get("engine_reason")
            if why and said.beat.age_ms < SILENT * 1000:
                text = f"view {name} runs in micro-batches: {why}"
                yield Alarm("view-degraded", name, text, "Raise spark.slots")


def _quiet(state: ViewState) -> float:
    return (state.info.now - state.info.last_record) / 1000
