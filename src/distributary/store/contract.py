"""The store's contract: what is atomic, what is ordered, what may be refused.

A *view* has one *live* build and, while it is being rebuilt, a *next* one. A
*build* is a set of rows with a log, an epoch and a count of changes. The
registry of queries and subscriptions belongs to the view, so both builds match
the same queries.

Promises every implementation keeps, held by one suite in ``tests/contract``:

* Each call is atomic. ``write`` changes rows, log, query positions and the
  partition's mark together, or nothing.
* ``write`` is refused unless epoch, generation, token and the mark it follows
  are the stored ones (``Fenced``), and unless it was matched at the registry's
  version (``Behind``). The same group sent again under the same token is a success.
* A row has one owner: the partition that first wrote it (``NotOwner``).
* ``seq`` counts changes without holes within an epoch, over all partitions.
* Whatever is read from the log is whole groups in order; ``floor`` says after
  which number the log is complete.
* Time is the store's own clock.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

from distributary.config.limits_section import Limits
from distributary.errors import BadQuery, LimitExceeded
from distributary.model.build import Build, stored_index, stored_stale_after
from distributary.model.change import Entry
from distributary.model.fingerprint import Fingerprint
from distributary.model.position import Mark
from distributary.model.query import Query
from distributary.model.query_plan import is_expensive
from distributary.store.log_tail import TailEvent

LOG_BYTES = 4 << 20
"""About how much one read of the log brings at most; one group always comes."""

SWEEP_BATCH = 200
"""Lapsed subscriptions that one sweep removes at most: the store does nothing else meanwhile."""


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


class Fenced(Exception):
    """Somebody newer writes this partition, or the store is not where we were. Stop or open again."""


class BuildGone(Fenced):
    """There is no such build any more."""


class NotOwner(Exception):
    """A row of this group belongs to another partition: the view must be re-keyed."""

    def __init__(self, key: str, owner: int) -> None:
        super().__init__(f"row {key!r} is owned by partition {owner}")
        self.key = key
        self.owner = owner


class Behind(Exception):
    """The registry moved on: match these too and write again. ``changes`` None: read it whole."""

    def __init__(self, version: int, changes: Sequence[RegistryChange] | None) -> None:
        super().__init__(f"the registry is at version {version}")
        self.version = version
        self.changes = changes


class Suspect(Exception):
    """The build's keys contradict each other (a torn write): rebuild it."""


class TopicReplaced(Exception):
    """The feed's topic is not the one this build was made from (R8): rebuild it."""


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


def id_taken(query_id: str) -> BadQuery:
    """Make the error of a query whose id is that of another: its rows would be the other's."""
    return BadQuery(f"another query has the id {query_id[:40]}", hint="change the filter a little")


def youngest(beats: Iterable[Beat]) -> list[Beat]:
    """Join what several servers were told: of each process its last word."""
    found: dict[tuple[str, str], Beat] = {}
    for beat in beats:
        known = found.get((beat.part, beat.id))
        if known is None or beat.age_ms < known.age_ms:
            found[beat.part, beat.id] = beat
    return sorted(found.values())


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


