"""The values that the store takes and gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from distributary.config.limits_section import Limits
from distributary.model.build import Build, stored_index, stored_stale_after
from distributary.model.change import Entry
from distributary.model.fingerprint import Fingerprint
from distributary.model.position import Mark
from distributary.model.query import Query
from distributary.model.query_plan import is_expensive


class QueryRow(NamedTuple):
    """A registered query: ``number`` is what log entries call it."""

    number: int
    id: str
    text: str


class RegistryChange(NamedTuple):
    """One step of the registry: a query came, or (text None) went."""

    version: int
    number: int
    id: str
    text: str | None


class Claim(NamedTuple):
    """What a driver's start gave it, and every task of its queries carries.

    It holds as long as no other driver has claimed the build and the server's history is the one it was made
    on: whoever is refused starts again from the marks of a new claim (R1, R2).
    """

    epoch: str
    generation: int


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """By which the records that a build was made from are recognised again, by partition.

    ``read`` are those at the marks of what its reducers read, ``source`` those before which the re-keying
    query has finished, ``copied`` the last ones of the internal topic when it had.
    """

    read: Mapping[int, Fingerprint] = field(default_factory=dict)
    source: Mapping[int, Fingerprint] = field(default_factory=dict)
    copied: Mapping[int, Fingerprint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A driver's right to run a build; ``hops`` is how far each source partition was re-keyed."""

    claim: Claim
    marks: Mapping[int, Mark]
    hops: Mapping[int, int]
    renewed: bool
    fingerprints: Fingerprints = Fingerprints()


@dataclass(frozen=True, slots=True)
class Opened:
    """A reducer's right to write one partition, and where to go on.

    ``mark`` is None when nothing was ever written; ``memo`` is what the reducer
    wrote beside it (watermarks and the like), '' when nothing; ``clock`` the time
    at which its timed queries were last matched, 0 when never.
    """

    epoch: str
    token: int
    mark: Mark | None
    memo: str
    version: int
    queries: Sequence[QueryRow]
    clock: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """One group of changes for ``write``.

    ``number`` counts the groups under one token, from 1: the same number again
    is a retry. ``fingerprint`` is that of the record at the mark; '' leaves the
    stored one as it is. ``blob`` is ``encode_changes`` of ``count`` changes.
    ``rows`` maps a row key to (index in ``changes`` of the row's last change,
    new row or None when it is gone, expiry in ms or 0, whether the reducer
    believes that the row is new). ``queries`` maps a query's number to the
    index of the last change that concerns it. ``found`` and ``lost`` are entries
    of the row index (see ``entry``) that come and go. ``clock`` is the time (ms)
    at which timed queries were matched; 0 leaves the partition's as it is.
    """

    build: Build
    partition: int
    epoch: str
    generation: int
    token: int
    number: int
    version: int
    follows: Mark | None
    mark: Mark
    memo: str
    fingerprint: str
    count: int
    blob: bytes
    rows: Mapping[str, tuple[int, bytes | None, int, bool]] = field(default_factory=dict)
    queries: Mapping[int, int] = field(default_factory=dict)
    records: int = 0
    dead: int = 0
    found: Sequence[str] = ()
    lost: Sequence[str] = ()
    clock: int = 0


class Row(NamedTuple):
    """A stored row: JSON bytes, the number of its last change, its owner and expiry (ms, 0 never).

    ``state`` is what the reduce rule remembers beside the row; in a group it
    follows the row's JSON (which is one line) after a line feed.
    """

    seq: int
    owner: int
    expires: int
    json: bytes
    state: bytes = b""


class Page(NamedTuple):
    """Part of a build's rows; ``cursor`` 0 ends. ``seq`` is the count when this page was read.

    ``clocks`` says for each partition (a row's owner) at which time its timed queries were.
    """

    epoch: str
    seq: int
    cursor: int
    rows: list[tuple[str, Row]]
    clocks: Mapping[int, int] = MappingProxyType({})


class Found(NamedTuple):
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


class Place(NamedTuple):
    """Where a build once stood: at ``seq`` its partitions were folded up to ``marks``, at ``time`` (ms)."""

    epoch: str
    seq: int
    time: int
    marks: Mapping[int, Mark]


class QueryState(NamedTuple):
    """What decides whether a resume is true (R17).

    ``number`` means this query only on the history that it was read from (see ``Attached``).
    """

    number: int
    since: int
    last: int
    epoch: str
    seq: int
    floor: int
    history_id: str = ""


