"""Remembers which messages were handled, so that one which comes again is passed over; outlives restarts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from distributary.client.record import Record
from distributary.errors import KafkaClientError

KEEP = 100_000

Name = Callable[[Record], str | bytes]


def place_of(record: Record) -> str:
    """A record by where it is: told apart from a repeat by the consumer, not from one by the producer."""
    return f"{record.topic}/{record.partition}/{record.offset}"


class Seen:
    """A file that names the last ``keep`` messages that were handled. For one process at a time.

    ``by`` says what makes two records the same message: their place (the default), the value of a header of
    that name, or a function of the record. A record that has no such header is known by its place.
    """

    def __init__(self, path: str | Path, *, by: str | Name = place_of, keep: int = KEEP) -> None:
        if keep < 1:
            raise ValueError(f"keep is 1 or more, not {keep}")
        self._keep = keep
        self._name = _by_header(by) if isinstance(by, str) else by
        try:
            self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            # A killed process loses nothing of the write-ahead log, and a record does not wait for the disk.
            self._file.execute("pragma journal_mode=wal")
            self._file.execute("pragma synchronous=normal")
            self._file.execute("pragma locking_mode=exclusive")
            self._file.execute("create table if not exists seen (n integer primary key, name blob unique)")
        except sqlite3.Error as error:
            raise KafkaClientError(
                f"{path}: what was seen cannot be kept there: {error}",
                hint="Name a file that this process alone may write",
            ) from None

    def __contains__(self, record: Record) -> bool:
        found = self._file.execute("select 1 from seen where name = ?", (self._known_as(record),))
        return found.fetchone() is not None

    def add(self, record: Record) -> None:
        """Take note that a record was handled."""
        with self._file:
            done = self._file.execute(
                "insert or ignore into seen (name) values (?)", (self._known_as(record),)
            )
            if done.lastrowid is not None:
                self._file.execute("delete from seen where n <= ?", (done.lastrowid - self._keep,))

    @contextmanager
    def once(self, record: Record) -> Iterator[bool]:
        """True when the record is new, and then note it when the block is left without an exception.

        A process that is killed within the block meets the record again. Where that must not be, let the
        block's effect and the note be one: write both into the same database, and do not use this.
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

    def __enter__(self) -> Seen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _known_as(self, record: Record) -> bytes:
        name = self._name(record)
        return name.encode() if isinstance(name, str) else bytes(name)


def _by_header(header: str) -> Name:
    def name(record: Record) -> str | bytes:
        found = record.header(header)
        return place_of(record) if found is None else b"id:" + found

    return name
