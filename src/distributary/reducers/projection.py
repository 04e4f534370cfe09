"""What a select takes over unchanged is picked out here, from the record's own text.

The JVM computes; but a number that passes through it comes back normalised
(1.50 as 1.5). So plain fields are picked from the original bytes, and only
computed columns come from the JVM: as one line of JSON before the original.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from distributary.reducers.row_json import Fields, read_object


@dataclass(frozen=True, slots=True)
class Pick:
    """A field of the output and the path it has in the record's value."""

    name: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Projection:
    """How the value that a rule folds is put together from what the JVM sent.

    ``picks`` None: the original as it is. ``computed``: a first line holds
    computed columns.
    """

    picks: tuple[Pick, ...] | None = None
    computed: bool = False

    def apply(self, value: bytes) -> Fields:
        """Return the fields to fold; raises Unreadable when the original is not a JSON object."""
        if self.picks is None:
            return read_object(value)
        out: Fields = {}
        if self.computed:
            line, _, value = value.partition(b"\n")
            out.update(read_object(line))
        if self.picks:
            whole = read_object(value)
            for pick in self.picks:
                found = _at(whole, pick.path)
                if found is not None:
                    out[pick.name] = found
        return out

    def original(self, value: bytes) -> bytes:
        """Return the record's own value."""
        return value.partition(b"\n")[2] if self.computed else value


def _at(row: Fields, path: tuple[str, ...]) -> msgspec.Raw | None:
    found = row.get(path[0])
    for name in path[1:]:
        if found is None or bytes(found)[:1] != b"{":
            return None
        found = read_object(bytes(found)).get(name)
    return found
