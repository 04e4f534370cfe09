"""Reduce rules: how a record changes its row. Pure; nothing here knows Kafka, Spark or the store.

A rule gets the row as it is (None: there is none) with the rule's own state, and returns the new row (None:
it is removed).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, NamedTuple, Protocol

import msgspec

from distributary.config.aggregates import parse_aggregate
from distributary.model.view import View
from distributary.reducers.row_json import Fields, Unreadable, read_object, write_object

_NULL = msgspec.Raw(b"null")
_exact = msgspec.json.Decoder(float_hook=Decimal)
_number = msgspec.json.Encoder(decimal_format="number").encode
_WIDE = Context(prec=50)


class Record(NamedTuple):
    """One record (or one of the rows that a select made from it), ready to fold.

    ``value`` is the object's fields; None is a tombstone. ``time`` is the record's timestamp in ms,
    ``event_time`` determines its window.
    """

    partition: int
    offset: int
    part: int
    time: int
    event_time: int
    key: str
    value: Fields | None


Folded = tuple[Fields | None, bytes]
"""A row after a fold and the state that the rule stores with it; a plain tuple: one is created per record."""


class Rule(Protocol):
    """How a record changes its row. Raises Unreadable (or anything else) for a record it cannot fold."""

    def fold(self, row: Fields | None, state: bytes, record: Record) -> Folded:
        """Return the new row and state."""


class Event(dict[str, Any]):
    """What a fold function gets: the value's fields, and the record's metadata as attributes.

    Numbers are int and Decimal, exactly as written. A tombstone has no fields
    and ``tombstone`` true.
    """

    key: str
    time: int
    partition: int
    offset: int
    tombstone: bool


class Merge:
    """JSON merge patch (RFC 7396); a tombstone removes the row."""

    def fold(self, row: Fields | None, state: bytes, record: Record) -> Folded:
        """Patch the row."""
        if record.value is None:
            return None, b""
        return merge(row, record.value), b""


class Latest:
    """The newest record is the row; a tombstone removes it."""

    def fold(self, row: Fields | None, state: bytes, record: Record) -> Folded:
        """Replace the row."""
        return record.value, b""


Averages = dict[str, list[Any]]
_Step = Callable[[Fields, Fields, Averages], None]
"""Adds one record's fields (second) to a row (first)."""


class Aggregate:
    """Counts, sums, extremes, averages and last values, by group key and optional window.

    The record's value is an object with one field for each aggregate: its
    argument, computed before. ``count`` without an argument counts records.
    """

    def __init__(self, functions: Mapping[str, tuple[str, bool]], window: float | None = None) -> None:
        """``functions``: a name to its function, and whether that has no argument."""
        self._names = frozenset(functions)
        self._steps = [
            _count(name, bare) if function == "count" else _STEPS[function](name)
            for name, (function, bare) in functions.items()
        ]
        self._window = window

    def fold(self, row: Fields | None, state: bytes, record: Record) -> Folded:
        """Add the record; averages have their sum and count in the state."""
        given = record.value
        if given is None:
            raise Unreadable("a record without a value cannot be aggregated")
        out = row.copy() if row is not None else {}
        averages: Averages = _exact.decode(state) if state else {}
        for step in self._steps:
            step(out, given, averages)
        if not self._names.issuperset(given):
            for name, raw in given.items():
                if name not in self._names:
                    out[name] = raw
        if self._window is not None:
            start = window_start(record.event_time, self._window)
            out["window_start"] = msgspec.Raw(b"%d" % start)
            out["window_end"] = msgspec.Raw(b"%d" % (start + int(self._window * 1000)))
        return out, _number(averages) if averages else b""


def _count(name: str, bare: bool) -> _Step:
    def step(out: Fields, given: Fields, _: Averages) -> None:
        before = out.get(name)
        count = int(bytes(before)) if before is not None else 0
        raw = given.get(name)
        if bare or (raw is not None and raw != _NULL):
            count += 1
        out[name] = msgspec.Raw(b"%d" % count)

    return step


def _present(name: str, fold: Callable[[msgspec.Raw | None, msgspec.Raw, Averages], msgspec.Raw]) -> _Step:
    """Skip nulls and missing fields."""

    def step(out: Fields, given: Fields, averages: Averages) -> None:
        raw = given.get(name)
        before = out.get(name)
        if raw is None or raw == _NULL:
            if before is None:
                out[name] = _NULL
            return
        out[name] = fold(None if before == _NULL else before, raw, averages)

    return step


