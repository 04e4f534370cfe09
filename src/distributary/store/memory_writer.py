"""The writer of the store in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distributary.model.build import Build
from distributary.model.change import Entry, decode_changes
from distributary.model.position import Fingerprint
from distributary.store.errors import (
    Behind,
    Fenced,
    NotOwner,
    TopicReplaced,
)
from distributary.store.memory_state import MemoryBuild, MemoryState, MemoryView
from distributary.store.redis_codec import assigned, assignment, fingerprints
from distributary.store.store_types import (
    BuildCheckpoint,
    BuildInfo,
    ChangeGroup,
    Claim,
    Claimed,
    Opened,
    ProcessHeartbeat,
    QueryRow,
    Row,
    ViewInfo,
    fresh_epoch,
)


class MemoryWriter:
    """Implements ``WriterStore`` in memory."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def define(self, view: str, build: str, definition: str) -> None:
        v = self._state.views.setdefault(view, MemoryView())
        b = v.builds.setdefault(build, MemoryBuild(fresh_epoch(), definition))
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
        b = self._state.find(build)
        if b.topic and (b.topic != topic or b.count > partitions):
            raise TopicReplaced(f"TOPIC {b.topic} {b.count}")
        renewed = self._state.renew(b, self._state.views[build.view])
        b.topic, b.count, b.first = topic, partitions, b.first or partitions
        b.generation += 1
        b.driver = driver
        self._state.wake()
        claim = Claim(b.epoch, b.generation)
        return Claimed(
            claim=claim,
            marks=b.marks,
            rekey_offsets=dict(b.rekey_offsets),
            renewed=renewed,
            fingerprints=fingerprints(b.fingerprints),
        )

    def open(self, build: Build, partition: int, claim: Claim) -> Opened:
        b = self._state.find(build)
        view = self._state.views[build.view]
        if not self._holds(b, claim):
            raise Fenced(f"FENCED claim {b.epoch} {b.generation}")
        p = b.at(partition)
        p.token += 1
        p.number = 0
        self._state.wake()
        return Opened(
            epoch=b.epoch,
            token=p.token,
            mark=p.mark,
            partition_state=p.state,
            version=view.version,
            queries=list(view.queries.values()),
            clock=p.clock,
        )

    def assign(self, build: Build, claim: Claim, partitions: Sequence[int]) -> None:
        self.update_build(build, tasks=assignment(claim, partitions))

    def assigned(self, build: Build, claim: Claim) -> Sequence[int]:
        return assigned(claim, self._state.find(build).fields.get("tasks", ""))

    def write(self, group: ChangeGroup) -> int:
        b = self._state.find(group.build)
        view = self._state.views[group.build.view]
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
            row = b.rows.get(key)
            if new and json is not None and row is not None and row.owner != group.partition:
                raise NotOwner(key, row.owner)
        first = b.seq + 1
        for key, (index, json, expires, _) in group.rows.items():
            if json is None:
                b.rows.pop(key, None)
            else:
                text, _, state = json.partition(b"\n")
                b.rows[key] = Row(first + index, group.partition, expires, text, state)
        b.index.difference_update(group.index_removed)
        b.index.update(group.index_added)
        for number, index in group.queries.items():
            b.last[number] = first + index
        if group.count:
            b.seq += group.count
            b.log.append(Entry(b.seq, decode_changes(group.blob)))
            while len(b.log) > 1 and b.log[0].last < b.seq - self._state.log_length:
                del b.log[0]
        p.seq, p.mark, p.number, p.state = b.seq, group.mark, group.number, group.partition_state
        p.clock = group.clock or p.clock
        if group.fingerprint:
            b.fingerprints[f"f:{group.partition}"] = group.fingerprint
        b.records += group.records
        b.dead += group.dead
        self._state.wake()
        return b.seq

    def _holds(self, build: MemoryBuild, claim: Claim) -> bool:
        return (build.epoch, build.generation) == claim and build.run == self._state.run_id

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
        b = self._state.find(build)
        if not self._holds(b, claim):
            return False
        for partition, end in ends.items():
            offsets = b.rekey_offsets if rekey else b.ends
            if end > offsets.get(partition, -1):
                offsets[partition] = end
                if last and partition in last:
                    b.fingerprints[f"{'fh' if rekey else 'fe'}:{partition}"] = str(last[partition])
        b.fingerprints |= {f"fi:{partition}": str(one) for partition, one in (copied or {}).items()}
        return True

    def rows(self, build: Build, keys: Sequence[str]) -> list[Row | None]:
        b = self._state.find(build)
        return [b.rows.get(key) for key in keys]

    def scan(self, build: Build, cursor: int, count: int) -> tuple[int, list[tuple[str, Row]]]:
        return 0, list(self._state.find(build).rows.items())

    def save_checkpoint(self, build: Build, every_ms: int, keep: int) -> None:
        b = self._state.find(build)
        b.checkpoints = [one for one in b.checkpoints if one.epoch == b.epoch]
        here = BuildCheckpoint(b.epoch, b.seq, self._state.now(), b.marks)
        last = b.checkpoints[-1] if b.checkpoints else None
        if b.count and (
            last is None
            or (here.time - last.time >= max(1, every_ms) and here != last._replace(time=here.time))
        ):
            b.checkpoints = [*b.checkpoints, here][-keep:]

    def now(self) -> int:
        return self._state.now()

    def expired(self, build: Build, partition: int, limit: int) -> tuple[int, list[str]]:
        now = self._state.now()
        rows = self._state.find(build).rows
        due = [k for k, r in rows.items() if r.owner == partition and 0 < r.expires <= now]
        return now, sorted(due, key=lambda k: rows[k].expires)[:limit]

    def registry(self, view: str) -> tuple[int, list[QueryRow]]:
        v = self._state.views[view]
        return v.version, list(v.queries.values())

    def registry_diff(self, view: str, version: int) -> Behind | None:
        v = self._state.views[view]
        return _behind(v, version) if v.version != version else None

    def go_live(self, build: Build, generation: int | None = None, *, fence: bool = False) -> str:
        found = self._state.views.get(build.view)
        if generation is not None:
            known = found.builds.get(build.id) if found else None
            if known is None or known.generation != generation:
                raise Fenced(f"FENCED generation {known.generation if known else None}")
        view = self._state.views[build.view]
        b = self._state.find(build)
        b.generation += fence
        old, view.live, view.definition = view.live, build.id, b.definition
        if view.next == build.id:
            view.next = ""
        b.status = "live"
        b.fields["reason"] = ""
        view.notices.append(None)
        self._state.wake()
        if old == build.id:
            return ""
        view.displaced += filter(None, [old])
        return old

    def rebuild(self, build: Build, generation: int, reason: str = "") -> None:
        old = self._state.find(build)
        view = self._state.views[build.view]
        if old.generation != generation:
            raise Fenced(f"FENCED generation {old.generation}")
        view.builds[build.id] = MemoryBuild(
            epoch=fresh_epoch(),
            definition=old.definition,
            run=self._state.run_id,
            generation=old.generation + 1,
            seq=old.seq,
            fields={"reason": reason, "rekey": old.fields.get("rekey", "")},
        )
        view.notices.append(None)
        self._state.wake()

    def drop(self, build: Build) -> bool:
        view = self._state.views[build.view]
        if build.id in (view.live, view.next):
            return False
        view.builds.pop(build.id, None)
        view.displaced = [one for one in view.displaced if one != build.id]
        return True

    def update_build(self, build: Build, **fields: str) -> None:
        view = self._state.views.get(build.view)
        found = view.builds.get(build.id) if view else None
        if found is not None:
            found.status = fields.pop("status", found.status)
            found.fields.update(fields)

    def mark_source_active(self, view: str) -> None:
        if view in self._state.views:
            self._state.views[view].last_record = self._state.now()

    def drop_view(self, view: str) -> None:
        self._state.views.pop(view, None)
        self._state.wake()

    def heartbeat(self, component: str, id: str, stats: str) -> None:
        self._state.heartbeats[component, id] = (self._state.now(), stats)

    def heartbeats(self) -> list[ProcessHeartbeat]:
        return self._state.recent_heartbeats()

    def flushed(self) -> bool:
        """Say whether the store has forgotten everything."""
        return not self._state.views

    def views(self) -> dict[str, ViewInfo]:
        return {name: self._state.view_info(view) for name, view in sorted(self._state.views.items())}

    def build(self, build: Build) -> BuildInfo | None:
        return self._state.build_info(build)


def _behind(view: MemoryView, version: int) -> Behind:
    return Behind(view.version, [step for step in view.steps if step.version > version])
