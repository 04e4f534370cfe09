"""What the store in memory holds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from distributary.model.build import Build, BuildStatus
from distributary.model.change import Entry
from distributary.model.position import Mark
from distributary.store.errors import (
    BuildGone,
)
from distributary.store.log_events import Begun, Ended, Lapsed
from distributary.store.redis_codec import fingerprints
from distributary.store.store_types import (
    BuildCheckpoint,
    BuildInfo,
    ProcessHeartbeat,
    QueryRow,
    RegistryChange,
    Row,
    ViewInfo,
    fresh_epoch,
)


@dataclass
class MemoryPartition:
    """What is stored of a partition of a build."""

    token: int = 0
    number: int = 0  # of the last group under the token
    mark: Mark | None = None
    state: str = ""  # what the reducer stores beside the mark
    seq: int = 0  # of the last change of the last group
    clock: int = 0  # when timed queries were last matched (ms)


@dataclass
class MemoryBuild:
    """What is stored of a build."""

    epoch: str
    definition: str
    run: str = ""  # the run of the server under which the build was claimed
    generation: int = 0
    seq: int = 0
    status: str = BuildStatus.BUILDING
    # What `update_build` sets.
    fields: dict[str, str] = field(default_factory=dict)
    topic: str = ""
    count: int = 0  # partitions of the topic
    first: int = 0  # partitions when the build began
    driver: str = ""
    records: int = 0
    dead: int = 0
    partitions: dict[int, MemoryPartition] = field(default_factory=dict)
    # By partition: up to where filtered records were skipped, and where the re-keying query is.
    ends: dict[int, int] = field(default_factory=dict)
    rekey_offsets: dict[int, int] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)
    # By query number: the count at registration, and the last change.
    since: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    index: set[str] = field(default_factory=set)
    checkpoints: list[BuildCheckpoint] = field(default_factory=list)

    def at(self, partition: int) -> MemoryPartition:
        """Return a partition, created at its first use."""
        return self.partitions.setdefault(partition, MemoryPartition())

    @property
    def clocks(self) -> dict[int, int]:
        """When timed queries were last matched, by partition."""
        return {n: p.clock for n, p in self.partitions.items() if p.clock}

    @property
    def marks(self) -> dict[int, Mark]:
        """How far each partition is: its last write, or the end of a batch whose rest was filtered out."""
        found = {n: p.mark for n, p in self.partitions.items() if p.mark is not None}
        for n, end in self.ends.items():
            found[n] = max(found.get(n, Mark(0)), Mark(end))
        return found

    @property
    def floor(self) -> int:
        """The number after which the log is complete."""
        return self.log[0].first - 1 if self.log else self.seq


@dataclass
class MemoryView:
    """What is stored of a view."""

    live: str = ""
    next: str = ""
    definition: str = ""
    version: int = 0
    numbers: int = 0  # the last number of a query
    last_record: int = 0  # when the source last gave a record (ms)
    queries: dict[str, QueryRow] = field(default_factory=dict)
    expensive: set[str] = field(default_factory=set)
    steps: list[RegistryChange] = field(default_factory=list)
    # By id: the query, whether it has begun, and when it lapses (ms).
    subscriptions: dict[str, tuple[str, bool, int]] = field(default_factory=dict)
    builds: dict[str, MemoryBuild] = field(default_factory=dict)
    displaced: list[str] = field(default_factory=list)
    notices: list[Begun | Ended | Lapsed | None] = field(default_factory=list)
    """Events for followers; None: look up the view again."""


class MemoryState:
    """All that the store holds, and who waits for a change of it."""

    def __init__(self, *, log_length: int = 100_000, clock: Callable[[], float] = time.time) -> None:
        self.log_length = log_length
        self.clock = clock
        self.run_id = fresh_epoch()
        self.views: dict[str, MemoryView] = {}
        self.heartbeats: dict[tuple[str, str], tuple[int, str]] = {}
        self.revoked: dict[str, int] = {}
        self.reserved: dict[str, dict[str, tuple[int, int]]] = {}
        self.spent: dict[str, float] = {}
        self._waiting: set[asyncio.Future[None]] = set()

    def now(self) -> int:
        """Return the time by the store's clock (ms)."""
        return int(self.clock() * 1000)

    def restart(self) -> None:
        """Become another run of the server, as after a crash or a failover."""
        self.run_id = fresh_epoch()
        self.wake()

    def wake(self) -> None:
        """Wake those who wait for a change; safe from any thread."""
        for waiter in list(self._waiting):
            if not waiter.done():
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)

    async def wait(self) -> None:
        """Wait for a change, one second at most."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            async with asyncio.timeout(1.0):
                await waiter
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(waiter)

    def view_info(self, view: MemoryView) -> ViewInfo:
        """Describe a view."""
        return ViewInfo(
            live=view.live,
            next=view.next,
            definition=view.definition,
            version=view.version,
            last_record=view.last_record,
            now=self.now(),
            run_id=self.run_id,
            displaced=tuple(view.displaced),
        )

    def build_info(self, build: Build) -> BuildInfo | None:
        """Describe a build."""
        view = self.views.get(build.view)
        b = view.builds.get(build.id) if view else None
        if b is None:
            return None
        return BuildInfo(
            epoch=b.epoch,
            generation=b.generation,
            seq=b.seq,
            floor=b.floor,
            rows=len(b.rows),
            status=BuildStatus(b.status),
            reason=b.fields.get("reason", ""),
            incomplete=b.fields.get("incomplete") == "1",
            records=b.records,
            dead=b.dead,
            topic=b.topic,
            definition=b.definition,
            marks=b.marks,
            partition_states={n: p.state for n, p in b.partitions.items() if p.state},
            rekey_offsets=dict(b.rekey_offsets),
            fault=b.fields.get("fault", ""),
            first=b.first,
            rekey=b.fields.get("rekey", "") == "1",
            driver=b.driver,
            internal=b.fields.get("internal", ""),
            fingerprints=fingerprints(b.fingerprints),
            failed=b.fields.get("failed", ""),
        )

    def recent_heartbeats(self) -> list[ProcessHeartbeat]:
        """List the heartbeats of all processes."""
        now = self.now()
        return [
            ProcessHeartbeat(component, id, stats, now - at)
            for (component, id), (at, stats) in sorted(self.heartbeats.items())
        ]

    def find(self, build: Build) -> MemoryBuild:
        """Return a build, or raise BuildGone."""
        view = self.views.get(build.view)
        found = view.builds.get(build.id) if view else None
        if found is None:
            raise BuildGone(f"GONE no build {build.id} of {build.view}")
        return found

    def renew(self, build: MemoryBuild, view: MemoryView) -> bool:
        """Renew the epoch if the build was last claimed under another run of the server."""
        if build.run == self.run_id:
            return False
        build.run, build.epoch = self.run_id, fresh_epoch()
        view.notices.append(None)
        return True

    def forget(self, view: MemoryView, subscription: str) -> bool:
        """Remove a subscription and, with the last one, its query."""
        found = view.subscriptions.pop(subscription, None)
        if found is None:
            return False
        query = found[0]
        if not any(other[0] == query for other in view.subscriptions.values()):
            row = view.queries.pop(query)
            view.version += 1
            view.steps.append(RegistryChange(view.version, row.number, row.id, None))
            for build in view.builds.values():
                build.since.pop(row.number, None)
                build.last.pop(row.number, None)
        return True


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
