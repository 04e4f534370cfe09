"""The values that a store takes and returns."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from distributary.config.sections import Limits
from distributary.model.build import Build, BuildStatus, stored_index, stored_stale_after
from distributary.model.change import Entry
from distributary.model.position import Fingerprint, Mark
from distributary.model.query import Query
from distributary.model.query_plan import is_expensive

# --- the registry of queries and subscriptions ----------------------------------------------------------


class QueryRow(NamedTuple):
    """A registered query; log entries refer to it by ``number``."""

    number: int
    id: str
    text: str


class RegistryChange(NamedTuple):
    """One step of the registry: a query was added, or removed (``text`` is None)."""

    version: int
    number: int
    id: str
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """What decides whether a resume is exact (R17).

    ``number`` identifies the query only on the history it was read from (see ``Attached``). ``since`` is the
    count at which the query was registered, ``last`` the number of its last change.
    """

    number: int
    since: int
    last: int
    epoch: str
    seq: int
    floor: int
    history_id: str = ""


class Registered(NamedTuple):
    """The result of ``register``: the query's number and state, and whether the query is new."""

    number: int
    version: int
    created: bool
    state: QueryState


class StoredSubscription(NamedTuple):
    """One subscriber's use of a query. ``begun``: the snapshot may be sent."""

    id: str
    query_id: str
    begun: bool
    expires: int


class QueryLimits(NamedTuple):
    """How many different queries a view may have, 0 for any; ``expensive``: the query at hand is."""

    queries: int = 0
    expensive_queries: int = 0
    expensive: bool = False


NO_QUERY_LIMITS = QueryLimits()


def query_limits(limits: Limits, query: Query) -> QueryLimits:
    """Return the limits that apply when this query is registered."""
    return QueryLimits(limits.queries_per_view, limits.expensive_queries_per_view, is_expensive(query))


