"""Remembers which messages were handled, also over restarts, so that repeated ones are skipped."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from distributary.client.record import Record
from distributary.errors import KafkaClientError

DEFAULT_SIZE = 100_000

Identify = Callable[[Record], str | bytes]


def position_of(record: Record) -> str:
    """A record's position: it identifies what is consumed again, not what is produced again."""
    return f"{record.topic}/{record.partition}/{record.offset}"


class Deduplicator:
    """A file with the last ``size`` messages that were handled. For one process at a time.

    ``by`` identifies a message: the record's position (the default), the value of the header of that name, or
    a function of the record. A record without that header is identified by its position.
    """

    def __init__(
        self, path: str | Path, *, by: str | Identify = position_of, size: int = DEFAULT_SIZE
    ) -> None:
        if size < 1:
            raise ValueError(f"size must be 1 or more, not {size}")
        self._size = size
        self._identify = _by_header(by) if isinstance(by, str) else by
        try:
            self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            # A killed process loses nothing of the write-ahead log, and records do not wait for the disk.
            self._file.execute("pragma journal_mode=wal")
            self._file.execute("pragma synchronous=normal")
            self._file.execute("pragma locking_mode=exclusive")
            self._file.execute("create table if not exists seen (n integer primary key, name blob unique)")
        except sqlite3.Error as error:
            raise KafkaClientError(
                f"{path}: cannot store handled messages there: {error}",
                hint="Name a file that only this process writes",
            ) from None

    def __contains__(self, record: Record) -> bool:
        found = self._file.execute("select 1 from seen where name = ?", (self._key(record),))
        return found.fetchone() is not None

    def add(self, record: Record) -> None:
        """Remember that a record was handled."""
        with self._file:
            done = self._file.execute("insert or ignore into seen (name) values (?)", (self._key(record),))
            if done.lastrowid is not None:
                self._file.execute("delete from seen where n <= ?", (done.lastrowid - self._size,))

    @contextmanager
    def once(self, record: Record) -> Iterator[bool]:
        """True if the record is new; then it is remembered when the block is left without an exception.

        A process that is killed within the block gets the record again. Where that must not happen, make the
        block's effect and the memory of it one: write both to the same database, and do not use this.
        """
        new = record not in self
        yield new
        if new:
            self.add(record)

    def __len__(self) -> int:
        return int(self._file.execute("select count(*) from seen").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Deduplicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _key(self, record: Record) -> bytes:
        name = self._identify(record)
        return name.encode() if isinstance(name, str) else bytes(name)


def _by_header(header: str) -> Identify:
    def name(record: Record) -> str | bytes:
        found = record.header(header)
        return position_of(record) if found is None else b"id:" + found

    return name
