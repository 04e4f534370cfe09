"""The store's contract: what is atomic, what is ordered, what may be refused.

A *view* has one *live* build and, while it is being rebuilt, a *next* one. A *build* is a set of rows with a
log, an epoch and a count of changes. The registry of queries and subscriptions belongs to the view, so both
builds match the same queries.

Every implementation guarantees the following; one test suite, ``tests/contract``, runs against all of them:

* Each call is atomic. ``write`` changes rows, log, query positions and the mark of the partition together, or
  nothing.
* ``write`` is refused unless epoch, generation, token and the mark it follows are the stored ones
  (``Fenced``), and unless it was matched at the registry's version (``Behind``). The same group sent again
  under the same token succeeds.
* A row has one owner: the partition that first wrote it (``NotOwner``).
* ``seq`` counts changes without gaps within an epoch, over all partitions.
* Reads of the log return whole groups in order; the log is complete after ``floor``.
* Time is the clock of the store.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from distributary.model.build import Build
from distributary.model.position import Fingerprint
from distributary.store.errors import Behind
from distributary.store.log_events import TailEvent
from distributary.store.store_types import (
    NO_QUERY_LIMITS,
    BuildCheckpoint,
    BuildInfo,
    ChangeGroup,
    Claim,
    Claimed,
    LogRead,
    Opened,
    ProcessHeartbeat,
    QueryLimits,
    QueryRow,
    QueryState,
    Registered,
    Row,
    RowPage,
    RowsRead,
    ServerState,
    StoredSubscription,
    ViewInfo,
)

LOG_BYTES = 4 << 20
"""Approximate maximum size of one read of the log; it always returns at least one group."""

SWEEP_BATCH = 200
"""Maximum number of lapsed subscriptions that one sweep removes: it blocks the store meanwhile."""


class WriterStore(Protocol):
    """What reducers and their driver use (blocking; one owner, one connection)."""

    def define(self, view: str, build: str, definition: str) -> None:
        """Add a build to a view: the live one if the view has none, else the next one.

        A previous next build is displaced.
        """

    def claim(self, build: Build, topic: str, partitions: int, driver: str = "") -> Claimed:
        """Raise the generation of the build, and renew its epoch if the server is not the one it knew.

        ``driver`` identifies the caller, which thereby recognizes its own claim if the reply was lost.
        ``topic`` is the id of the Kafka topic; a different one, or fewer partitions, raises TopicReplaced.
        """

    def open(self, build: Build, partition: int, claim: Claim) -> Opened:
        """Raise the token of the partition. Raises Fenced if the claim no longer holds.

        Only ``claim`` renews an epoch: a server that restarted may have lost writes of an earlier batch, and
        only the driver, which starts again from the marks, would fold those records again.
        """

    def assign(self, build: Build, claim: Claim, partitions: Sequence[int]) -> None:
        """Store which Kafka partition each task of the claim's query reads: task n reads the n-th."""

    def assigned(self, build: Build, claim: Claim) -> Sequence[int]:
        """Return what ``assign`` stored under the same claim; empty if it was not called yet."""

    def write(self, group: ChangeGroup) -> int:
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
        """Move partitions past filtered records; return False if the claim no longer holds (R12).

        ``last`` are the records just before the ends, where there are any. With ``rekey`` the re-keying
        query's offsets in the source topic move instead of the marks (R7), and ``copied`` are the last
        records of the internal topic.
        """

    def rows(self, build: Build, keys: Sequence[str]) -> list[Row | None]:
        """Read rows by key."""

    def scan(self, build: Build, cursor: int, count: int) -> tuple[int, list[tuple[str, Row]]]:
        """Read some rows, and the next cursor (0 at the end); a row that exists throughout is not missed."""

    def save_checkpoint(self, build: Build, every_ms: int, keep: int) -> None:
        """Save a checkpoint, unless the last one is younger or equal; keep that many."""

    def now(self) -> int:
        """Return the store's clock (ms)."""

    def expired(self, build: Build, partition: int, limit: int) -> tuple[int, list[str]]:
        """Return the store's clock (ms) and the keys of expired rows of this partition."""

    def registry(self, view: str) -> tuple[int, list[QueryRow]]:
        """Read the whole registry, with its version."""

    def registry_diff(self, view: str, version: int) -> Behind | None:
        """Return what changed in the registry since a version; None if that is the current one."""

    def go_live(self, build: Build, generation: int | None = None, *, fence: bool = False) -> str:
        """Make a caught-up build the live one; return the build it displaced ("" for none).

        Raises Fenced if its generation is another one: it was deleted, or created again. With ``fence`` the
        generation rises: a reducer that built it without emitting changes can no longer write.
        """

    def rebuild(self, build: Build, generation: int, reason: str = "") -> None:
        """Delete rows, log and marks of a build; it begins again under a new epoch and generation.

        Raises Fenced if its generation is another one, so that a superseded driver does not undo newer work.
        """

    def drop(self, build: Build) -> bool:
        """Remove a displaced build and all its keys; return False if its view uses it (again)."""

    def update_build(self, build: Build, **fields: str) -> None:
        """Set plain fields of a build (status, reason, incomplete …); does nothing if it was dropped."""

    def mark_source_active(self, view: str) -> None:
        """Record, by the store's clock, that the source of the view is giving records."""

    def drop_view(self, view: str) -> None:
        """Remove a view, its builds, queries and subscriptions."""

    def heartbeat(self, component: str, id: str, stats: str) -> None:
        """Record that a process is alive, with its figures as JSON."""

    def heartbeats(self) -> list[ProcessHeartbeat]:
        """Read the latest heartbeat of each process; those silent for over a minute are left out."""

    def flushed(self) -> bool:
        """Return whether the store has lost everything (FLUSHALL, an empty disk)."""

    def views(self) -> dict[str, ViewInfo]:
        """Read all views."""

    def build(self, build: Build) -> BuildInfo | None:
        """Read the state of a build."""


