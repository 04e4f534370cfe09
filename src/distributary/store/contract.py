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

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from distributary.model.build import Build
from distributary.model.position import Fingerprint
from distributary.store.errors import Behind
from distributary.store.store_types import (
    NO_QUERY_LIMITS,
    BuildCheckpoint,
    BuildInfo,
    Claim,
    Claimed,
    Group,
    Heartbeat,
    LogRead,
    Opened,
    Page,
    QueryLimits,
    QueryRow,
    QueryState,
    Registered,
    Row,
    RowsRead,
    ServerState,
    Subscription,
    TailEvent,
    ViewInfo,
)

LOG_BYTES = 4 << 20
"""About how much one read of the log brings at most; one group always comes."""

SWEEP_BATCH = 200
"""Lapsed subscriptions that one sweep removes at most: the store does nothing else meanwhile."""


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
        rekey: bool = False,
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

    def save_checkpoint(self, build: Build, every_ms: int, keep: int) -> None:
        """Note where the build stands, unless the last note is younger or the same; keep so many notes."""

    def now(self) -> int:
        """The store's clock (ms)."""

    def expired(self, build: Build, partition: int, limit: int) -> tuple[int, list[str]]:
        """Return the store's clock (ms) and keys of this partition whose time is over."""

    def registry(self, view: str) -> tuple[int, list[QueryRow]]:
        """Read the registry whole, with its version."""

    def registry_diff(self, view: str, version: int) -> Behind | None:
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

    def update_build(self, build: Build, **fields: str) -> None:
        """Write plain facts beside a build (status, reason, incomplete, lag …)."""

    def mark_source_active(self, view: str) -> None:
        """Say that the view's source is giving records, by the store's clock."""

    def drop_view(self, view: str) -> None:
        """Remove a view, its builds, queries and subscriptions."""

    def heartbeat(self, component: str, id: str, stats: str) -> None:
        """Say that a process lives, with its figures as JSON."""

    def heartbeats(self) -> list[Heartbeat]:
        """Read what all processes last said; those silent for over a minute are left out."""

    def flushed(self) -> bool:
        """Say whether the store has forgotten everything (FLUSHALL, an empty disk)."""

    def views(self) -> dict[str, ViewInfo]:
        """Read all views."""

    def build(self, build: Build) -> BuildInfo | None:
        """Read a build's state."""


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
        limits: QueryLimits = NO_QUERY_LIMITS,
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

    async def end(self, view: str, subscription: str, *, notify: bool = False) -> bool:
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

    async def rows(self, build: Build, keys: Sequence[str]) -> RowsRead:
        """Read the rows with these keys, those that are there."""

    async def find_by_index(self, build: Build, field: str, value: str, limit: int) -> RowsRead | None:
        """Read the rows that are indexed under a field's value; None when there are more than ``limit``."""

    async def page(self, build: Build, cursor: int, count: int) -> Page:
        """Read some rows; a row may come twice, one that stays throughout is not missed."""

    async def log(self, build: Build, after: int, limit: int) -> LogRead:
        """Read whole groups that end after a number; at most about ``limit`` changes and ``LOG_BYTES``."""

    async def find_checkpoint(
        self, build: Build, *, seq: int | None = None, time: int | None = None
    ) -> BuildCheckpoint | None:
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

    async def reserve(self, what: str, holder: str, change: int, limit: int | None, ttl_ms: int) -> bool:
        """Note that a process holds so much more (or less) of something; False where that is too much.

        ``limit`` is for all processes together, None for no limit. What is less is never refused. What a
        process did not renew within ``ttl_ms`` does not count.
        """

    async def renew_reservations(self, holder: str, amounts: Mapping[str, int], ttl_ms: int) -> None:
        """Note all that a process holds, by name, whatever was noted of it before."""

    async def spend(self, what: str, cost: float, rate: float, burst: float) -> float:
        """Spend of a budget that refills at ``rate`` a second up to ``burst``.

        Returns 0, or in how many seconds the cost could be spent; then nothing was.
        """

    def tail(self, view: str) -> AsyncGenerator[TailEvent, None]:
        """Follow the live build's log. Begins with Attached; goes on through lost connections."""

    async def heartbeat(self, component: str, id: str, stats: str) -> None:
        """Say that a process lives, with its figures as JSON."""

    async def heartbeats(self) -> list[Heartbeat]:
        """Read what all processes last said; those silent for over a minute are left out."""
