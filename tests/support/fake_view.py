"""A view in the store in memory, and a reducer of a few lines that writes it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import msgspec

from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_producer import Delivered
from distributary.model.build import Build
from distributary.model.change import Change, encode_changes
from distributary.model.position import Mark
from distributary.model.query import Query
from distributary.reducers.row_json import describe_change, read_object
from distributary.store.build_scan import belongs
from distributary.store.contract import WriterStore
from distributary.store.memory_store import MemoryStore
from distributary.store.store_types import ChangeGroup
from tests.support.clock import LIMIT

VIEW = "odds"


class FakeView:
    """One live view with one partition; ``writer`` is another store's than the one in memory.

    With ``exact`` changes tell only the fields that changed, as a reducer's do; else all of the new row's.
    """

    def __init__(
        self,
        *,
        log_length: int = 100_000,
        stale_after: float | None = None,
        live: bool = True,
        writer: WriterStore | None = None,
        exact: bool = False,
    ) -> None:
        self.exact = exact
        self.store = MemoryStore(log_length=log_length)
        self.reader = self.store.reader
        self.writer: WriterStore = writer or self.store.writer
        self.build = Build(VIEW, "b1")
        self.time = 0
        self._rows: dict[str, bytes] = {}
        self._offset = 0
        self.writer.define(VIEW, "b1", json.dumps({"stale_after": stale_after}))
        self._claim()
        if live:
            self.writer.go_live(self.build)

    def _claim(self) -> None:
        claim = self.writer.claim(self.build, "topic", 1).claim
        self._generation = claim.generation
        opened = self.writer.open(self.build, 0, claim)
        self._opened, self._number = opened, 0
        self._mark: Mark | None = opened.mark

    def reopen(self, writer: WriterStore) -> None:
        """Go on as a driver that starts again."""
        self.writer = writer
        self._claim()

    @property
    def seq(self) -> int:
        return self.store.views[VIEW].builds["b1"].seq

    @property
    def epoch(self) -> str:
        return self.store.views[VIEW].builds["b1"].epoch

    def put(self, *rows: tuple[str, dict[str, object] | None]) -> int:
        """Write rows (None removes) as one group of changes, matched against all registered queries."""
        version, queries = self.writer.registry(VIEW)
        known = [(q.number, Query.load(VIEW, q.text)) for q in queries]
        rows_ = self._rows
        changes: list[Change] = []
        written: dict[str, tuple[int, bytes | None, int, bool]] = {}
        last: dict[int, int] = {}
        for key, row in rows:
            old = rows_.get(key)
            new = msgspec.json.encode(row) if row is not None else None
            change = _change(key, old, new, self.time or int(time.time() * 1000), known)
            if self.exact and old is not None and new is not None:
                described = describe_change(read_object(old), read_object(new))
                change = msgspec.structs.replace(change, fields=described or b'"changed":{}')
            for number in (*change.adds, *change.changes, *change.removes):
                last[number] = len(changes)
            written[key] = (len(changes), new, 0, old is None)
            changes.append(change)
            if new is None:
                rows_.pop(key, None)
            else:
                rows_[key] = new
        self._number += 1
        self._offset += len(rows)
        mark = Mark(self._offset)
        group = ChangeGroup(
            build=self.build,
            partition=0,
            epoch=self._opened.epoch,
            generation=self._generation,
            token=self._opened.token,
            number=self._number,
            version=version,
            follows=self._mark,
            mark=mark,
            partition_state="",
            fingerprint="",
            count=len(changes),
            blob=encode_changes(changes),
            rows=written,
            queries=last,
        )
        self._mark = mark
        return self.writer.write(group)

    def crash(self) -> None:
        """Restart the store's server: the epoch is renewed and the reducer opens again."""
        self.store.restart()
        self._claim()

    def rows(self) -> dict[str, object]:
        """Give all rows."""
        return {key: json.loads(row) for key, row in self._rows.items()}


def _change(
    key: str, old: bytes | None, new: bytes | None, at: int, known: list[tuple[int, Query]]
) -> Change:
    was = {n for n, q in known if old is not None and belongs(q, key, old)}
    now = {n for n, q in known if new is not None and belongs(q, key, new)}
    fields = b""
    if old is not None and new is not None:  # all fields of the new row; only gone ones are told apart
        gone = sorted(json.loads(old).keys() - json.loads(new).keys())
        fields = b'"changed":%b' % new + (b',"gone":%b' % msgspec.json.encode(gone) if gone else b"")
    row = new if new and (old is None or now - was) else b""  # as the reducer does: whole only where needed
    return Change(
        key=key,
        time=at,
        fields=fields,
        row=row,
        adds=sorted(now - was),
        changes=sorted(was & now),
        removes=sorted(was - now),
    )


class FakeTopicWriter:
    """Collects the records that would be written to Kafka."""

    def __init__(self) -> None:
        self.records: list[OutgoingRecord] = []

    @property
    def values(self) -> list[bytes | None]:
        """What was in them."""
        return [record.value for record in self.records]

    async def produce(self, record: OutgoingRecord) -> Delivered:
        """Take one."""
        self.records.append(record)
        return Delivered(record.topic, 0, len(self.records) - 1, 0)


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait until a condition holds; fails after the test time unit."""
    try:
        async with asyncio.timeout(10 * LIMIT):
            while not condition():
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"did not happen in time: {what or condition}") from None
