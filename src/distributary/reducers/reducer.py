"""A reducer: folds one partition of one view into the store, each record exactly once.

It knows neither Spark nor Kafka: records come in, fenced groups go out. What
makes it exact: records at or before the mark that ``open`` gave are dropped
before they are folded (R3), the row cache lives no longer than one ``open``
(R4), and a group is written under a fence or not at all (R1).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from distributary.model.build import Build
from distributary.model.change import Change, encode_changes
from distributary.model.partition_state import (
    SourceProgress,
    is_repeat,
    read_event_progress,
    read_state,
    write_state,
)
from distributary.model.position import Fingerprint, Mark, checksum
from distributary.model.query import Query
from distributary.model.view import View
from distributary.reducers.event_fold import Happening, World
from distributary.reducers.query_index import Matches, QueryIndex
from distributary.reducers.record_codec import Packed, Projection
from distributary.reducers.reduce_rules import Record, Rule, window_start
from distributary.reducers.row_json import Fields, Unreadable, describe_change, read_object, write_object
from distributary.reducers.timed_queries import Moments
from distributary.reducers.write_batch import GROUP_BYTES, NOTHING, GroupTooLarge, Held, Making, Moves, Step
from distributary.store.contract import WriterStore
from distributary.store.errors import Behind, NotOwner
from distributary.store.store_types import Claim, Group, Opened

CACHE_ROWS = 50_000
TIMED_ROWS = 2_000
EXPIRED_ROWS = 1_000
SCAN_ROWS = 2_000
EVENT_ROWS, EVENT_CHANGES, EVENT_BYTES = 20_000, 2_000, 4_000_000
"""How many rows events look at, change and write in one group, about."""
EVENT_SLICE = 500
"""After how many rows that is looked at."""
WHOLE = Projection()
FUTURE_MS = 24 * 3600 * 1000
"""How far ahead of the clock an event's time may be before it is refused."""


class StoreWentBack(Exception):
    """The store holds less than was written: start again from its marks."""


class DeadLetter(NamedTuple):
    """A record that could not be read or folded, and why."""

    partition: int
    offset: int
    reason: str


RowsOut = dict[str, tuple[int, bytes | None, int, bool]]
"""The rows of a group as ``Group.rows`` has them."""

Bury = Callable[[Sequence[DeadLetter]], None]
"""Gives dead letters to their topic; returns when they are acknowledged (R14)."""

Explain = Callable[[bytes], str]


def _local() -> int:
    return int(time.time() * 1000)


