"""Which re-keyed records may be deleted: those that were folded a while ago. Pure.

A store that went back (R2) has lost its last writes, and its marks with them: the records after those marks
are folded again, so they must still be there. A store that is synced every second loses a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

EVERY = 60.0
"""Seconds between two looks: a record is deleted that long after it was folded, at least."""


class Clearing:
    """Remembers where the marks were at the look before."""

    def __init__(self, now: float) -> None:
        self._looked = now
        self._marks: Mapping[int, int] = {}

    def due(self, now: float, read: Callable[[], Mapping[int, int]]) -> Mapping[int, int]:
        """Give the offset of each partition before which records may be deleted now; mostly none.

        ``read`` gives the marks that the store has now. Of a partition that went back meanwhile nothing is
        deleted that it may need.
        """
        if now - self._looked < EVERY:
            return {}
        before, marks = self._marks, read()
        self._marks, self._looked = marks, now
        return {
            partition: min(at, marks[partition]) for partition, at in before.items() if partition in marks
        }
