"""An event feed over a partition's rows: every event is folded into every row, exactly once. Pure.

An event over many rows is written in several groups, in the order of the row keys. How far it is folded
(``EventProgress``) is stored with each group. Nothing else is folded until its last row is written, so a
reducer that continues in the middle of an event finds the remaining rows unchanged.
"""

from __future__ import annotations

import base64
import importlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from distributary.model.feed import Format
from distributary.model.partition_state import EventProgress
from distributary.model.view import View
from distributary.reducers.record_codec import Packed
from distributary.reducers.reduce_rules import Event, Function, Record
from distributary.reducers.row_json import Fields, Unreadable, read_object


class Happening(NamedTuple):
    """One record of an event feed as it arrived; ``time`` is its timestamp in ms, ``value`` None for null."""

    offset: int
    time: int
    value: bytes | None


class EventRule:
    """How an event changes a row: ``function(row, event) -> row | None``, as a view's fold function does."""

    def __init__(self, function: Callable[[Any, Event], Any], format: Format = "json") -> None:
        self._fold = Function(function).fold
        self._format = format

    def read(self, one: Happening) -> Record:
        """Read an event's value by the feed's format; raises Unreadable."""
        value = None if one.value is None else _read(self._format, one.value)
        return Record(0, one.offset, 0, one.time, one.time, "", value)

    def fold(self, key: str, row: Fields, event: Record) -> Fields | None:
        """Return the row as it shall be; None removes it. Raises whatever the function raises."""
        return self._fold(row, b"", event._replace(key=key))[0]


class World:
    """The keys of all rows of one partition, and how far the events are folded into them."""

    def __init__(self, topic: str, start: int, rule: EventRule, earliest: int = 0) -> None:
        """``start`` is where events begin for a partition that has stored nothing of them yet.

        What retention has taken (before ``earliest``) is given up.
        """
        self.rule = rule
        self.reached = EventProgress(topic, start)
        self.stored: EventProgress | None = None
        self._earliest = earliest
        self._keys: set[str] = set()
        self._sorted: list[str] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def open(self, stored: EventProgress | None) -> bool:
        """Go on from what the store holds; the keys are to be noted anew. False when it holds less than once.

        Where it holds nothing there are no rows either, and what has happened so far changed none.
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
        """Leave the event that is under way as it is: its topic has it no more."""
        self.reached = self.reached._replace(offset=self.reached.offset + 1, key=None, crc=None)

    def note(self, key: str, row: Fields | None) -> None:
        """Take note that a row is there, or (None) is not."""
        if row is None:
            if key in self._keys:
                self._keys.remove(key)
                self._sorted = None
        elif key not in self._keys:
            self._keys.add(key)
            self._sorted = None

    def left(self, offset: int) -> Sequence[str]:
        """The keys of the rows that the event at ``offset`` is still to be folded into, in order."""
        if self._sorted is None:
            self._sorted = sorted(self._keys)
        if offset > self.reached.offset or self.reached.key is None:
            return self._sorted
        return self._sorted[bisect_right(self._sorted, self.reached.key) :]

    def fresh(self, events: Iterable[Happening]) -> list[Happening]:
        """Drop the events that are folded already (as R3 does with records)."""
        return [one for one in events if one.offset >= self.reached.offset]


def event_rule_of(view: View, format: Format = "json") -> EventRule:
    """Make the rule that a view names for its events; raises ValueError with what is wrong."""
    module, _, name = (view.reduce_events or "").partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"reduce_events = {view.reduce_events!r}: {error}") from None
    return EventRule(found, format)


def in_turn(
    records: Sequence[Packed], waiting: Callable[[], Sequence[Happening]], *, hold: bool
) -> Iterator[tuple[Sequence[Packed], Sequence[Happening]]]:
    """Put what waits of both feeds in order: runs of records, or of events, the older by Kafka's time first.

    ``waiting`` gives the events that wait now (what was yielded is gone by then). With ``hold``, events that
    are newer than every record are left waiting: records between them may yet come.
    """
    at = 0
    while at < len(records):
        events = waiting()
        before = list(takewhile(partial(_by, records[at].time), events))
        if before:
            yield (), before
            continue
        until = len(records)
        if events:
            first = events[0].time
            until = next((i for i in range(at, len(records)) if records[i].time >= first), until)
        yield records[at:until], ()
        at = until
    if not hold and (events := waiting()):
        yield (), events


def _by(time: int, one: Happening) -> bool:
    return one.time <= time


def _read(format: Format, value: bytes) -> Fields:
    if format == "json":
        return read_object(value)
    if format == "bytes":
        return {"value": msgspec.Raw(b'"' + base64.b64encode(value) + b'"')}
    try:
        return {"value": msgspec.Raw(msgspec.json.encode(value.decode()))}
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start + 1}") from None
