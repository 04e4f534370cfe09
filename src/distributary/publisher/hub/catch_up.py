"""What is newer than a position, as rows: those that were touched since, as they are now.

A resume out of the log tells each change (``reading.py``, R17). That needs a log that reaches back and a
query that was registered all the while. Where one of them is missing, it is enough to know *which* rows may
have changed: whoever gets each of them as it is now, or that it is not in the query, has the newest state.
Rows that did not change do no harm, so the list may be too long, and must not be too short. It comes from

* the log, for a query that is registered only now;
* the records in Kafka, for a whole view whose rows have the record's key. Reducers save checkpoints: up
  to which record the view was folded at a number (``store.find_checkpoint``); every change after that number
  comes from a later record.

The rows are read while writes go on; what is written meanwhile is in the log, and the query is registered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from distributary.auth.metering import charge_rows
from distributary.model.build import Build, Definition, load_definition
from distributary.model.change import data_for
from distributary.model.position import Mark, Position
from distributary.model.query import Query
from distributary.publisher.codec.websocket_frames import Pub, encode
from distributary.publisher.hub.subscription import Recovered
from distributary.store.build_scan import StaleRead, belongs, read_log
from distributary.store.contract import ReaderStore
from distributary.store.store_types import BuildInfo, QueryState, Row

ROWS = 5_000
"""Rows of one read."""
MOST = 100_000
"""With more rows than this, the whole state is hardly more to send."""


class Touched(Protocol):
    """Names the record keys of a topic between two marks of each partition."""

    async def __call__(
        self, topic: str, id: str, start: Mapping[int, Mark], end: Mapping[int, Mark], most: int
    ) -> set[str] | None:
        """Give every key there was; None when some may be missing, or there are more than ``most``."""


async def from_log(
    store: ReaderStore, build: Build, query: Query, state: QueryState, after: int
) -> Recovered | None:
    """Give the rows that changed after a number by the log; None when they are more than `MOST`.

    Raises StaleRead when the log does not reach back.
    """
    keys: set[str] = set()
    top = after
    async for entry in read_log(store, build, state.epoch, after, charge=charge_rows):
        keys.update(change.key for seq, change in entry.numbered() if seq > after)
        top = entry.last
        if len(keys) > MOST:
            return None
    return await _rows(store, build, query, state, keys, top)


async def from_kafka(
    store: ReaderStore, build: Build, query: Query, state: QueryState, position: Position, touched: Touched
) -> Recovered | None:
    """Return the rows whose records came after a position; None: not known. Raises StaleRead."""
    info = await store.build(build)
    place = await store.find_checkpoint(build, seq=position.seq)
    if info is None or place is None or not (place.epoch == info.epoch == state.epoch):
        return None
    definition = allowed(query, info)
    if definition is None or info.marks.keys() - place.marks.keys():
        return None  # a partition that had no mark then: nobody knows from which record on it was folded
    keys = await touched(definition.feed.topic, info.topic, place.marks, info.marks, MOST)
    if keys is None:
        return None
    found = await _rows(store, build, query, state, keys, info.seq)
    return found._replace(tier="replay")


def allowed(query: Query, info: BuildInfo) -> Definition | None:
    """Say whether the records of a view name every row that changed; if so, give its definition.

    That is so for all rows of a view that asks for it, where a row has the key of its records and changes by
    them alone.
    """
    if query.keys is not None or query.filter is not None or info.rekey:
        return None
    try:
        definition = load_definition(info.definition)
    except (ValueError, KeyError, TypeError):
        return None  # of another version
    view = definition.view
    exact = view.replay and view.key is None and view.ttl is None and view.reduce in ("latest", "merge")
    return definition if exact else None


async def _rows(
    store: ReaderStore, build: Build, query: Query, state: QueryState, keys: Collection[str], upto: int
) -> Recovered:
    """Read rows as they are now; with them come all other changes after ``upto``, out of the log.

    All together is true at one number. A row carries the number that it was read at, and what the log says of
    it before that is left out.
    """
    wanted = sorted(keys)
    read: dict[str, int] = {}
    pubs: list[tuple[int, bool, bytes]] = []
    seq = upto
    for at in range(0, len(wanted), ROWS):
        some = wanted[at : at + ROWS]
        found = await store.rows(build, some)
        if found.epoch != state.epoch or found.seq < seq:
            raise StaleRead
        seq, there = found.seq, dict(found.rows)
        for key in some:
            read[key] = seq
            pubs.append((seq, True, _data(query, key, there.get(key))))
    if seq > upto:
        async for entry in read_log(store, build, state.epoch, upto, charge=charge_rows):
            for number, change in entry.numbered():
                if read.get(change.key, upto) < number <= seq:
                    data = data_for(change, state.number)
                    if data is not None:
                        pubs.append((number, False, data))
    pubs.sort(key=lambda pub: pub[:2])
    told: list[Pub] = [(number, data) for number, _, data in pubs]
    return Recovered(state.epoch, seq, told, whole=bool(keys))


def _data(query: Query, key: str, row: Row | None) -> bytes:
    """Tell of a row as a subscriber who may or may not have it is told."""
    if row is not None and belongs(query, key, row.json):
        return b'{"op":"add","key":%b,"row":%b}' % (encode(key), row.json)
    return b'{"op":"remove","key":%b}' % encode(key)