# --- views and builds -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewInfo:
    """The state of a view: the ids of its builds ("" for none) and its definition as stored JSON.

    ``last_record`` is the time at which the source last gave a record, ``now`` the current time, both in ms
    by the store's clock. ``displaced`` are builds that were replaced and have still to be dropped.
    """

    live: str
    next: str
    definition: str
    version: int
    last_record: int
    now: int
    run_id: str
    displaced: tuple[str, ...] = ()

    @property
    def stale_after(self) -> float | None:
        """The number of seconds without a record after which the view is stale; None: never."""
        return stored_stale_after(self.definition)

    @property
    def stale(self) -> bool:
        """Whether the source has been silent for too long; one that never gave a record is not stale."""
        after = self.stale_after
        return after is not None and self.last_record > 0 and self.now - self.last_record > after * 1000


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """The fingerprints, by partition, that identify the records a build was made from.

    ``read`` are those at the marks of what its reducers read, ``source`` those before which the re-keying
    query has finished, ``copied`` the last ones of the internal topic at that point.
    """

    read: Mapping[int, Fingerprint] = field(default_factory=dict)
    source: Mapping[int, Fingerprint] = field(default_factory=dict)
    copied: Mapping[int, Fingerprint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildInfo:
    """The state of a build.

    ``fault`` is the last error of a reducer: the generation it ran under and what it raised. ``failed`` is
    when the build's query last failed (ms by the store's clock) and why. ``first`` is how many partitions the
    topic had when the build began. ``rekey`` forces re-keying whatever the configuration says; ``internal``
    is the id of the topic with the re-keyed records, ``rekey_offsets`` how far each source partition was
    re-keyed. ``partition_states`` is what reducers store beside their marks.
    """

    epoch: str
    generation: int
    seq: int
    floor: int
    rows: int
    status: BuildStatus
    reason: str
    incomplete: bool
    records: int
    dead: int
    topic: str
    definition: str
    marks: Mapping[int, Mark]
    partition_states: Mapping[int, str]
    rekey_offsets: Mapping[int, int]
    fault: str
    first: int
    rekey: bool
    driver: str
    internal: str = ""
    fingerprints: Fingerprints = Fingerprints()
    failed: str = ""

    @property
    def indexed_fields(self) -> list[str]:
        """The fields by whose value rows can be found."""
        return stored_index(self.definition)


class BuildCheckpoint(NamedTuple):
    """A past state of a build: at ``time`` (ms) its count was ``seq``, its partitions at ``marks``."""

    epoch: str
    seq: int
    time: int
    marks: Mapping[int, Mark]


# --- writing --------------------------------------------------------------------------------------------


def fresh_epoch() -> str:
    """Return a random name for a new count of changes."""
    return secrets.token_hex(4)


class Claim(NamedTuple):
    """The right of a driver to run a build, carried by every task of its queries.

    It holds as long as no other driver has claimed the build and the server is on the history on which it was
    made: a driver that is refused starts again from the marks of a new claim (R1, R2).
    """

    epoch: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The result of ``claim``: where to continue; ``renewed``: the epoch is a new one."""

    claim: Claim
    marks: Mapping[int, Mark]
    rekey_offsets: Mapping[int, int]
    renewed: bool
    fingerprints: Fingerprints = Fingerprints()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The right of a reducer to write one partition, and where to continue.

    ``mark`` is None when nothing was ever written; ``partition_state`` is what the reducer stored beside it
    (watermarks and the like), "" for nothing; ``clock`` is the time at which its timed queries were last
    matched, 0 for never.
    """

    epoch: str
    token: int
    mark: Mark | None
    partition_state: str
    version: int
    queries: Sequence[QueryRow]
    clock: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeGroup:
    """One group of changes for ``write``."""

    build: Build
    partition: int
    epoch: str
    generation: int
    token: int
    number: int
    """Counts the groups under one token, from 1: the same number again is a retry."""
    version: int
    """The version of the registry that the changes were matched at."""
    follows: Mark | None
    """The mark before the group."""
    mark: Mark
    """The mark after it."""
    partition_state: str
    """What the reducer stores beside the mark."""
    fingerprint: str
    """Of the record at the mark; "" leaves the stored one unchanged."""
    count: int
    blob: bytes
    """``encode_changes`` of ``count`` changes."""
    rows: Mapping[str, tuple[int, bytes | None, int, bool]] = field(default_factory=dict)
    """By row key: index of the row's last change, the new row (None: removed), its expiry (ms or 0), and
    whether the reducer believes that the row is new."""
    queries: Mapping[int, int] = field(default_factory=dict)
    """By query number: index of the last change that concerns the query."""
    records: int = 0
    dead: int = 0
    index_added: Sequence[str] = ()
    """Entries of the row index (see ``row_index.entry``) to add."""
    index_removed: Sequence[str] = ()
    clock: int = 0
    """The time (ms) at which timed queries were matched; 0 leaves the partition's unchanged."""


# --- reading --------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A stored row: JSON bytes, the number of its last change, its owner and expiry (ms, 0 for never).

    ``state`` is what the reduce rule stores with the row; in a group it follows the row's JSON (which is one
    line) after a line feed.
    """

    seq: int
    owner: int
    expires: int
    json: bytes
    state: bytes = b""


class RowPage(NamedTuple):
    """Part of a build's rows; ``cursor`` 0 ends. ``seq`` is the count at which the page was read.

    ``clocks`` is the time at which the timed queries of each partition (a row's owner) were last matched.
    """

    epoch: str
    seq: int
    cursor: int
    rows: list[tuple[str, Row]]
    clocks: Mapping[int, int] = MappingProxyType({})


class RowsRead(NamedTuple):
    """Rows by key or by the index, with the epoch, seq and clocks they are true at."""

    epoch: str
    seq: int
    rows: list[tuple[str, Row]]
    clocks: Mapping[int, int] = MappingProxyType({})


class LogRead(NamedTuple):
    """Entries after a number. The log is complete after ``floor``; ``seq`` is its top."""

    epoch: str
    seq: int
    floor: int
    entries: list[Entry]


# --- processes and servers ------------------------------------------------------------------------------


class ProcessHeartbeat(NamedTuple):
    """The last heartbeat of a process: its figures as JSON, and its age."""

    component: str
    id: str
    stats: str
    age_ms: int


def latest_heartbeats(heartbeats: Iterable[ProcessHeartbeat]) -> list[ProcessHeartbeat]:
    """Join the heartbeats of several servers: the latest one of each process."""
    found: dict[tuple[str, str], ProcessHeartbeat] = {}
    for one in heartbeats:
        known = found.get((one.component, one.id))
        if known is None or one.age_ms < known.age_ms:
            found[one.component, one.id] = one
    return sorted(found.values())


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server of the store: its address without a password, and its views (last known, if it is down).

    ``error`` is why it does not respond, ``refuses`` why it takes no writes ("" when it does), ``used`` and
    ``limit`` are its memory in bytes (0: no limit).
    """

    address: str
    answers: bool
    views: list[str]
    error: str = ""
    refuses: str = ""
    used: int = 0
    limit: int = 0
