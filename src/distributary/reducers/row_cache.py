"""The rows of one partition that a reducer has in memory."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from distributary.model.build import Build
from distributary.reducers.row_json import read_object
from distributary.reducers.write_batch import NO_ROW, CachedRow
from distributary.store.contract import WriterStore
from distributary.store.errors import NotOwner

CACHE_ROWS = 50_000
LOAD_ROWS = 1_000
SCAN_ROWS = 2_000


class RowCache:
    """Rows by key; it is cleared by each ``open`` of the reducer (R4)."""

    def __init__(self, store: WriterStore, build: Build, partition: int) -> None:
        self._store = store
        self._build = build
        self._partition = partition
        self.rows: dict[str, CachedRow] = {}

    def load(self, keys: Iterable[str]) -> None:
        """Read the rows that are missing from the store. Raises NotOwner for another partition's row."""
        missing = [key for key in keys if key not in self.rows]
        for at in range(0, len(missing), LOAD_ROWS):
            some = missing[at : at + LOAD_ROWS]
            for key, row in zip(some, self._store.rows(self._build, some), strict=True):
                if row is None:
                    self.rows[key] = NO_ROW
                elif row.owner != self._partition:
                    raise NotOwner(key, row.owner)
                else:
                    self.rows[key] = (read_object(row.json), row.state, row.expires)

    def scan(self, cursor: int) -> tuple[int, list[tuple[str, CachedRow]]]:
        """Read some of the partition's rows without caching them, and the cursor to continue with (0 ends).

        A row that is cached is returned as it is here.
        """
        cursor, rows = self._store.scan(self._build, cursor, SCAN_ROWS)
        return cursor, [
            (key, self.rows.get(key) or (read_object(row.json), row.state, row.expires))
            for key, row in rows
            if row.owner == self._partition
        ]

    def trim(self, at_least: int = 0) -> None:
        """Drop the rows that have been cached longest; ``at_least`` so many may stay."""
        surplus = len(self.rows) - max(CACHE_ROWS, at_least)
        if surplus > 0:
            for key in list(islice(self.rows, surplus)):
                del self.rows[key]
