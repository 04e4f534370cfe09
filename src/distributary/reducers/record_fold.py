"""Which records of a partition a reducer folds, none twice (R3), and what they change. Pure.

A record that cannot be read or folded is a dead letter (R14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from distributary.model.partition_state import SourceProgress, is_repeat
from distributary.model.position import Fingerprint, Mark
from distributary.model.view import View
from distributary.reducers.record_codec import Packed, Projection
from distributary.reducers.reduce_rules import Record, Rule, window_start
from distributary.reducers.row_json import Fields, Unreadable, describe_change, write_object
from distributary.reducers.write_batch import GROUP_BYTES, CachedRow, GroupTooLarge, PendingBatch, Step

FUTURE_MS = 24 * 3600 * 1000
"""How far ahead of the record's timestamp the time of an event may be."""

Explain = Callable[[bytes], str]
"""Returns why a value could not be parsed."""


class DeadLetter(NamedTuple):
    """A record that could not be read or folded, and why."""

    partition: int
    offset: int
    reason: str


class RecordReader:
    """Reads packed records, in the order of their offsets."""

    def __init__(self, view: View, projection: Projection, explain: Explain) -> None:
        self._view = view
        self._project = projection.apply
        self._explain = explain
        self._part_of = Mark(-1)  # the last record that was read, and which of its rows that was
        self.watermark = 0
        """The latest event time (ms) of a windowed view."""
        self.sources: dict[int, SourceProgress] = {}
        """By source partition of a re-keyed view."""
        self.last: Fingerprint | None = None
        """The fingerprint of the last record that was read."""

    def state(self) -> tuple[Mark, int, dict[int, SourceProgress]]:
        """Return what ``restore`` needs to read the same records again."""
        return self._part_of, self.watermark, dict(self.sources)

    def restore(self, state: tuple[Mark, int, dict[int, SourceProgress]]) -> None:
        """Go back to an earlier state."""
        self._part_of, self.watermark, self.sources = state

    def read(
        self, packed: Sequence[Packed], done: Mark | None, dead: list[DeadLetter]
    ) -> tuple[list[Record], Mark | None]:
        """Return the records to fold, and the mark after them; None when all are before the mark ``done``.

        Records that cannot be read are appended to ``dead``.
        """
        window = self._view.window
        project = self._project
        end, end_part = self._part_of
        found = False
        out: list[Record] = []
        for one in packed:
            partition, offset, when, event_time, key, value, unparsed, source, _, filtered = one
            # 1. A record may give several rows, which arrive one after the other: count them (R5).
            part = end_part + 1 if offset == end else 0
            end, end_part = offset, part
            # 2. Drop what is folded already (R3), and what the re-keying query repeats (R7).
            if done is not None and (offset, part) < done:
                continue
            found = True
            if source is not None:
                if is_repeat(self.sources, source):
                    continue
                partition, offset = source.partition, source.offset
            # 3. A record that `where` dropped is there for its offset only (R12).
            if filtered:
                continue
            # 4. Read the row key and the value.
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
            out.append(
                Record(
                    partition=partition,
                    offset=offset,
                    part=part,
                    time=when,
                    event_time=event_time,
                    key=name,
                    value=fields,
                )
            )
        self._part_of = Mark(end, end_part)
        self.last = Fingerprint(end, packed[-1].crc) if packed else None
        return out, Mark(end, end_part + 1) if found else None

    def _refuse(self, one: Packed) -> str:
        """Return why a record cannot be folded; empty when it can."""
        if one.unparsed:
            return self._explain(one.value) if one.value is not None else "the record has no value"
        if one.key is None:
            return f"no row key: {self._why_no_key(one)}"
        if self._view.window is not None:
            window = self._view.window
            if one.event_time > one.time + FUTURE_MS:
                return f"the event's time {one.event_time} is too far ahead"
            ends = window_start(one.event_time, window) + window * 1000
            if ends + self._view.late * 1000 <= self.watermark:
                return f"late: its window ended at {ends:.0f}, the watermark is {self.watermark}"
            self.watermark = max(self.watermark, one.event_time)
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


def fold_records(
    batch: PendingBatch,
    records: Iterable[Record],
    rule: Rule,
    rows: Mapping[str, CachedRow],
    dead: list[DeadLetter],
    *,
    ttl: float | None,
    quiet: bool,
) -> None:
    """Fold records into their rows, which are all in ``rows``; with ``quiet`` no changes are reported.

    Raises GroupTooLarge when fewer records should be folded at once. Records that cannot be folded are
    appended to ``dead``.
    """
    steps, last, new_rows = batch.steps, batch.last, batch.rows
    fold = rule.fold
    size = 0
    for record in records:
        key = record.key
        cached = new_rows.get(key) or rows[key]
        old = cached[0]
        # 1. The rule gives the new row; what it changes is described for subscribers.
        try:
            row, state = fold(old, cached[1], record)
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
        # 2. A record that changes nothing is no change, but may renew the row's life or the rule's state.
        same = row is not None and old is not None and not fields
        if not same or state != cached[1] or expires != cached[2]:
            new_rows[key] = (row, state, expires)
        if same:
            continue
        last[key] = len(steps)
        steps.append(Step(key=key, time=record.time, old=old, new=row, fields=fields, json=json))
        size += len(fields) + len(json)
        if size > GROUP_BYTES and batch.records > 1:
            raise GroupTooLarge
