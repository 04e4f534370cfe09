"""A group before it is written: how many records it takes, its changes, and the rows after them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from distributary.model.filter import canonical
from distributary.reducers.record_codec import Packed
from distributary.reducers.row_json import Fields, write_object
from distributary.store.row_index import entry

CachedRow = tuple[Fields | None, bytes, int]
"""A row, its rule's state, and when it expires; a plain tuple, as one is created for each record."""
NO_ROW: CachedRow = (None, b"", 0)

StoredRows = dict[str, tuple[int, bytes | None, int, bool]]
"""The rows of a group as ``Group.rows`` has them."""

GROUP_BYTES = 4_000_000
"""About how much one group reads, writes or reports as changed; a single record may be larger."""
MAX_RECORDS, FIRST_RECORDS = 5_000, 64
FOLD_SECONDS = 0.5
"""How long it should take to fold one group, at most."""


class GroupTooLarge(Exception):
    """What would be written is too large for one group: fold fewer records at once."""


class GroupSize:
    """How many records to fold as one group.

    It doubles while groups are quick, and shrinks at once when one was slow or too large.
    """

    def __init__(self, max_records: int = MAX_RECORDS) -> None:
        self._max = max_records
        self.records = min(FIRST_RECORDS, max_records)

    def took(self, records: int, seconds: float) -> None:
        """Take note of how long a group of so many records took."""
        if records <= 0:
            return
        in_time = int(min(self._max, records * FOLD_SECONDS / max(seconds, 1e-6)))
        target = min(in_time, self.records * 2 if records >= self.records else self.records)
        self.records = max(1, min(self._max, target))

    def too_large(self, records: int) -> None:
        """Take note that a group of so many records, more than one, was too large to be written."""
        self.records = max(1, records // 2)


def portion(records: Sequence[Packed], start: int, limit: int) -> list[Packed]:
    """Take records from ``start`` on: at most ``limit``, at most about ``GROUP_BYTES``, at least one."""
    size, taken = 0, []
    for one in islice(records, start, start + limit):
        taken.append(one)
        size += len(one.value or b"")
        if size >= GROUP_BYTES:
            break
    return taken


@dataclass(slots=True)
class Step:
    """One change within a group. It is matched again if queries came before the group is written.

    ``until`` is set where only time passes: the row is the same, the clock is not.
    """

    key: str
    time: int
    old: Fields | None
    new: Fields | None
    fields: bytes
    json: bytes
    until: int = 0


class IndexDelta:
    """Entries that a group adds to and removes from the index of rows by the values of some fields."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.added: list[str] = []
        self.removed: list[str] = []
        self._fields = fields

    def update(self, key: str, old: Fields | None, new: Fields | None) -> None:
        """Add the difference between a row before and after the group."""
        for name in self._fields:
            before, after = _index_value(old, name), _index_value(new, name)
            if before != after:
                if before is not None:
                    self.removed.append(entry(name, before, key))
                if after is not None:
                    self.added.append(entry(name, after, key))


def _index_value(row: Fields | None, name: str) -> str | None:
    """What a row is indexed under; None for no row, and for values that equal nothing."""
    if row is None:
        return None
    raw = row.get(name)
    return canonical(raw) if raw is not None else "null"


@dataclass(slots=True)
class PendingBatch:
    """A group under construction."""

    steps: list[Step] = field(default_factory=list)
    rows: dict[str, CachedRow] = field(default_factory=dict)
    """The rows as they will be."""
    last: dict[str, int] = field(default_factory=dict)
    """By row key: the index of its last step."""
    records: int = 0
    dead: int = 0

    def stored_rows(self, before: Mapping[str, CachedRow], limit: int | None) -> StoredRows:
        """Lay out the rows for the store: each once, as it is after its last change.

        Raises GroupTooLarge when they have more than ``limit`` bytes; None: no limit.
        """
        out: StoredRows = {}
        size = 0
        for key, (row, state, expires) in self.rows.items():
            index = self.last.get(key, -1)  # no change of its own: true as of the count before this group
            new = before[key][0] is None
            if row is None:
                if not new:
                    out[key] = (index, None, 0, False)
                continue
            json = self.steps[index].json if key in self.last else b""
            json = json or write_object(row)
            out[key] = (index, json + b"\n" + state if state else json, expires, new)
            size += len(json) + len(state)
            if limit is not None and size > limit:
                raise GroupTooLarge
        return out

    def index_delta(self, fields: Sequence[str], before: Mapping[str, CachedRow]) -> IndexDelta:
        """Return what the rows change in the index of these fields."""
        delta = IndexDelta(fields)
        if fields:
            for key, cached in self.rows.items():
                delta.update(key, before[key][0], cached[0])
        return delta
