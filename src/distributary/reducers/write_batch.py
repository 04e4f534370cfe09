"""A group while it is made: what changes, and the rows as they will be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from distributary.model.filter import canonical
from distributary.reducers.event_fold import EventRule
from distributary.reducers.record_codec import Packed
from distributary.reducers.reduce_rules import Record
from distributary.reducers.row_json import Fields, describe_change
from distributary.store.row_index import entry

Held = tuple[Fields | None, bytes, int]
"""A row, its rule's state, and when it expires; a plain tuple, for one is made of each record."""
NOTHING: Held = (None, b"", 0)

GROUP_BYTES = 4_000_000
"""How much one group may read, write or tell, about; a single record may be larger."""


class GroupTooLarge(Exception):
    """What would be written is too large for one group: fold fewer records at once."""


def portion(records: Sequence[Packed], start: int, most: int) -> list[Packed]:
    """Take records from ``start`` on: at most so many, at most about ``GROUP_BYTES``, at least one."""
    size, taken = 0, []
    for one in islice(records, start, start + most):
        taken.append(one)
        size += len(one.value or b"")
        if size >= GROUP_BYTES:
            break
    return taken


@dataclass(slots=True)
class Step:
    """One change within a group, kept until the group is written, to match again if asked.

    ``until`` is set where only time passes: the row is the same, the clock is not.
    """

    key: str
    time: int
    old: Fields | None
    new: Fields | None
    fields: bytes
    json: bytes
    until: int = 0


@dataclass(slots=True)
class Making:
    """A group that is being made: rows as they will be, the index of each one's last step, and all steps."""

    rows: dict[str, Held] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    dead: int = 0
    changed: int = 0
    size: int = 0

    def happen(
        self, rule: EventRule, event: Record, keys: Sequence[str], cache: Mapping[str, Held], *, quiet: bool
    ) -> str:
        """Fold one event into some rows; say what the function raised for the first of those it raised for.

        Those rows stay as they are. An event does not make a row live longer.
        """
        failed: list[str] = []
        for key in keys:
            old, state, expires = self.rows.get(key) or cache[key]
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
            self.rows[key] = (row, state, expires) if row is not None else NOTHING
            self.changed += 1
            self.size += len(fields) + sum(map(len, row.values())) if row is not None else len(key)
            if not quiet:
                self.last[key] = len(self.steps)
                self.steps.append(Step(key, event.time, old, row, fields, b""))
        more = f" (and {len(failed) - 1} more rows)" if len(failed) > 1 else ""
        return failed[0] + more if failed else ""


MOST = 5_000
FIRST = 64
SECONDS = 0.5
"""What folding one group should take at most."""


class GroupSize:
    """Grows by doubling while groups are quick, and shrinks at once when one was slow or too large."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.records = min(FIRST, most)

    def took(self, records: int, seconds: float) -> None:
        """Note how long a group of so many records took."""
        if records <= 0:
            return
        within = int(min(self._most, records * SECONDS / max(seconds, 1e-6)))
        wish = min(within, self.records * 2 if records >= self.records else self.records)
        self.records = max(1, min(self._most, wish))

    def too_large(self, records: int) -> None:
        """Note that a group of so many records, more than one, was too large to be written."""
        self.records = max(1, records // 2)


class Moves:
    """Entries that come and go with a group."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.found: list[str] = []
        self.lost: list[str] = []
        self._fields = fields

    def note(self, key: str, old: Fields | None, new: Fields | None) -> None:
        """Compare a row before and after the group."""
        for name in self._fields:
            before, after = _value(old, name), _value(new, name)
            if before != after:
                if before is not None:
                    self.lost.append(entry(name, before, key))
                if after is not None:
                    self.found.append(entry(name, after, key))


def _value(row: Fields | None, name: str) -> str | None:
    """What a row is indexed under; None for no row, and for values that equal nothing."""
    if row is None:
        return None
    raw = row.get(name)
    return canonical(raw) if raw is not None else "null"
