"""An event feed over a partition's rows: every event is folded into every row, exactly once. Pure.

An event over many rows is written in several groups, in the order of the row keys. How far it is folded
(``EventProgress``) is stored with each group. Nothing else is folded until its last row is written, so a
reducer that continues in the middle of an event finds the remaining rows unchanged.
"""

from __future__ import annotations

import base64
import importlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from distributary.model.feed import Format
from distributary.model.partition_state import EventProgress
from distributary.model.position import checksum
from distributary.model.view import View
from distributary.reducers.record_codec import Packed
from distributary.reducers.reduce_rules import Event, Function, Record
from distributary.reducers.row_json import Fields, Unreadable, describe_change, read_object
from distributary.reducers.write_batch import NO_ROW, CachedRow, PendingBatch, Step

EVENT_ROWS, EVENT_CHANGES, EVENT_BYTES = 20_000, 2_000, 4_000_000
"""About how many rows events read, change and write in one group."""
EVENT_SLICE = 500
"""After how many rows these limits are checked."""


class FeedEvent(NamedTuple):
    """One record of an event feed as it arrived; ``time`` is its timestamp in ms, ``value`` None for null."""

    offset: int
    time: int
    value: bytes | None


class EventRule:
    """How an event changes a row: ``function(row, event) -> row | None``, as a view's fold function does."""

    def __init__(self, function: Callable[[Any, Event], Any], format: Format = "json") -> None:
        self._fold = Function(function).fold
        self._format = format

    def read(self, event: FeedEvent) -> Record:
        """Read an event's value by the feed's format; raises Unreadable."""
        value = None if event.value is None else _read(self._format, event.value)
        return Record(
            partition=0,
            offset=event.offset,
            part=0,
            time=event.time,
            event_time=event.time,
            key="",
            value=value,
        )

    def fold(self, key: str, row: Fields, event: Record) -> Fields | None:
        """Return the row after the event; None removes it. Raises whatever the function raises."""
        return self._fold(row, b"", event._replace(key=key))[0]


class EventBatch(NamedTuple):
    """What folding some events gives: the group to write, how far they are folded then, and dead letters."""

    batch: PendingBatch
    reached: EventProgress
    dead: list[tuple[int, str]]
    """Offsets of events that could not be read or folded, and why."""


class EventFold:
    """The keys of all rows of one partition, and how far the events are folded into them."""

    def __init__(self, topic: str, start: int, rule: EventRule, earliest: int = 0) -> None:
        """``start`` is where events begin for a partition that has stored none of them yet.

        Events that retention has removed (before ``earliest``) are skipped.
        """
        self.rule = rule
        self.reached = EventProgress(topic, start)
        """How far the events are folded."""
        self.stored: EventProgress | None = None
        """How far that is stored."""
        self._earliest = earliest
        self._keys: set[str] = set()
        self._sorted: list[str] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def open(self, stored: EventProgress | None) -> bool:
        """Continue from what the store has; the keys must be added again. False if it has less than before.

        If it has nothing there are no rows either, and no event so far has changed any.
        """
        if self.stored is not None and (stored is None or stored.order < self.stored.order):
            return False
        self.stored = stored
        self.reached = stored or self.reached
        if self.reached.offset < self._earliest:
            self.reached = self.reached._replace(offset=self._earliest, key=None, crc=None)
        self._keys.clear()
        self._sorted = None
        return True

    @property
    def under_way(self) -> bool:
        """Whether an event is folded into some rows and not into others: nothing else may be folded now."""
        return self.reached.key is not None

    def give_up(self) -> None:
        """Abandon the event that is under way: its topic does not have it any more."""
        self.reached = self.reached._replace(offset=self.reached.offset + 1, key=None, crc=None)

    def update(self, key: str, row: Fields | None) -> None:
        """Take note that a row exists, or (None) does not."""
        if row is None:
            if key in self._keys:
                self._keys.remove(key)
                self._sorted = None
        elif key not in self._keys:
            self._keys.add(key)
            self._sorted = None

    def remaining_keys(self, offset: int) -> Sequence[str]:
        """The keys of the rows that the event at ``offset`` must still be folded into, in order."""
        if self._sorted is None:
            self._sorted = sorted(self._keys)
        if offset > self.reached.offset or self.reached.key is None:
            return self._sorted
        return self._sorted[bisect_right(self._sorted, self.reached.key) :]

    def unfolded(self, events: Iterable[FeedEvent]) -> list[FeedEvent]:
        """Drop the events that are folded already (as R3 does with records)."""
        return [one for one in events if one.offset >= self.reached.offset]

    def fold(
        self,
        events: Iterable[FeedEvent],
        load: Callable[[Sequence[str]], None],
        rows: Mapping[str, CachedRow],
        *,
        quiet: bool,
    ) -> EventBatch:
        """Fold events in order, each into every row, until one group is full; ``reached`` is left as it is.

        ``load`` brings rows of some keys into ``rows``. With ``quiet`` no changes are reported.
        """
        batch, dead, reached = PendingBatch(), list[tuple[int, str]](), self.reached
        looked_at = changed = size = 0

        def full() -> bool:
            return looked_at >= EVENT_ROWS or changed >= EVENT_CHANGES or size >= EVENT_BYTES

        for one in self.unfolded(events):
            # 1. As if all of it were folded; corrected in step 4 if the group is full before that.
            reached = reached._replace(offset=one.offset + 1, key=None, crc=checksum(one.time, one.value))
            # 2. An event that cannot be read is skipped as a whole.
            try:
                event, keys = self.rule.read(one), self.remaining_keys(one.offset)
            except Unreadable as error:
                dead.append((one.offset, str(error)))
                continue
            # 3. Fold it into the rows that are left, slice by slice.
            for at in range(0, len(keys), EVENT_SLICE):
                some = keys[at : at + EVENT_SLICE]
                load(some)
                found = fold_event(batch, self.rule, event, some, rows, quiet=quiet)
                if found.failure:
                    dead.append((one.offset, found.failure))
                looked_at += len(some)
                changed += found.changed
                size += found.size
                # 4. A full group ends within an event: the next one continues after this key.
                if full() and at + EVENT_SLICE < len(keys):
                    reached = reached._replace(offset=one.offset, key=some[-1])
                    break
            if full():
                break
        batch.dead = len(dead)
        return EventBatch(batch, reached, dead)


