"""The reader of the store in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Mapping, Sequence
from zlib import crc32

from distributary.model.build import Build
from distributary.model.change import Entry
from distributary.store import row_index
from distributary.store.contract import LOG_BYTES, SWEEP_BATCH
from distributary.store.errors import (
    id_taken,
    registry_full,
)
from distributary.store.log_events import Attached, Begun, Ended, Entries, Gone, Lapsed, TailEvent
from distributary.store.memory_state import MemoryBuild, MemoryState, MemoryView
from distributary.store.store_types import (
    NO_QUERY_LIMITS,
    BuildCheckpoint,
    BuildInfo,
    LogRead,
    ProcessHeartbeat,
    QueryLimits,
    QueryRow,
    QueryState,
    Registered,
    RegistryChange,
    RowPage,
    RowsRead,
    ServerState,
    StoredSubscription,
    ViewInfo,
)


class MemoryReader:
    """Implements ``ReaderStore`` in memory."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def close(self) -> None:
        """Nothing to close."""

    async def ping(self) -> None:
        """Always answers."""

    async def servers(self) -> list[ServerState]:
        return [ServerState("memory", True, sorted(self._state.views))]

    async def views(self) -> list[str]:
        return sorted(self._state.views)

    async def view(self, view: str) -> ViewInfo | None:
        found = self._state.views.get(view)
        return self._state.view_info(found) if found else None

    async def build(self, build: Build) -> BuildInfo | None:
        return self._state.build_info(build)

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
        v = self._state.views[view]
        row = v.queries.get(query_id)
        created = row is None
        if row is not None and row.text != text:
            raise id_taken(query_id)
        if row is None:
            if limits.queries and len(v.queries) >= limits.queries:
                raise registry_full(view, limits, expensive=False)
            v.expensive &= v.queries.keys()
            if limits.expensive:
                if limits.expensive_queries and len(v.expensive) >= limits.expensive_queries:
                    raise registry_full(view, limits, expensive=True)
                v.expensive.add(query_id)
            v.numbers += 1
            v.version += 1
            row = v.queries[query_id] = QueryRow(v.numbers, query_id, text)
            v.steps.append(RegistryChange(v.version, row.number, row.id, text))
            for id in (v.live, v.next):
                if id:
                    v.builds[id].since[row.number] = v.builds[id].seq
        known = v.subscriptions.get(subscription, (query_id, begun, 0))
        v.subscriptions[subscription] = (known[0], known[1], self._state.now() + ttl_ms)
        b = v.builds[v.live]
        return Registered(row.number, v.version, created, self._query_state(b, row.number, b.seq))

    async def subscription(self, view: str, subscription: str) -> StoredSubscription | None:
        v = self._state.views.get(view)
        found = v.subscriptions.get(subscription) if v else None
        if found is None or found[2] < self._state.now():
            return None
        return StoredSubscription(subscription, *found)

    async def find_subscription(self, subscription: str) -> str | None:
        for view in self._state.views:
            if await self.subscription(view, subscription) is not None:
                return view
        return None

    async def begin(self, view: str, subscription: str, ttl_ms: int) -> bool:
        if await self.subscription(view, subscription) is None:
            raise KeyError(subscription)
        v = self._state.views[view]
        query, begun, _ = v.subscriptions[subscription]
        if begun:
            return False
        v.subscriptions[subscription] = (query, True, self._state.now() + ttl_ms)
        v.notices.append(Begun(subscription))
        self._state.wake()
        return True

    async def renew(self, view: str, subscriptions: Sequence[str], ttl_ms: int) -> list[str]:
        v = self._state.views.get(view, MemoryView())
        for id in subscriptions:
            if id in v.subscriptions:
                query, begun, _ = v.subscriptions[id]
                v.subscriptions[id] = (query, begun, self._state.now() + ttl_ms)
        return [id for id in subscriptions if id not in v.subscriptions]

    async def end(self, view: str, subscription: str, *, notify: bool = False) -> bool:
        v = self._state.views.get(view)
        if v is None or not self._state.forget(v, subscription):
            return False
        if notify:
            v.notices.append(Ended(subscription))
            self._state.wake()
        return True

    async def sweep(self, view: str) -> list[str]:
        v = self._state.views.get(view, MemoryView())
        now = self._state.now()
        due = [id for id, (_, _, expires) in v.subscriptions.items() if expires <= now][:SWEEP_BATCH]
        for id in due:
            self._state.forget(v, id)
        if due:
            v.notices.append(Lapsed(tuple(due)))
            self._state.wake()
        return due

    async def query_text(self, view: str, query_id: str) -> QueryRow | None:
        v = self._state.views.get(view)
        return v.queries.get(query_id) if v else None

    async def query_state(self, view: str, query_id: str) -> QueryState | None:
        row = await self.query_text(view, query_id)
        if row is None:
            return None
        v = self._state.views[view]
        b = v.builds[v.live]
        return self._query_state(b, row.number, b.floor)

    def _query_state(self, b: MemoryBuild, n: int, floor: int) -> QueryState:
        since, last = b.since.get(n, 0), b.last.get(n, 0)
        return QueryState(
            number=n,
            since=since,
            last=last,
            epoch=b.epoch,
            seq=b.seq,
            floor=floor,
            history_id=self._state.run_id,
        )

    async def rows(self, build: Build, keys: Sequence[str]) -> RowsRead:
        b = self._state.find(build)
        return RowsRead(b.epoch, b.seq, [(key, b.rows[key]) for key in keys if key in b.rows], b.clocks)

    async def find_by_index(self, build: Build, field: str, value: str, limit: int) -> RowsRead | None:
        b = self._state.find(build)
        first, after = row_index.value_range(field, value)
        keys = sorted(row_index.key_of(one) for one in b.index if first <= one < after)
        if len(keys) > limit:
            return None
        return RowsRead(b.epoch, b.seq, [(key, b.rows[key]) for key in keys if key in b.rows], b.clocks)

    async def page(self, build: Build, cursor: int, count: int) -> RowPage:
        # Rows by the hash of their key, which does not move when others come or go.
        b = self._state.find(build)
        order = sorted((crc32(key.encode()) + 1, key) for key in b.rows)
        rest = [pair for pair in order if pair[0] > cursor]
        page = rest[:count]
        while len(page) < len(rest) and rest[len(page)][0] == page[-1][0]:
            page.append(rest[len(page)])
        after = page[-1][0] if len(page) < len(rest) else 0
        return RowPage(b.epoch, b.seq, after, [(key, b.rows[key]) for _, key in page], b.clocks)

    async def log(self, build: Build, after: int, limit: int) -> LogRead:
        b = self._state.find(build)
        entries: list[Entry] = []
        changes = size = 0
        for e in b.log[bisect_right([e.last for e in b.log], after) :]:
            if changes >= limit or size >= LOG_BYTES:
                break
            entries.append(e)
            changes += len(e.changes)
            size += sum(len(change.row) + len(change.fields) for change in e.changes)
        return LogRead(b.epoch, b.seq, b.floor, entries)

    async def find_checkpoint(
        self, build: Build, *, seq: int | None = None, time: int | None = None
    ) -> BuildCheckpoint | None:
        found = [
            one
            for one in self._state.find(build).checkpoints
            if (one.seq <= seq if seq is not None else one.time <= (time or 0))
        ]
        return found[-1] if found else None

    async def reserve(self, what: str, holder: str, change: int, limit: int | None, ttl_ms: int) -> bool:
        now, reserved = self._state.now(), self._state.reserved.setdefault(what, {})
        others = sum(amount for name, (amount, end) in reserved.items() if name != holder and end > now)
        own = reserved.get(holder, (0, 0))[0]
        amount = max(0, own + change)
        if amount > own and limit is not None and others + amount > limit:
            return False
        await self.renew_reservations(holder, {what: amount}, ttl_ms)
        return True

    async def renew_reservations(self, holder: str, amounts: Mapping[str, int], ttl_ms: int) -> None:
        for what, amount in amounts.items():
            reserved = self._state.reserved.setdefault(what, {})
            reserved[holder] = (amount, self._state.now() + ttl_ms)
            if not amount:
                del reserved[holder]

    async def spend(self, what: str, cost: float, rate: float, burst: float) -> float:
        now = self._state.now() / 1000
        full = max(now, self._state.spent.get(what, 0.0)) + cost / rate
        wait = full - burst / rate - now
        if wait > 1e-6:  # sums of fractions are not exact
            return wait
        self._state.spent[what] = full
        return 0.0

    async def revoke(self, user: str, *, keep_ms: int = 0) -> int:
        revoked = self._state.revoked
        now = revoked[user] = max(self._state.now(), revoked.get(user, 0))
        old = [one for one, at in revoked.items() if at < now - keep_ms and not one.startswith("key:")]
        for one in old if keep_ms else ():
            del revoked[one]
        return now

    async def revoked(self, users: Sequence[str]) -> dict[str, int]:
        return {user: self._state.revoked[user] for user in users if user in self._state.revoked}

    async def tail(self, view: str) -> AsyncGenerator[TailEvent, None]:
        cursor: tuple[str, str, str] | None = None
        seq = noticed = 0
        while True:
            v = self._state.views.get(view)
            if v is None or v.live not in v.builds:
                yield Gone(view)
                return
            b = v.builds[v.live]
            current = (v.live, b.epoch, self._state.run_id)
            if cursor != current or b.floor > seq > 0:
                if cursor is None:
                    noticed = len(v.notices)
                cursor, seq = current, b.seq
                yield Attached(Build(view, v.live), b.epoch, b.seq, self._state.run_id)
                continue
            new = [e for e in b.log if e.last > seq]
            notices = [notice for notice in v.notices[noticed:] if notice is not None]
            noticed = len(v.notices)
            if new:
                seq = new[-1].last
                yield Entries(new)
            for notice in notices:
                yield notice
            if not new and not notices:
                await self._state.wait()

    async def heartbeat(self, component: str, id: str, stats: str) -> None:
        self._state.heartbeats[component, id] = (self._state.now(), stats)

    async def heartbeats(self) -> list[ProcessHeartbeat]:
        return self._state.recent_heartbeats()
