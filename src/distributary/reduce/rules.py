"""Reduce rules: how a record changes its row. Pure; nothing here knows Kafka, Spark or the store.

A rule gets the row as it is (None: there is none) with the rule's own state,
and gives the row as it shall be (None: there shall be none).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, NamedTuple, Protocol

import msgspec

from distributary.config.aggregates import parse_aggregate
from distributary.model.view import View
from distributary.reduce.rows import Fields, Unreadable, read_object, write_object

_NULL = b"null"
_exact = msgspec.json.Decoder(float_hook=Decimal)
_number = msgspec.json.Encoder(decimal_format="number").encode
_WIDE = Context(prec=50)


class Record(NamedTuple):
    """One record (or one of the rows that a select made of it), ready to fold.

    ``value`` is the object's fields; None is a tombstone. ``time`` is the record's timestamp in ms,
    ``event_time`` what windows go by.
    """

    partition: int
    offset: int
    part: int
    time: int
    event_time: int
    key: str
    value: Fields | None


class Folded(NamedTuple):
    """A row after a fold, and what the rule wants to remember beside it."""

    row: Fields | None
    state: bytes = b""


class Rule(Protocol):
    """How a record changes its row. Raises Unreadable (or anything else) for a record it cannot fold."""

    def fold(self, row: Fields | None, state: bytes, record: Record) -> Folded:
        """Return the row as it shall be."""


class Event(dict[str, Any]):
    """What a fold function gets: the value's fields, with the record's facts as attributes.

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
            return Folded(None)
        return Folded(merge(row, record.value))


class Latest:
    """The newest record is the row; a tombstone removes it."""

    def fold(self, row: Fields | None, state: bytes, record: Record) -> Folded:
        """Replace the row."""
        return Folded(record.value)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Counts, sums, extremes, averages and last values, by group key and optional window.

    The record's value is an object with one field for each aggregate: its
    argument, computed before. ``count`` without an argument counts records.
    """

    functions: Mapping[str, tuple[str, bool]]
    window: float | None = None

    def fold(self, row: Fields | None, state: bytes, record: Record) -> Folded:
        """Count the record in; averages keep their sum and count in the state."""
        if record.value is None:
            raise Unreadable("a record without a value cannot be aggregated")
        given = record.value
        out = dict(row) if row is not None else {}
        averages: dict[str, list[Any]] = _exact.decode(state) if state else {}
        for name, (function, bare) in self.functions.items():
            raw = given.get(name)
            empty = raw is None or bytes(raw) == _NULL
            if function == "count":
                held = int(bytes(out[name])) if name in out else 0
                out[name] = msgspec.Raw(b"%d" % (held + (0 if empty and not bare else 1)))
            elif empty:
                out.setdefault(name, msgspec.Raw(_NULL))
            elif function == "last":
                assert raw is not None
                out[name] = raw
            else:
                assert raw is not None
                out[name] = self._number(function, name, out.get(name), raw, averages)
        for name, raw in given.items():
            if name not in self.functions:
                out[name] = raw
        if self.window is not None:
            start = window_start(record.event_time, self.window)
            out["window_start"] = msgspec.Raw(b"%d" % start)
            out["window_end"] = msgspec.Raw(b"%d" % (start + int(self.window * 1000)))
        return Folded(out, _number(averages) if averages else b"")

    @staticmethod
    def _number(
        function: str, name: str, held: msgspec.Raw | None, raw: msgspec.Raw, averages: dict[str, list[Any]]
    ) -> msgspec.Raw:
        value = decimal(raw, name)
        if function == "avg":
            total, count = averages.get(name, [Decimal(0), 0])
            averages[name] = [_WIDE.add(Decimal(total), value), count + 1]
            mean = _WIDE.divide(averages[name][0], Decimal(count + 1))
            return msgspec.Raw(plain(mean))
        if held is None or bytes(held) == _NULL:
            return raw
        known = decimal(held, name)
        if function == "sum":
            return msgspec.Raw(plain(_WIDE.add(known, value)))
        keep = known <= value if function == "min" else known >= value
        return held if keep else raw


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
            return Folded(None)
        if not isinstance(after, dict):
            raise Unreadable(f"the fold function gave {type(after).__name__}, not a dict or None")
        return Folded(read_object(_number(after)))


def merge(row: Fields | None, patch: Fields) -> Fields:
    """Apply a JSON merge patch; values that do not change keep their identity."""
    out = dict(row) if row is not None else {}
    for name, value in patch.items():
        text = bytes(value)
        if text == _NULL:
            out.pop(name, None)
        elif text[:1] == b"{":
            held = out.get(name)
            target = read_object(bytes(held)) if held is not None and bytes(held)[:1] == b"{" else None
            out[name] = msgspec.Raw(write_object(merge(target, read_object(text))))
        else:
            out[name] = value
    return out


def window_start(time: int, window: float) -> int:
    """The start of the tumbling window that a time (ms) falls into."""
    size = int(window * 1000)
    return time - time % size


def decimal(raw: msgspec.Raw, name: str) -> Decimal:
    """Read a number exactly; text that is a number counts as one."""
    text = bytes(raw).decode().strip('"')
    try:
        value = Decimal(text)
    except ArithmeticError:
        raise Unreadable(f"{name}: {text[:40]!r} is not a number") from None
    if not value.is_finite():
        raise Unreadable(f"{name}: {text[:40]!r} is not a number")
    return value


def plain(value: Decimal) -> bytes:
    """Write a number as JSON without an exponent where that is short."""
    text = format(value, "f") if abs(value.adjusted()) < 40 else str(value)
    if "." in text and len(text) > 40:
        text = text.rstrip("0").rstrip(".")
    return text.encode()


def rule_of(view: View) -> Rule:
    """Make the rule that a view names; raises ValueError with what is wrong."""
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