def _last(name: str) -> _Step:
    return _present(name, lambda before, raw, averages: raw)


def _sum(name: str) -> _Step:
    add = _WIDE.add

    def fold(before: msgspec.Raw | None, raw: msgspec.Raw, _: Averages) -> msgspec.Raw:
        value = decimal(raw, name)
        return raw if before is None else msgspec.Raw(plain(add(decimal(before, name), value)))

    return _present(name, fold)


def _min(name: str) -> _Step:
    def fold(before: msgspec.Raw | None, raw: msgspec.Raw, _: Averages) -> msgspec.Raw:
        value = decimal(raw, name)
        return before if before is not None and decimal(before, name) <= value else raw

    return _present(name, fold)


def _max(name: str) -> _Step:
    def fold(before: msgspec.Raw | None, raw: msgspec.Raw, _: Averages) -> msgspec.Raw:
        value = decimal(raw, name)
        return before if before is not None and decimal(before, name) >= value else raw

    return _present(name, fold)


def _avg(name: str) -> _Step:
    def fold(_: msgspec.Raw | None, raw: msgspec.Raw, averages: Averages) -> msgspec.Raw:
        total, count = averages.get(name, [Decimal(0), 0])
        total = _WIDE.add(Decimal(total), decimal(raw, name))
        averages[name] = [total, count + 1]
        return msgspec.Raw(plain(_WIDE.divide(total, Decimal(count + 1))))

    return _present(name, fold)


_STEPS = {"sum": _sum, "min": _min, "max": _max, "avg": _avg, "last": _last}


class Function:
    """A user's Python function: ``fold(row | None, event) -> row | None``."""

    def __init__(self, function: Callable[[dict[str, Any] | None, Event], dict[str, Any] | None]) -> None:
        self._function = function

    def fold(self, row: Fields | None, state: bytes, record: Record) -> Folded:
        """Call the function with plain values, exact numbers included."""
        event = Event(_exact.decode(write_object(record.value)) if record.value is not None else {})
        event.key, event.time, event.tombstone = record.key, record.time, record.value is None
        event.partition, event.offset = record.partition, record.offset
        before = _exact.decode(write_object(row)) if row is not None else None
        after = self._function(before, event)
        if after is None:
            return None, b""
        if not isinstance(after, dict):
            raise Unreadable(f"the fold function returned {type(after).__name__}, not a dict or None")
        return read_object(_number(after)), b""


def merge(row: Fields | None, patch: Fields) -> Fields:
    """Apply a JSON merge patch; values that do not change stay the same objects."""
    out = dict(row) if row is not None else {}
    for name, value in patch.items():
        text = bytes(value)
        if text == b"null":
            out.pop(name, None)
        elif text[:1] == b"{":
            before = out.get(name)
            target = read_object(bytes(before)) if before is not None and bytes(before)[:1] == b"{" else None
            out[name] = msgspec.Raw(write_object(merge(target, read_object(text))))
        else:
            out[name] = value
    return out


def window_start(time: int, window: float) -> int:
    """The start of the tumbling window that a time (ms) falls into."""
    size = int(window * 1000)
    return time - time % size


def decimal(raw: msgspec.Raw, name: str) -> Decimal:
    """Read a number exactly; a string that contains a number is read, too."""
    text = str(raw, "utf-8")
    try:
        value = Decimal(text.strip('"'))
        if value.is_finite():
            return value
    except ArithmeticError:
        pass
    raise Unreadable(f"{name}: {text.strip(chr(34))[:40]!r} is not a number")


def plain(value: Decimal) -> bytes:
    """Write a number as JSON, without an exponent if that is short."""
    text = str(value)
    if "E" in text and abs(value.adjusted()) < 40:
        text = format(value, "f")
    if len(text) > 40 and "." in text and "E" not in text:
        text = text.rstrip("0").rstrip(".")
    return text.encode()


def rule_of(view: View) -> Rule:
    """Return the rule that a view names; raises ValueError with what is wrong."""
    if view.reduce == "merge":
        return Merge()
    if view.reduce == "latest":
        return Latest()
    if view.reduce == "aggregate":
        functions = {}
        for name, text in view.aggregates.items():
            function, argument = parse_aggregate(text)
            functions[name] = (function, not argument)
        return Aggregate(functions, view.window)
    module, colon, name = view.reduce.partition(":")
    if not colon:
        raise ValueError(f"reduce = {view.reduce!r}: expected merge, latest, aggregate or module:function")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"reduce = {view.reduce!r}: {error}") from None
    return Function(found)