class Reducer:
    """Folds the records of one partition; one thread, one store connection, one ``open`` at a time."""

    def __init__(
        self,
        store: WriterStore,
        build: Build,
        partition: int,
        claim: Claim,
        view: View,
        rule: Rule,
        bury: Bury,
        projection: Projection = WHOLE,
        *,
        quiet: bool = False,
        world: World | None = None,
        bury_events: Bury = lambda letters: None,
        explain: Explain = lambda value: "the value is not JSON",
    ) -> None:
        """``quiet`` is for a build that nobody may read yet: its rows change, and nothing is told of it.

        ``world`` is for a view with an event feed; ``bury_events`` takes that feed's dead letters.
        ``explain`` says why a value could not be parsed.
        """
        self.build = build
        self.partition = partition
        self.claim = claim
        self.index = QueryIndex()
        self.folded = 0
        self.dead = 0
        self.world = world
        self._bury_events = bury_events
        self._store = store
        self._view = view
        self._rule = rule
        self._bury = bury
        self._explain = explain
        self._project = projection.apply
        self._quiet = quiet
        self._cache: dict[str, Held] = {}
        self._opened: Opened | None = None
        self._mark: Mark | None = None
        self._written = 0
        self._version = 0
        self._watermark = 0
        self._sources: dict[int, SourceProgress] = {}
        self._part_of = Mark(-1)
        self._last: Fingerprint | None = None
        self._moments = Moments()
        self._scanned: int | None = None
        self._clock = self._stored_clock = 0
        self._ahead = 0
        self._more_due = False

    @property
    def mark(self) -> Mark | None:
        """How far this partition is folded and written."""
        return self._mark

    def sizes(self) -> dict[str, int]:
        """Count what is held for queries, to see that it shrinks again."""
        return {**self.index.sizes(), "moments": len(self._moments)}

    def open(self) -> None:
        """Take the partition; raises StoreWentBack when the store lost what was written before."""
        opened = self._store.open(self.build, self.partition, self.claim)
        if self._mark is not None and (opened.mark is None or opened.mark < self._mark):
            raise StoreWentBack(f"the store is at {opened.mark}, this reducer was at {self._mark}")
        if self.world is not None and not self.world.open(read_event_progress(opened.partition_state)):
            raise StoreWentBack("the store has fewer events folded than this reducer wrote")
        self._opened = opened
        self._mark = opened.mark
        self._written = 0
        self._version = opened.version
        self._watermark, self._sources = read_state(opened.partition_state)
        self._cache.clear()
        self.index.clear()
        self._moments.clear()
        self._scanned = None
        self._ahead = self._store.now() - _local()
        self._stored_clock = opened.clock
        self._clock = opened.clock or self._now()
        for query in opened.queries:
            self._add(query.number, query.text)
        if self.world is not None and opened.mark is not None:
            self._gather(self.world)

    def fold(self, packed: Sequence[Packed]) -> int:
        """Fold records in order and write them as one group; return how many changes came of it.

        Raises GroupTooLarge, with nothing written, when fewer of them would fit into a group.
        Any exception leaves the store as it was or with the whole group written:
        after a new ``open`` the same records may be given again.
        """
        opened = self._opened
        if opened is None:
            raise RuntimeError("open() comes first")
        if self.world is not None and self.world.under_way:
            raise RuntimeError("the event that is under way comes first")
        if not self._moments:
            self._clock = self._now()  # nobody looks at the clock: it may run
        part_of, self_mark, sources = self._part_of, self._mark, dict(self._sources)
        dead: list[DeadLetter] = []
        records, mark = self._fresh(packed, dead)
        if mark is None:
            return 0
        count = sum(not one.filtered for one in packed) if packed[-1].filtered else len(packed)
        try:
            return self._apply(records, dead, mark, count)
        except BaseException:
            self._part_of, self._mark, self._sources = part_of, self_mark, sources
            raise

    def happen(self, events: Sequence[Happening]) -> int:
        """Fold events in order, each into every row; return how many changes came of it.

        It is one group, so with many rows or events some may be left (``world.fresh``): call again. As
        with ``fold``, after any exception and a new ``open`` the same events may be given again.
        """
        world = self.world
        assert world is not None
        group, dead = Making(), list[DeadLetter]()
        reached, looked = world.reached, 0

        def full() -> bool:
            return looked >= EVENT_ROWS or group.changed >= EVENT_CHANGES or group.size >= EVENT_BYTES

        for one in world.fresh(events):
            crc = checksum(one.time, one.value)
            reached = reached._replace(offset=one.offset + 1, key=None, crc=crc)
            try:
                event, keys = world.rule.read(one), world.left(one.offset)
            except Unreadable as error:
                dead.append(DeadLetter(0, one.offset, str(error)))
                continue
            for at in range(0, len(keys), EVENT_SLICE):
                some = keys[at : at + EVENT_SLICE]
                self._load(some)
                if why := group.happen(world.rule, event, some, self._cache, quiet=self._quiet):
                    dead.append(DeadLetter(0, one.offset, why))
                looked += len(some)
                if full() and at + EVENT_SLICE < len(keys):
                    reached = reached._replace(offset=one.offset, key=some[-1])
                    break
            if full():
                break
        rows = self._rows(group, None)  # bounded above already
        if dead:
            self._bury_events(dead)
        group.dead = len(dead)
        before, world.reached = world.reached, reached
        if self._mark is None or before == reached:
            return 0  # nothing was ever written here, so there are no rows; the first write brings the place
        try:
            self._flush(group, rows, self._mark, 0)
        except BaseException:
            world.reached = before
            raise
        return len(group.steps)

    def _gather(self, world: World) -> None:
        """Read all rows of this partition: an event is for every one of them."""
        cursor = 0
        while True:
            cursor, rows = self._store.scan(self.build, cursor, SCAN_ROWS)
            for key, row in rows:
                if row.owner == self.partition:
                    held = read_object(row.json)
                    self._cache[key] = (held, row.state, row.expires)
                    world.note(key, held)
            if not cursor:
                return

    def expire(self) -> int:
        """Remove rows whose time is over: a timed write, fenced like the rest, mark unchanged (R11)."""
        if self._view.ttl is None or self._mark is None:
            return 0
        now, due = self._store.expired(self.build, self.partition, EXPIRED_ROWS)
        self._more_due = len(due) == EXPIRED_ROWS
        if not due:
            return 0
        self._load(due)
        steps: list[Step] = []
        moves = Moves(self._view.index)
        rows: RowsOut = {}
        for key in due:
            row = self._cache[key][0]
            if row is not None:
                rows[key] = (len(steps), None, 0, False)
                steps.append(Step(key, now, row, None, b"", b""))
                moves.note(key, row, None)
        self._write(steps, rows, self._mark, 0, 0, moves)
        for key in rows:
            self._cache[key] = NOTHING
            self._moments.note(key, None)
            if self.world is not None:
                self.world.note(key, None)
        self._trim()
        return len(steps)

    def tick(self) -> int:
        """Let time pass for queries with ``now()``: a timed write, fenced, mark unchanged (R11).

        Returns how many rows came to or left a query. Call it again soon while ``waits`` is 0.
        """
        if self._mark is None or self._quiet or (self._stored_clock and not self._moments):
            return 0
        self._ahead = self._store.now() - _local()
        if not self._stored_clock:
            # Readers need to know the time of rows that were there before anybody told of changes.
            return self._write([], {}, self._mark, 0, 0, Moves(()), self._now())
        if self._scanned is not None:
            self._scan()
            return 0
        keys, reached = self._moments.due(self._clock, self._now(), TIMED_ROWS)
        if not keys:
            return 0
        self._load(keys)
        steps = [
            Step(key, reached, row, row, b"", b"", reached)
            for key in keys
            if (row := self._cache[key][0]) is not None
        ]
        self._trim()
        return self._write(steps, {}, self._mark, 0, 0, Moves(()), reached)

    def waits(self) -> float | None:
        """Seconds until ``expire`` or ``tick`` has something to do; None when they never will by themselves.

        Rows that end are looked for once a second; 0.0 while more of them are known to be due.
        """
        if self._more_due:
            return 0.0
        if not self._moments or self._mark is None or self._quiet:
            return None
        if self._scanned is not None:
            return 0.0
        due = self._moments.next(self._clock)
        return None if due is None else max(0.0, (due - self._now()) / 1000)

    def _scan(self) -> None:
        """Note the moments of some more rows of this partition; what is written meanwhile is noted anyway."""
        assert self._scanned is not None
        cursor, rows = self._store.scan(self.build, self._scanned, SCAN_ROWS)
        for key, row in rows:
            if row.owner == self.partition:
                held = self._cache.get(key)
                self._moments.note(key, held[0] if held is not None else read_object(row.json))
        self._scanned = cursor or None

    def _add(self, number: int, text: str) -> None:
        query = Query.load(self.build.view, text)
        self.index.add(number, query)
        if query.timed and self._moments.watch(number, query):
            self._scanned = 0

    def _remove(self, number: int) -> None:
        self.index.remove(number)
        self._moments.drop(number)

    def _now(self) -> int:
        """The store's clock, as far as it is known here; it never goes back."""
        return max(self._clock, _local() + self._ahead)

    def refresh(self) -> None:
        """Read what the registry has more, ahead of the write that would be sent back for it."""
        missed = self._store.registry_diff(self.build.view, self._version)
        if missed is not None:
            self._catch_up(missed)

    def _read_whole(self) -> None:
        """Read the whole registry, where its log of steps does not reach back to what we know."""
        version, queries = self._store.registry(self.build.view)
        wanted = {query.number: query for query in queries}
        for number in [n for n in self.index.numbers() if n not in wanted]:
            self._remove(number)
        known = set(self.index.numbers())
        for number, query in wanted.items():
            if number not in known:
                self._add(number, query.text)
        self._caught_up(version)

    def _fresh(self, packed: Sequence[Packed], dead: list[DeadLetter]) -> tuple[list[Record], Mark | None]:
        """Drop what is folded already, number the parts of a record, and find where the group ends."""
        done = self._mark
        window = self._view.window
        project = self._project
        end, end_part = self._part_of
        found = False
        out: list[Record] = []
        for one in packed:
            partition, offset, when, event_time, key, value, unparsed, source, _, filtered = one
            part = end_part + 1 if offset == end else 0
            end, end_part = offset, part
            if done is not None and (offset, part) < done:
                continue
            found = True
            if source is not None:
                if is_repeat(self._sources, source):
                    continue
                partition, offset = source.partition, source.offset
            if filtered:
                continue
            name, reason = "", ""
            try:
                name = key.decode() if key is not None else ""
            except UnicodeDecodeError as error:
                reason = f"the row key is not UTF-8 (byte {error.start + 1})"
            if not reason and (unparsed or key is None or window is not None):
                reason = self._refuse(one)
            fields: Fields | None = None
            if value is not None and not reason:
                try:
                    fields = project(value)
                except Unreadable as error:
                    reason = str(error)
            if reason:
                dead.append(DeadLetter(partition, offset, reason))
                continue
            if window is not None:
                name = f"{name}@{window_start(event_time, window)}"
            out.append(Record(partition, offset, part, when, event_time, name, fields))
        self._part_of = Mark(end, end_part)
        self._last = Fingerprint(end, packed[-1].crc) if packed else None
        return out, Mark(end, end_part + 1) if found else None

    def _refuse(self, one: Packed) -> str:
        """Say why a record cannot be folded; empty when it can."""
        if one.unparsed:
            return self._explain(one.value) if one.value is not None else "the record has no value"
        if one.key is None:
            return f"no row key: {self._why_no_key(one)}"
        if self._view.window is not None:
            window = self._view.window
            if one.event_time > one.time + FUTURE_MS:
                return f"the event's time {one.event_time} is too far ahead"
            ends = window_start(one.event_time, window) + window * 1000
            if ends + self._view.late * 1000 <= self._watermark:
                return f"late: its window ended at {ends:.0f}, the watermark is {self._watermark}"
            self._watermark = max(self._watermark, one.event_time)
        return ""

    def _why_no_key(self, one: Packed) -> str:
        field = self._view.key
        if not field:
            return "the record has no key"
        if one.value is not None:
            return f"{field} is null or missing"
        return (
            f"the record has no value to read {field} from, and its key is used as the row key "
            f"only if the feed has partitioned_by = {field!r}"
        )

    def _apply(self, records: list[Record], dead: list[DeadLetter], mark: Mark, count: int) -> int:
        self._load({record.key for record in records})
        steps: list[Step] = []
        last: dict[str, int] = {}
        new_rows: dict[str, Held] = {}
        fold = self._rule.fold
        cache = self._cache
        ttl, quiet = self._view.ttl, self._quiet
        told = 0
        for record in records:
            key = record.key
            held = new_rows.get(key) or cache[key]
            old = held[0]
            try:
                row, state = fold(old, held[1], record)
                if row is None and old is None:
                    continue
                fields = json = b""
                if quiet or row is None:
                    pass
                elif old is None:
                    json = write_object(row)
                else:
                    fields = describe_change(old, row)
            except Unreadable as error:
                dead.append(DeadLetter(record.partition, record.offset, str(error)))
                continue
            except Exception as error:  # a user's fold function may raise anything (R14)
                dead.append(DeadLetter(record.partition, record.offset, f"{type(error).__name__}: {error}"))
                continue
            expires = int(record.time + ttl * 1000) if ttl is not None and row is not None else 0
            if quiet:
                new_rows[key] = (row, state, expires)
                continue
            same = row is not None and old is not None and not fields
            if not same or state != held[1] or expires != held[2]:
                new_rows[key] = (row, state, expires)
            if same:
                continue
            last[key] = len(steps)
            steps.append(Step(key, record.time, old, row, fields, json))
            told += len(fields) + len(json)
            if told > GROUP_BYTES and count > 1:
                raise GroupTooLarge
        group = Making(new_rows, last, steps, len(dead))
        rows = self._rows(group, GROUP_BYTES if count > 1 else None)
        if dead:
            self._bury(dead)
        self._flush(group, rows, mark, count)
        return len(steps)

    def _flush(self, group: Making, rows: RowsOut, mark: Mark, count: int) -> None:
        """Write a group and take its rows into the cache; its letters are buried already."""
        cache, new_rows = self._cache, group.rows
        moves = Moves(self._view.index)
        if self._view.index:
            for key, held in new_rows.items():
                moves.note(key, cache[key][0], held[0])
        self._write(group.steps, rows, mark, count, group.dead, moves)
        cache.update(new_rows)
        if self._moments:
            for key, held in new_rows.items():
                self._moments.note(key, held[0])
        if self.world is not None:
            for key, held in new_rows.items():
                self.world.note(key, held[0])
        self._trim()
        self.folded += count
        self.dead += group.dead

    def _trim(self) -> None:
        """Let the rows go that have been cached longest."""
        most = CACHE_ROWS
        if self.world is not None:
            most = max(most, len(self.world))  # the next event wants all of them
        if len(self._cache) > most:
            for key in list(islice(self._cache, len(self._cache) - most)):
                del self._cache[key]

    def _rows(self, group: Making, most: int | None) -> RowsOut:
        """Lay out the rows of a group: each once, as it is after its last change.

        Raises GroupTooLarge when they have more than ``most`` bytes; None: however many they have.
        """
        out: RowsOut = {}
        last, steps, size = group.last, group.steps, 0
        for key, (row, state, expires) in group.rows.items():
            index = last.get(key, -1)  # no change of its own: true as of the count before this group
            new = self._cache[key][0] is None
            if row is None:
                if not new:
                    out[key] = (index, None, 0, False)
                continue
            json = steps[index].json if key in last else b""
            json = json or write_object(row)
            out[key] = (index, json + b"\n" + state if state else json, expires, new)
            size += len(json) + len(state)
            if most is not None and size > most:
                raise GroupTooLarge
        return out

    def _load(self, keys: Iterable[str]) -> None:
        """Bring rows that are not cached from the store, in one trip."""
        missing = [key for key in keys if key not in self._cache]
        for at in range(0, len(missing), 1000):
            some = missing[at : at + 1000]
            for key, row in zip(some, self._store.rows(self.build, some), strict=True):
                if row is None:
                    self._cache[key] = NOTHING
                elif row.owner != self.partition:
                    raise NotOwner(key, row.owner)
                else:
                    self._cache[key] = (read_object(row.json), row.state, row.expires)

    def _write(
        self,
        steps: Sequence[Step],
        rows: RowsOut,
        mark: Mark,
        records: int,
        dead: int,
        moves: Moves,
        until: int = 0,
    ) -> int:
        """Match and write a group, again when the registry moved on; return how many changes it has."""
        assert self._opened is not None
        reached = self.world.reached if self.world is not None else None
        while True:
            queries: dict[int, int] = {}
            changes: list[Change] = []
            for step in steps:
                change = self._change(step, len(changes), queries)
                if change is not None:
                    changes.append(change)
            group = Group(
                build=self.build,
                partition=self.partition,
                epoch=self.claim.epoch,
                generation=self.claim.generation,
                token=self._opened.token,
                number=self._written + 1,
                version=self._version,
                follows=self._mark,
                mark=mark,
                partition_state=write_state(self._watermark, self._sources, reached),
                fingerprint="" if self._last is None or self._last.offset != mark.offset else str(self._last),
                count=len(changes),
                blob=encode_changes(changes) if changes else b"",
                rows=rows,
                queries=queries,
                records=records,
                dead=dead,
                index_added=moves.found,
                index_removed=moves.lost,
                clock=0 if self._quiet else until or self._clock,
            )
            try:
                self._store.write(group)
            except Behind as behind:
                self._catch_up(behind)
                if until:
                    return 0  # what is due now must be asked anew
                continue
            self._written += 1
            self._mark = mark
            if self.world is not None:
                self.world.stored = self.world.reached
            self._clock = self._stored_clock = group.clock or self._clock
            return len(changes)

    def _change(self, step: Step, index: int, queries: dict[int, int]) -> Change | None:
        if step.until:
            before = self.index.of(step.key, step.old, self._clock)
            after = self.index.of(step.key, step.new, step.until)
            matches = Matches(sorted(after - before), [], sorted(before - after))
            if not matches.adds and not matches.removes:
                return None
        else:
            matches = self.index.match(step.key, step.old, step.new, self._clock)
        for some in matches:
            for number in some:
                queries[number] = index
        row = step.json
        if matches.adds and not row and step.new is not None:
            row = write_object(step.new)
        return Change(step.key, step.time, step.fields, row, *matches)

    def _catch_up(self, behind: Behind) -> None:
        """Take in what the registry had more than we knew (R15)."""
        if behind.changes is None:
            self._read_whole()
            return
        for change in behind.changes:
            if change.text is None:
                self._remove(change.number)
            else:
                self._add(change.number, change.text)
        self._caught_up(behind.version)

    def _caught_up(self, version: int) -> None:
        """Go back to the stored clock: a new timed query's first rows are those of that time.

        For the others nothing is different there, since what is due moves the stored clock.
        """
        self._version = version
        if self._moments and self._stored_clock:
            self._clock = self._stored_clock
