"""The store in memory: the same contract in plain Python, for tests and for reading."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from distributary.model.build import Build
from distributary.model.change import Entry, decode_changes
from distributary.model.fingerprint import Fingerprint
from distributary.model.position import Mark
from distributary.store import row_index
from distributary.store.contract import LOG_BYTES, SWEEP_BATCH
from distributary.store.errors import (
    Behind,
    BuildGone,
    Fenced,
    NotOwner,
    TopicReplaced,
    id_taken,
    registry_full,
)
from distributary.store.redis_codec import assigned, assignment, fingerprints, fresh_epoch
from distributary.store.store_types import (
    NO_CAPS,
    Attached,
    Beat,
    Begun,
    BuildInfo,
    Caps,
    Claim,
    Claimed,
    Ended,
    Entries,
    Found,
    Gone,
    Group,
    Lapsed,
    LogRead,
    Opened,
    Page,
    Place,
    QueryRow,
    QueryState,
    Registered,
    RegistryChange,
    Row,
    ServerState,
    Subscription,
    TailEvent,
    ViewInfo,
)


@dataclass
class _Partition:
    token: int = 0
    number: int = 0
    mark: Mark | None = None
    memo: str = ""
    seq: int = 0
    clock: int = 0


@dataclass
class _Build:
    epoch: str
    definition: str
    run: str = ""
    generation: int = 0
    seq: int = 0
    status: str = "building"
    notes: dict[str, str] = field(default_factory=dict)
    topic: str = ""
    count: int = 0
    first: int = 0
    driver: str = ""
    records: int = 0
    dead: int = 0
    partitions: dict[int, _Partition] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    hops: dict[int, int] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)
    since: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    index: set[str] = field(default_factory=set)
    places: list[Place] = field(default_factory=list)

    def at(self, partition: int) -> _Partition:
        return self.partitions.setdefault(partition, _Partition())

    @property
    def clocks(self) -> dict[int, int]:
        return {n: p.clock for n, p in self.partitions.items() if p.clock}

    @property
    def floor(self) -> int:
        return self.log[0].first - 1 if self.log else self.seq


@dataclass
class _View:
    live: str = ""
    next: str = ""
    definition: str = ""
    version: int = 0
    numbers: int = 0
    fresh: int = 0
    queries: dict[str, QueryRow] = field(default_factory=dict)
    expensive: set[str] = field(default_factory=set)
    steps: list[RegistryChange] = field(default_factory=list)
    subscriptions: dict[str, tuple[str, bool, int]] = field(default_factory=dict)
    builds: dict[str, _Build] = field(default_factory=dict)
    displaced: list[str] = field(default_factory=list)
    notices: list[Begun | Ended | Lapsed | None] = field(default_factory=list)
    """What followers are told; None: to look where the view is."""


class MemoryStore:
    """One store with two faces: ``writer`` for reducers, ``reader`` for publishers."""

    def __init__(self, *, log_length: int = 100_000, clock: Callable[[], float] = time.time) -> None:
        self.keep = log_length
        self.clock = clock
        self.run_id = fresh_epoch()
        self.all: dict[str, _View] = {}
        self.beats: dict[tuple[str, str], tuple[int, str]] = {}
        self.revoked: dict[str, int] = {}
        self.held: dict[str, dict[str, tuple[int, int]]] = {}
        self.spent: dict[str, float] = {}
        self.writer = MemoryWriter(self)
        self.reader = MemoryReader(self)
        self._waiting: set[asyncio.Future[None]] = set()

    def now(self) -> int:
        return int(self.clock() * 1000)

    def restart(self) -> None:
        """Be another run of the server, as after a crash or a failover."""
        self.run_id = fresh_epoch()
        self.wake()

    def wake(self) -> None:
        for waiter in list(self._waiting):
            if not waiter.done():
                waiter.get_loop().call_soon_threadsafe(_settle, waiter)

    async def wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            async with asyncio.timeout(1.0):
                await waiter
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(waiter)

    def find(self, build: Build) -> _Build:
        view = self.all.get(build.view)
        found = view.builds.get(build.id) if view else None
        if found is None:
            raise BuildGone(f"GONE no build {build.id} of {build.view}")
        return found

    def renew(self, build: _Build, view: _View) -> bool:
        if build.run == self.run_id:
            return False
        build.run, build.epoch = self.run_id, fresh_epoch()
        view.notices.append(None)
        return True

    def forget(self, view: _View, subscription: str) -> bool:
        held = view.subscriptions.pop(subscription, None)
        if held is None:
            return False
        query = held[0]
        if not any(other[0] == query for other in view.subscriptions.values()):
            row = view.queries.pop(query)
            view.version += 1
            view.steps.append(RegistryChange(view.version, row.number, row.id, None))
            for build in view.builds.values():
                build.since.pop(row.number, None)
                build.last.pop(row.number, None)
        return True


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class MemoryWriter:
    """Implements ``WriterStore`` in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def define(self, view: str, build: str, definition: str) -> None:
        v = self._store.all.setdefault(view, _View())
        b = v.builds.setdefault(build, _Build(fresh_epoch(), definition))
        b.definition = definition
        v.displaced = [one for one in v.displaced if one != build]
        if v.next not in ("", build):
            v.displaced.append(v.next)
            v.next = ""
        if v.live in ("", build):
            v.live, v.definition, v.next = build, definition, ""
        else:
            v.next = build

    def claim(self, build: Build, topic: str, partitions: int, driver: str = "") -> Claimed:
        b = self._store.find(build)
        if b.topic and (b.topic != topic or b.count > partitions):
            raise TopicReplaced(f"TOPIC {b.topic} {b.count}")
        renewed = self._store.renew(b, self._store.all[build.view])
        b.topic, b.count, b.first = topic, partitions, b.first or partitions
        b.generation += 1
        b.driver = driver
        self._store.wake()
        claim = Claim(b.epoch, b.generation)
        return Claimed(claim, self._marks(b), dict(b.hops), renewed, fingerprints(b.fingerprints))

    def open(self, build: Build, partition: int, claim: Claim) -> Opened:
        b = self._store.find(build)
        view = self._store.all[build.view]
        if not self._holds(b, claim):
            raise Fenced(f"FENCED claim {b.epoch} {b.generation}")
        p = b.at(partition)
        p.token += 1
        p.number = 0
        self._store.wake()
        return Opened(b.epoch, p.token, p.mark, p.memo, view.version, list(view.queries.values()), p.clock)

    def assign(self, build: Build, claim: Claim, partitions: Sequence[int]) -> None:
        self.note(build, tasks=assignment(claim, partitions))

    def assigned(self, build: Build, claim: Claim) -> Sequence[int]:
        return assigned(claim, self._store.find(build).notes.get("tasks", ""))

    def write(self, group: Group) -> int:
        b = self._store.find(group.build)
        view = self._store.all[group.build.view]
        p = b.at(group.partition)
        if (b.epoch, b.generation, p.token) != (group.epoch, group.generation, group.token):
            raise Fenced(f"FENCED {b.epoch} {b.generation} {p.token}")
        if p.number == group.number and p.mark == group.mark:
            return p.seq
        if p.number != group.number - 1 or p.mark != group.follows:
            raise Fenced(f"FENCED group {p.number} mark {p.mark}")
        if (group.count or group.clock) and view.version != group.version:
            raise _behind(view, group.version)
        for key, (_, json, _, new) in group.rows.items():
            held = b.rows.get(key)
            if new and json is not None and held is not None and held.owner != group.partition:
                raise NotOwner(key, held.owner)
        first = b.seq + 1
        for key, (index, json, expires, _) in group.rows.items():
            if json is None:
                b.rows.pop(key, None)
            else:
                text, _, state = json.partition(b"\n")
                b.rows[key] = Row(first + index, group.partition, expires, text, state)
        b.index.difference_update(group.lost)
        b.index.update(group.found)
        for number, index in group.queries.items():
            b.last[number] = first + index
        if group.count:
            b.seq += group.count
            b.log.append(Entry(b.seq, decode_changes(group.blob)))
            while len(b.log) > 1 and b.log[0].last < b.seq - self._store.keep:
                del b.log[0]
        p.seq, p.mark, p.number, p.memo = b.seq, group.mark, group.number, group.memo
        p.clock = group.clock or p.clock
        if group.fingerprint:
            b.fingerprints[f"f:{group.partition}"] = group.fingerprint
        b.records += group.records
        b.dead += group.dead
        self._store.wake()
        return b.seq

    def _holds(self, build: _Build, claim: Claim) -> bool:
        return (build.epoch, build.generation) == claim and build.run == self._store.run_id

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
        b = self._store.find(build)
        if not self._holds(b, claim):
            return False
        for partition, end in ends.items():
            held = b.hops if hop else b.ends
            if end > held.get(partition, -1):
                held[partition] = end
                if last and partition in last:
                    b.fingerprints[f"{'fh' if hop else 'fe'}:{partition}"] = str(last[partition])
        b.fingerprints |= {f"fi:{partition}": str(one) for partition, one in (copied or {}).items()}
        return True

    def rows(self, build: Build, keys: Sequence[str]) -> list[Row | None]:
        b = self._store.find(build)
        return [b.rows.get(key) for key in keys]

    def scan(self, build: Build, cursor: int, count: int) -> tuple[int, list[tuple[str, Row]]]:
        return 0, list(self._store.find(build).rows.items())

    def place(self, build: Build, every_ms: int, keep: int) -> None:
        b = self._store.find(build)
        b.places = [one for one in b.places if one.epoch == b.epoch]
        place = Place(b.epoch, b.seq, self._store.now(), self._marks(b))
        last = b.places[-1] if b.places else None
        if b.count and (
            last is None
            or (place.time - last.time >= max(1, every_ms) and place != last._replace(time=place.time))
        ):
            b.places = [*b.places, place][-keep:]

    def now(self) -> int:
        return self._store.now()

    def expired(self, build: Build, partition: int, limit: int) -> tuple[int, list[str]]:
        now = self._store.now()
        rows = self._store.find(build).rows
        due = [k for k, r in rows.items() if r.owner == partition and 0 < r.expires <= now]
        return now, sorted(due, key=lambda k: rows[k].expires)[:limit]

    def registry(self, view: str) -> tuple[int, list[QueryRow]]:
        v = self._store.all[view]
        return v.version, list(v.queries.values())

    def missed(self, view: str, version: int) -> Behind | None:
        v = self._store.all[view]
        return _behind(v, version) if v.version != version else None

    def go_live(self, build: Build, generation: int | None = None, *, fence: bool = False) -> str:
        found = self._store.all.get(build.view)
        if generation is not None:
            held = found.builds.get(build.id) if found else None
            if held is None or held.generation != generation:
                raise Fenced(f"FENCED generation {held.generation if held else None}")
        view = self._store.all[build.view]
        b = self._store.find(build)
        b.generation += fence
        old, view.live, view.definition = view.live, build.id, b.definition
        if view.next == build.id:
            view.next = ""
        b.status = "live"
        b.notes["reason"] = ""
        view.notices.append(None)
        self._store.wake()
        if old == build.id:
            return ""
        view.displaced += filter(None, [old])
        return old

    def rebuild(self, build: Build, generation: int, reason: str = "") -> None:
        old = self._store.find(build)
        view = self._store.all[build.view]
        if old.generation != generation:
            raise Fenced(f"FENCED generation {old.generation}")
        kept = {"reason": reason, "rekey": old.notes.get("rekey", "")}
        view.builds[build.id] = _Build(
            fresh_epoch(), old.definition, self._store.run_id, old.generation + 1, old.seq, notes=kept
        )
        view.notices.append(None)
        self._store.wake()

    def drop(self, build: Build) -> bool:
        view = self._store.all[build.view]
        if build.id in (view.live, view.next):
            return False
        view.builds.pop(build.id, None)
        view.displaced = [one for one in view.displaced if one != build.id]
        return True

    def note(self, build: Build, **fields: str) -> None:
        view = self._store.all.get(build.view)
        found = view.builds.get(build.id) if view else None
        if found is not None:
            found.status = fields.pop("status", found.status)
            found.notes.update(fields)

    def fresh(self, view: str) -> None:
        if view in self._store.all:
            self._store.all[view].fresh = self._store.now()

    def drop_view(self, view: str) -> None:
        self._store.all.pop(view, None)
        self._store.wake()

    def beat(self, part: str, id: str, stats: str) -> None:
        self._store.beats[part, id] = (self._store.now(), stats)

    def beats(self) -> list[Beat]:
        now = self._store.now()
        return [Beat(p, i, stats, now - at) for (p, i), (at, stats) in sorted(self._store.beats.items())]

    def flushed(self) -> bool:
        """Say whether the store has forgotten everything."""
        return not self._store.all

    def views(self) -> dict[str, ViewInfo]:
        return {name: self._store.reader.info(view) for name, view in sorted(self._store.all.items())}

    def build(self, build: Build) -> BuildInfo | None:
        view = self._store.all.get(build.view)
        b = view.builds.get(build.id) if view else None
        if b is None:
            return None
        return BuildInfo(
            b.epoch,
            b.generation,
            b.seq,
            b.floor,
            len(b.rows),
            b.status,
            b.notes.get("reason", ""),
            b.notes.get("incomplete") == "1",
            b.records,
            b.dead,
            b.topic,
            b.definition,
            self._marks(b),
            {n: p.memo for n, p in b.partitions.items() if p.memo},
            dict(b.hops),
            b.notes.get("fault", ""),
            b.first,
            b.notes.get("rekey", "") == "1",
            b.driver,
            b.notes.get("internal", ""),
            fingerprints(b.fingerprints),
            b.notes.get("failed", ""),
        )

    @staticmethod
    def _marks(build: _Build) -> dict[int, Mark]:
        found = {n: p.mark for n, p in build.partitions.items() if p.mark is not None}
        for n, end in build.ends.items():
            found[n] = max(found.get(n, Mark(0)), Mark(end))
        return found