class WriterStore(Protocol):
    """What reducers and their driver use (blocking; one owner, one connection)."""

    def define(self, view: str, build: str, definition: str) -> None:
        """Note that a view is to be built; becomes live at once when the view has no live build.

        A build that was under way is displaced.
        """

    def claim(self, build: Build, topic: str, partitions: int, driver: str = "") -> Claimed:
        """Raise the build's generation; renew its epoch when the server is not the one it knew.

        ``driver`` names who claims, so that a claim whose answer was lost is known as one's own.
        ``topic`` is the Kafka topic's id; a different one, or fewer partitions, raises TopicReplaced.
        """

    def open(self, build: Build, partition: int, claim: Claim) -> Opened:
        """Raise the partition's token. Raises Fenced when the claim does not hold any more.

        Only ``claim`` renews an epoch: a server that restarted may have lost writes of an earlier batch, and
        nobody but the driver, who starts again from the marks, would fold those records again.
        """

    def assign(self, build: Build, claim: Claim, partitions: Sequence[int]) -> None:
        """Say which Kafka partition each task of the claim's query reads: that of task n is the n-th."""

    def assigned(self, build: Build, claim: Claim) -> Sequence[int]:
        """Read what ``assign`` said under the same claim; empty when it has not said anything yet."""

    def write(self, group: Group) -> int:
        """Apply a group; return the seq of its last change. Raises Fenced, NotOwner or Behind."""

    def advance(
        self,
        build: Build,
        claim: Claim,
        ends: Mapping[int, int],
        *,
        hop: bool = False,
        last: Mapping[int, Fingerprint] | None = None,
        copied: Mapping[int, Fingerprint] | None = None,
    ) -> bool:
        """Move partitions past filtered records; False when the claim does not hold any more (R12).

        ``last`` are the records just before the ends, where there are any; ``copied`` with ``hop`` the last
        ones of the internal topic.

        With ``hop`` it is the re-keying query's place in the source that moves (R7).
        """

    def rows(self, build: Build, keys: Sequence[str]) -> list[Row | None]:
        """Read rows by key."""

    def scan(self, build: Build, cursor: int, count: int) -> tuple[int, list[tuple[str, Row]]]:
        """Read some rows, and the cursor to go on with (0 ends); one that stays throughout is not missed."""

    def place(self, build: Build, every_ms: int, keep: int) -> None:
        """Note where the build stands, unless the last note is younger or the same; keep so many notes."""

    def now(self) -> int:
        """The store's clock (ms)."""

    def expired(self, build: Build, partition: int, limit: int) -> tuple[int, list[str]]:
        """Return the store's clock (ms) and keys of this partition whose time is over."""

    def registry(self, view: str) -> tuple[int, list[QueryRow]]:
        """Read the registry whole, with its version."""

    def missed(self, view: str, version: int) -> Behind | None:
        """Say what the registry has more than at a version; None when that is where it is."""

    def go_live(self, build: Build, generation: int | None = None, *, fence: bool = False) -> str:
        """Make a caught-up build the live one; return the build it displaced ('' when none).

        Raises Fenced when it is not of this generation any more: deleted, or made again, meanwhile.
        With ``fence`` the generation rises: whoever built it without telling of changes writes no more.
        """

    def rebuild(self, build: Build, generation: int, reason: str = "") -> None:
        """Forget a build's rows, log and marks; it begins again under a new epoch and generation.

        Raises Fenced when its generation is another: a driver that was superseded ends nobody's work.
        """

    def drop(self, build: Build) -> bool:
        """Remove a displaced build and all its keys; False when it is one of its view's (again)."""

    def note(self, build: Build, **fields: str) -> None:
        """Write plain facts beside a build (status, reason, incomplete, lag …)."""

    def fresh(self, view: str) -> None:
        """Say that the view's source is giving records, by the store's clock."""

    def drop_view(self, view: str) -> None:
        """Remove a view, its builds, queries and subscriptions."""

    def beat(self, part: str, id: str, stats: str) -> None:
        """Say that a process lives, with its figures as JSON."""

    def beats(self) -> list[Beat]:
        """Read what all processes last said; those silent for over a minute are left out."""

    def flushed(self) -> bool:
        """Say whether the store has forgotten everything (FLUSHALL, an empty disk)."""

    def views(self) -> dict[str, ViewInfo]:
        """Read all views."""

    def build(self, build: Build) -> BuildInfo | None:
        """Read a build's state."""


class Caps(NamedTuple):
    """How many different queries a view may have, 0 for any; ``expensive`` says of which kind one is."""

    queries: int = 0
    expensive_queries: int = 0
    expensive: bool = False


NO_CAPS = Caps()


def caps_of(limits: Limits, query: Query) -> Caps:
    """Return how many queries a view may have when this one is registered."""
    return Caps(limits.queries_per_view, limits.expensive_queries_per_view, is_expensive(query))


def registry_full(view: str, caps: Caps, *, expensive: bool) -> LimitExceeded:
    """Make the error of a query too many."""
    if expensive:
        most, kind = caps.expensive_queries, " that no index can help"
    else:
        most, kind = caps.queries, ""
    return LimitExceeded(
        f'limit exceeded: {most:,} different queries of the view "{view}"{kind}',
        hint="filter by equality or by range of a field, as others do" if expensive else "try again later",
    )