class Registered(NamedTuple):
    """A subscription's place: its query's number and state, and whether the query is new."""

    number: int
    version: int
    created: bool
    state: QueryState


class Subscription(NamedTuple):
    """One subscriber's use of a query. ``begun`` says that the initial state may come."""

    id: str
    query_id: str
    begun: bool
    expires: int


class ViewInfo(NamedTuple):
    """The state of a view: its builds (empty text: none) and the definition as stored JSON.

    ``fresh`` is when the source last gave a record (store's ms), ``now`` the store's clock. ``displaced``
    are builds that another one took the place of, and that are still to be dropped.
    """

    live: str
    next: str
    definition: str
    version: int
    fresh: int
    now: int
    run_id: str
    displaced: tuple[str, ...] = ()

    @property
    def stale_after(self) -> float | None:
        """After how many seconds without a record the view turns stale; None: never."""
        return stored_stale_after(self.definition)

    @property
    def stale(self) -> bool:
        """Whether the source has been silent for too long; one that never gave a record is not stale."""
        after = self.stale_after
        return after is not None and self.fresh > 0 and self.now - self.fresh > after * 1000


class BuildInfo(NamedTuple):
    """The state of a build; ``status`` is ``building``, ``live`` or ``stopped``.

    ``fault`` is a reducer's last word: the generation it ran under and what it raised.
    ``first`` is how many partitions the topic had when the build began; ``rekey``
    says that it must be re-keyed whatever the configuration says; ``internal``
    is the id of the topic of its re-keyed records. ``failed`` is when its query
    last failed (store's ms) and why.
    """

    epoch: str
    generation: int
    seq: int
    floor: int
    rows: int
    status: str
    reason: str
    incomplete: bool
    records: int
    dead: int
    topic: str
    definition: str
    marks: Mapping[int, Mark]
    memos: Mapping[int, str]
    hops: Mapping[int, int]
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


class Beat(NamedTuple):
    """What a running process last said of itself, and how long ago."""

    part: str
    id: str
    stats: str
    age_ms: int


class ServerState(NamedTuple):
    """One server of the store: its address without a password, and the views there (last known, if down).

    ``error`` is why it does not answer, ``refuses`` why it takes no writes ('' when it does), ``used`` and
    ``limit`` are its memory in bytes (0: no limit).
    """

    address: str
    answers: bool
    views: list[str]
    error: str = ""
    refuses: str = ""
    used: int = 0
    limit: int = 0


class Caps(NamedTuple):
    """How many different queries a view may have, 0 for any; ``expensive`` says of which kind one is."""

    queries: int = 0
    expensive_queries: int = 0
    expensive: bool = False


NO_CAPS = Caps()


def youngest(beats: Iterable[Beat]) -> list[Beat]:
    """Join what several servers were told: of each process its last word."""
    found: dict[tuple[str, str], Beat] = {}
    for beat in beats:
        known = found.get((beat.part, beat.id))
        if known is None or beat.age_ms < known.age_ms:
            found[beat.part, beat.id] = beat
    return sorted(found.values())


def caps_of(limits: Limits, query: Query) -> Caps:
    """Return how many queries a view may have when this one is registered."""
    return Caps(limits.queries_per_view, limits.expensive_queries_per_view, is_expensive(query))


class Attached(NamedTuple):
    """All that follows comes after this position; whatever was held before is void.

    Comes first, and again whenever the live build, its epoch or the server's
    history changed, or a hole was found. ``history_id`` names one server's
    uninterrupted time as primary: after a restart or a failover it is another,
    and writes of before may be lost, or their numbers given again.
    """

    build: Build
    epoch: str
    seq: int
    history_id: str = ""


class Entries(NamedTuple):
    """Groups of changes, without a hole after what came before."""

    entries: list[Entry]


class Begun(NamedTuple):
    """A subscription's initial state may come now."""

    subscription: str


class Ended(NamedTuple):
    """Somebody ended a subscription that others may still listen by."""

    subscription: str


class Lapsed(NamedTuple):
    """Subscriptions that nobody renewed in time were ended; whoever serves one all the same must renew it."""

    subscriptions: tuple[str, ...]


class Gone(NamedTuple):
    """The view does not exist (any more)."""

    view: str


TailEvent = Attached | Entries | Begun | Ended | Lapsed | Gone
