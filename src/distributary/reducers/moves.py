"""What a group of changes does to the index of rows by the values of some fields. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from distributary.model.filter import canonical
from distributary.reducers.row_json import Fields
from distributary.store.row_index import entry


class Moves:
    """Entries that come and go with a group."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.found: list[str] = []
        self.lost: list[str] = []
        self._fields = fields

    def note(self, key: str, old: Fields | None, new: Fields | None) -> None:
        """Compare a row before and after the group."""
        for field in self._fields:
            before, after = _value(old, field), _value(new, field)
            if before != after:
                if before is not None:
                    self.lost.append(entry(field, before, key))
                if after is not None:
                    self.found.append(entry(field, after, key))


def _value(row: Fields | None, field: str) -> str | None:
    """What a row is indexed under; None for no row, and for values that equal nothing."""
    if row is None:
        return None
    raw = row.get(field)
    return canonical(raw) if raw is not None else "null"