class ReaderStore(Protocol):
    """What publishers and the control API use (asyncio)."""

    async def servers(self) -> list[ServerState]:
        """Say of each server of the store whether it answers, within seconds, and how it is; never raises."""

    async def views(self) -> list[str]:
        """Name all views; those on a server that does not answer are left out, while another does."""

    async def view(self, view: str) -> ViewInfo | None:
        """Read a view's state; None when there is none of that name."""

    async def build(self, build: Build) -> BuildInfo | None:
        """Read a build's state."""

    async def register(
        self,
        view: str,
        query_id: str,
        text: str,
        subscription: str,
        ttl_ms: int,
        begun: bool,
        caps: Caps = NO_CAPS,
    ) -> Registered:
        """Add a subscription and, if new, its query, raising the version. Idempotent by subscription id.

        Raises LimitExceeded for a new query where there are as many as ``caps`` allow.

        Raises KeyError for a view that there is not, BadQuery (`id_taken`) where another query has the id.
        """

    async def subscription(self, view: str, subscription: str) -> Subscription | None:
        """Read a subscription that has not lapsed."""

    async def begin(self, view: str, subscription: str, ttl_ms: int) -> bool:
        """Mark it begun and tell the publishers; False when it was begun already. KeyError when unknown."""

    async def renew(self, view: str, subscriptions: Sequence[str], ttl_ms: int) -> list[str]:
        """Push their expiry ahead; return those that are gone."""

    async def end(self, view: str, subscription: str, *, tell: bool = False) -> bool:
        """Remove a subscription and, with the last one, its query. False when unknown.

        With ``tell`` whoever follows the view hears of it.
        """

    async def sweep(self, view: str) -> list[str]:
        """Remove lapsed subscriptions, at most ``SWEEP_BATCH``; return their ids.

        Whoever follows the view hears of them.
        """

    async def query_text(self, view: str, query_id: str) -> QueryRow | None:
        """Find a registered query by id."""

    async def query_state(self, view: str, query_id: str) -> QueryState | None:
        """Read what R17 needs, of the live build."""

    async def rows(self, build: Build, keys: Sequence[str]) -> Found:
        """Read the rows with these keys, those that are there."""

    async def find(self, build: Build, field: str, value: str, limit: int) -> Found | None:
        """Read the rows that are indexed under a field's value; None when there are more than ``limit``."""

    async def page(self, build: Build, cursor: int, count: int) -> Page:
        """Read some rows; a row may come twice, one that stays throughout is not missed."""

    async def log(self, build: Build, after: int, limit: int) -> LogRead:
        """Read whole groups that end after a number; at most about ``limit`` changes and ``LOG_BYTES``."""

    async def place(self, build: Build, *, seq: int | None = None, time: int | None = None) -> Place | None:
        """Read the newest note of where the build stood at or before a count, or a time (ms)."""

    async def find_subscription(self, subscription: str) -> str | None:
        """Name the view that a subscription belongs to."""

    async def revoke(self, user: str, *, keep_ms: int = 0) -> int:
        """Note that what a user was given before now no longer counts; return that moment (ms).

        It never goes back. Notes of other users older than ``keep_ms`` are forgotten (0: none), but not
        those of API keys (``key:NAME``).
        """

    async def revoked(self, users: Sequence[str]) -> dict[str, int]:
        """Read of these users who was ever revoked, and when last (ms)."""

    async def hold(self, what: str, holder: str, change: int, limit: int | None, ttl_ms: int) -> bool:
        """Note that a process holds so much more (or less) of something; False where that is too much.

        ``limit`` is for all processes together, None for no limit. What is less is never refused. What a
        process did not renew within ``ttl_ms`` does not count.
        """

    async def renew_holds(self, holder: str, amounts: Mapping[str, int], ttl_ms: int) -> None:
        """Note all that a process holds, by name, whatever was noted of it before."""

    async def spend(self, what: str, cost: float, rate: float, burst: float) -> float:
        """Spend of a budget that refills at ``rate`` a second up to ``burst``.

        Returns 0, or in how many seconds the cost could be spent; then nothing was.
        """

    def tail(self, view: str) -> AsyncGenerator[TailEvent, None]:
        """Follow the live build's log. Begins with Attached; goes on through lost connections."""

    async def beat(self, part: str, id: str, stats: str) -> None:
        """Say that a process lives, with its figures as JSON."""

    async def beats(self) -> list[Beat]:
        """Read what all processes last said; those silent for over a minute are left out."""