class FoldedSlice(NamedTuple):
    """What folding an event into some rows did: rows changed, bytes written, and the first failure."""

    changed: int
    size: int
    failure: str


def fold_event(
    batch: PendingBatch,
    rule: EventRule,
    event: Record,
    keys: Sequence[str],
    rows: Mapping[str, CachedRow],
    *,
    quiet: bool,
) -> FoldedSlice:
    """Fold one event into some rows.

    Rows for which the function raises stay as they are. An event does not extend a row's life.
    """
    changed = size = 0
    failed: list[str] = []
    for key in keys:
        old, state, expires = batch.rows.get(key) or rows[key]
        if old is None:
            continue
        try:
            row = rule.fold(key, old, event)
            fields = describe_change(old, row) if row is not None else b""
        except Exception as error:  # a user's function may raise anything (R14)
            failed.append(f"row {key!r}: {type(error).__name__}: {error}")
            continue
        if row is not None and not fields:
            continue
        batch.rows[key] = (row, state, expires) if row is not None else NO_ROW
        changed += 1
        size += len(fields) + sum(map(len, row.values())) if row is not None else len(key)
        if not quiet:
            batch.last[key] = len(batch.steps)
            batch.steps.append(Step(key=key, time=event.time, old=old, new=row, fields=fields, json=b""))
    more = f" (and {len(failed) - 1} more rows)" if len(failed) > 1 else ""
    return FoldedSlice(changed, size, failed[0] + more if failed else "")


def event_rule_of(view: View, format: Format = "json") -> EventRule:
    """Return the rule that a view names for its events; raises ValueError with what is wrong."""
    module, _, name = (view.reduce_events or "").partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"reduce_events = {view.reduce_events!r}: {error}") from None
    return EventRule(function, format)


def in_order(
    records: Sequence[Packed], waiting: Callable[[], Sequence[FeedEvent]], *, hold_newer: bool
) -> Iterator[tuple[Sequence[Packed], Sequence[FeedEvent]]]:
    """Merge what waits of both feeds: runs of records, or of events, the older by Kafka's time first.

    ``waiting`` returns the events that wait now (those that were yielded must be gone by then). With
    ``hold_newer``, events that are newer than every record are left: records before them may yet come.
    """
    at = 0
    while at < len(records):
        events = waiting()
        older = list(takewhile(partial(_at_or_before, records[at].time), events))
        if older:
            yield (), older
            continue
        until = len(records)
        if events:
            first = events[0].time
            until = next((i for i in range(at, len(records)) if records[i].time >= first), until)
        yield records[at:until], ()
        at = until
    if not hold_newer and (events := waiting()):
        yield (), events


def _at_or_before(time: int, event: FeedEvent) -> bool:
    return event.time <= time


def _read(format: Format, value: bytes) -> Fields:
    if format == "json":
        return read_object(value)
    if format == "bytes":
        return {"value": msgspec.Raw(b'"' + base64.b64encode(value) + b'"')}
    try:
        return {"value": msgspec.Raw(msgspec.json.encode(value.decode()))}
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start + 1}") from None