class ReaderStore(Protocol):
    """What publishers and the control API use (asyncio)."""

    async def servers(self) -> list[ServerState]:
        """Report for each server, within seconds, whether it responds, and its state; never raises."""

    async def views(self) -> list[str]:
        """List all views; those on a server that does not respond are left out, if another one does."""

    async def view(self, view: str) -> ViewInfo | None:
        """Read the state of a view; None if it does not exist."""

    async def build(self, build: Build) -> BuildInfo | None:
        """Read the state of a build."""

    async def register(
        self,
        view: str,
        *,
        query_id: str,
        text: str,
        subscription: str,
        ttl_ms: int,
        begun: bool,
        limits: QueryLimits = NO_QUERY_LIMITS,
    ) -> Registered:
        """Add a subscription and, if new, its query, which raises the version. Idempotent by subscription id.

        Raises LimitExceeded for a new query beyond ``limits``, KeyError for an unknown view, and BadQuery
        (`id_taken`) if another query has the id.
        """

    async def subscription(self, view: str, subscription: str) -> StoredSubscription | None:
        """Read a subscription that has not lapsed."""

    async def begin(self, view: str, subscription: str, ttl_ms: int) -> bool:
        """Mark it begun and notify the publishers; return False if it had begun. KeyError if unknown."""

    async def renew(self, view: str, subscriptions: Sequence[str], ttl_ms: int) -> list[str]:
        """Extend their expiry; return those that no longer exist."""

    async def end(self, view: str, subscription: str, *, notify: bool = False) -> bool:
        """Remove a subscription and, with the last one, its query; return False if it is unknown.

        With ``notify`` followers of the view are notified.
        """

    async def sweep(self, view: str) -> list[str]:
        """Remove at most ``SWEEP_BATCH`` lapsed subscriptions, and notify followers; return their ids."""

    async def query_text(self, view: str, query_id: str) -> QueryRow | None:
        """Find a registered query by id."""

    async def query_state(self, view: str, query_id: str) -> QueryState | None:
        """Read what R17 needs, of the live build."""

    async def rows(self, build: Build, keys: Sequence[str]) -> RowsRead:
        """Read the rows with these keys that exist."""

    async def find_by_index(self, build: Build, field: str, value: str, limit: int) -> RowsRead | None:
        """Read the rows that are indexed under a value of a field; None if there are more than ``limit``."""

    async def page(self, build: Build, cursor: int, count: int) -> RowPage:
        """Read some rows; a row may come twice, one that exists throughout is not missed."""

    async def log(self, build: Build, after: int, limit: int) -> LogRead:
        """Read whole groups that end after a number: about ``limit`` changes and ``LOG_BYTES`` at most."""

    async def find_checkpoint(
        self, build: Build, *, seq: int | None = None, time: int | None = None
    ) -> BuildCheckpoint | None:
        """Read the latest checkpoint at or before a count, or a time (ms)."""

    async def find_subscription(self, subscription: str) -> str | None:
        """Return the view that a subscription belongs to."""

    async def revoke(self, user: str, *, keep_ms: int = 0) -> int:
        """Revoke what a user was granted before now; return the time of the revocation (ms).

        It never goes back. Revocations of other users older than ``keep_ms`` are deleted (0: none), except
        those of API keys (``key:NAME``).
        """

    async def revoked(self, users: Sequence[str]) -> dict[str, int]:
        """Return the time (ms) of the last revocation, of those of the users that have one."""

    async def reserve(self, what: str, holder: str, change: int, limit: int | None, ttl_ms: int) -> bool:
        """Add to (or release from) what a process uses of something; return False beyond the limit.

        ``limit`` is for all processes together, None for no limit. A release always succeeds. What a process
        does not renew within ``ttl_ms`` is released.
        """

    async def renew_reservations(self, holder: str, amounts: Mapping[str, int], ttl_ms: int) -> None:
        """Set all that a process uses, by name, whatever was stored before."""

    async def spend(self, what: str, cost: float, rate: float, burst: float) -> float:
        """Spend from a budget that refills at ``rate`` per second up to ``burst``.

        Returns 0, or the seconds after which the cost could be spent; then nothing was.
        """

    def tail(self, view: str) -> AsyncGenerator[TailEvent, None]:
        """Follow the live build's log. Begins with Attached; continues through lost connections."""

    async def heartbeat(self, component: str, id: str, stats: str) -> None:
        """Record that a process is alive, with its figures as JSON."""

    async def heartbeats(self) -> list[ProcessHeartbeat]:
        """Read the latest heartbeat of each process; those silent for over a minute are left out."""