def _behind(view: _View, version: int) -> Behind:
    return Behind(view.version, [step for step in view.steps if step.version > version])


class MemoryReader:
    """Implements ``ReaderStore`` in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def info(self, view: _View) -> ViewInfo:
        now, run = self._store.now(), self._store.run_id
        told = tuple(view.displaced)
        return ViewInfo(view.live, view.next, view.definition, view.version, view.fresh, now, run, told)

    async def close(self) -> None:
        """Nothing to close."""

    async def ping(self) -> None:
        """Always answers."""

    async def servers(self) -> list[ServerState]:
        return [ServerState("memory", True, sorted(self._store.all))]

    async def views(self) -> list[str]:
        return sorted(self._store.all)

    async def view(self, view: str) -> ViewInfo | None:
        found = self._store.all.get(view)
        return self.info(found) if found else None

    async def build(self, build: Build) -> BuildInfo | None:
        return self._store.writer.build(build)

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
        v = self._store.all[view]
        row = v.queries.get(query_id)
        created = row is None
        if row is not None and row.text != text:
            raise id_taken(query_id)
        if row is None:
            if caps.queries and len(v.queries) >= caps.queries:
                raise registry_full(view, caps, expensive=False)
            v.expensive &= v.queries.keys()
            if caps.expensive:
                if caps.expensive_queries and len(v.expensive) >= caps.expensive_queries:
                    raise registry_full(view, caps, expensive=True)
                v.expensive.add(query_id)
            v.numbers += 1
            v.version += 1
            row = v.queries[query_id] = QueryRow(v.numbers, query_id, text)
            v.steps.append(RegistryChange(v.version, row.number, row.id, text))
            for id in (v.live, v.next):
                if id:
                    v.builds[id].since[row.number] = v.builds[id].seq
        held = v.subscriptions.get(subscription, (query_id, begun, 0))
        v.subscriptions[subscription] = (held[0], held[1], self._store.now() + ttl_ms)
        b = v.builds[v.live]
        return Registered(row.number, v.version, created, self._state(b, row.number, b.seq))

    async def subscription(self, view: str, subscription: str) -> Subscription | None:
        v = self._store.all.get(view)
        held = v.subscriptions.get(subscription) if v else None
        if held is None or held[2] < self._store.now():
            return None
        return Subscription(subscription, held[0], held[1], held[2])

    async def find_subscription(self, subscription: str) -> str | None:
        for view in self._store.all:
            if await self.subscription(view, subscription) is not None:
                return view
        return None

    async def begin(self, view: str, subscription: str, ttl_ms: int) -> bool:
        if await self.subscription(view, subscription) is None:
            raise KeyError(subscription)
        v = self._store.all[view]
        query, begun, _ = v.subscriptions[subscription]
        if begun:
            return False
        v.subscriptions[subscription] = (query, True, self._store.now() + ttl_ms)
        v.notices.append(Begun(subscription))
        self._store.wake()
        return True

    async def renew(self, view: str, subscriptions: Sequence[str], ttl_ms: int) -> list[str]:
        v = self._store.all.get(view, _View())
        for id in subscriptions:
            if id in v.subscriptions:
                query, begun, _ = v.subscriptions[id]
                v.subscriptions[id] = (query, begun, self._store.now() + ttl_ms)
        return [id for id in subscriptions if id not in v.subscriptions]

    async def end(self, view: str, subscription: str, *, tell: bool = False) -> bool:
        v = self._store.all.get(view)
        if v is None or not self._store.forget(v, subscription):
            return False
        if tell:
            v.notices.append(Ended(subscription))
            self._store.wake()
        return True

    async def sweep(self, view: str) -> list[str]:
        v = self._store.all.get(view, _View())
        now = self._store.now()
        due = [id for id, held in v.subscriptions.items() if held[2] <= now][:SWEEP_BATCH]
        for id in due:
            self._store.forget(v, id)
        if due:
            v.notices.append(Lapsed(tuple(due)))
            self._store.wake()
        return due

    async def query_text(self, view: str, query_id: str) -> QueryRow | None:
        v = self._store.all.get(view)
        return v.queries.get(query_id) if v else None

    async def query_state(self, view: str, query_id: str) -> QueryState | None:
        row = await self.query_text(view, query_id)
        if row is None:
            return None
        v = self._store.all[view]
        b = v.builds[v.live]
        return self._state(b, row.number, b.floor)

    def _state(self, b: _Build, n: int, floor: int) -> QueryState:
        since, last = b.since.get(n, 0), b.last.get(n, 0)
        return QueryState(n, since, last, b.epoch, b.seq, floor, self._store.run_id)

    async def rows(self, build: Build, keys: Sequence[str]) -> Found:
        b = self._store.find(build)
        return Found(b.epoch, b.seq, [(key, b.rows[key]) for key in keys if key in b.rows], b.clocks)

    async def find(self, build: Build, field: str, value: str, limit: int) -> Found | None:
        b = self._store.find(build)
        first, after = row_index.bounds(field, value)
        keys = sorted(row_index.key_of(one) for one in b.index if first <= one < after)
        if len(keys) > limit:
            return None
        return Found(b.epoch, b.seq, [(key, b.rows[key]) for key in keys if key in b.rows], b.clocks)

    async def page(self, build: Build, cursor: int, count: int) -> Page:
        # Rows by the hash of their key, which does not move when others come or go.
        b = self._store.find(build)
        order = sorted((crc32(key.encode()) + 1, key) for key in b.rows)
        rest = [pair for pair in order if pair[0] > cursor]
        some = rest[:count]
        while len(some) < len(rest) and rest[len(some)][0] == some[-1][0]:
            some.append(rest[len(some)])
        after = some[-1][0] if len(some) < len(rest) else 0
        return Page(b.epoch, b.seq, after, [(key, b.rows[key]) for _, key in some], b.clocks)

    async def log(self, build: Build, after: int, limit: int) -> LogRead:
        b = self._store.find(build)
        some: list[Entry] = []
        changes = size = 0
        for e in b.log[bisect_right([e.last for e in b.log], after) :]:
            if changes >= limit or size >= LOG_BYTES:
                break
            some.append(e)
            changes += len(e.changes)
            size += sum(len(change.row) + len(change.fields) for change in e.changes)
        return LogRead(b.epoch, b.seq, b.floor, some)

    async def place(self, build: Build, *, seq: int | None = None, time: int | None = None) -> Place | None:
        found = [
            one
            for one in self._store.find(build).places
            if (one.seq <= seq if seq is not None else one.time <= (time or 0))
        ]
        return found[-1] if found else None

    async def hold(self, what: str, holder: str, change: int, limit: int | None, ttl_ms: int) -> bool:
        now, held = self._store.now(), self._store.held.setdefault(what, {})
        others = sum(amount for name, (amount, end) in held.items() if name != holder and end > now)
        own = held.get(holder, (0, 0))[0]
        amount = max(0, own + change)
        if amount > own and limit is not None and others + amount > limit:
            return False
        await self.renew_holds(holder, {what: amount}, ttl_ms)
        return True

    async def renew_holds(self, holder: str, amounts: Mapping[str, int], ttl_ms: int) -> None:
        for what, amount in amounts.items():
            held = self._store.held.setdefault(what, {})
            held[holder] = (amount, self._store.now() + ttl_ms)
            if not amount:
                del held[holder]

    async def spend(self, what: str, cost: float, rate: float, burst: float) -> float:
        now = self._store.now() / 1000
        full = max(now, self._store.spent.get(what, 0.0)) + cost / rate
        wait = full - burst / rate - now
        if wait > 1e-6:  # sums of fractions are not exact
            return wait
        self._store.spent[what] = full
        return 0.0

    async def revoke(self, user: str, *, keep_ms: int = 0) -> int:
        notes = self._store.revoked
        moment = notes[user] = max(self._store.now(), notes.get(user, 0))
        old = [one for one, at in notes.items() if at < moment - keep_ms and not one.startswith("key:")]
        for one in old if keep_ms else ():
            del notes[one]
        return moment

    async def revoked(self, users: Sequence[str]) -> dict[str, int]:
        return {user: self._store.revoked[user] for user in users if user in self._store.revoked}

    async def tail(self, view: str) -> AsyncGenerator[TailEvent, None]:
        place: tuple[str, str, str] | None = None
        seq = noticed = 0
        while True:
            v = self._store.all.get(view)
            if v is None or v.live not in v.builds:
                yield Gone(view)
                return
            b = v.builds[v.live]
            truth = (v.live, b.epoch, self._store.run_id)
            if place != truth or b.floor > seq > 0:
                if place is None:
                    noticed = len(v.notices)
                place, seq = truth, b.seq
                yield Attached(Build(view, v.live), b.epoch, b.seq, self._store.run_id)
                continue
            fresh = [e for e in b.log if e.last > seq]
            told = [notice for notice in v.notices[noticed:] if notice is not None]
            noticed = len(v.notices)
            if fresh:
                seq = fresh[-1].last
                yield Entries(fresh)
            for notice in told:
                yield notice
            if not fresh and not told:
                await self._store.wait()

    async def beat(self, part: str, id: str, stats: str) -> None:
        self._store.writer.beat(part, id, stats)

    async def beats(self) -> list[Beat]:
        return self._store.writer.beats()
