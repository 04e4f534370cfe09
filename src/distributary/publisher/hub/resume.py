"""What a subscriber missed since its position, and when it can be sent exactly that (R17).

In order of preference:

1. The changes themselves, out of the log. That needs a log that reaches back, and a query that was registered
   all the while.
2. Where one of them is missing, it is enough to know *which* rows may have changed: a subscriber that gets
   each of them as it is now, or that it is not in the query, has the newest rows. Rows that did not change do
   no harm, so the list may be too long, but must not be too short. It comes from

   * the log, for a query that is registered only now;
   * the records in Kafka, for a whole view whose rows have the key of their records. Reducers store now and
     then up to which record the view was folded at a number (a checkpoint); every change after that number
     comes from a record after that.

   The rows are read while writes go on; what is written meanwhile is in the log, and the query is registered.
3. Otherwise the subscriber needs a new snapshot.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from distributary.auth.metering import charge_rows
from distributary.model.build import Build, Definition, load_definition
from distributary.model.change import data_for
from distributary.model.position import Mark, Position, Start
from distributary.model.query import Query
from distributary.publisher.codec.publication import Publication, encode_json
from distributary.publisher.hub.snapshot import require_live
from distributary.publisher.hub.subscription import Recovered
from distributary.store.build_scan import StaleRead, belongs, read_log
from distributary.store.contract import ReaderStore
from distributary.store.store_types import BuildInfo, QueryState, Row

ROWS_PER_READ = 5_000
MAX_ROWS = 100_000
"""With more changed rows than this, a snapshot is hardly more to send."""


# --- the decision -----------------------------------------------------------------------------------------


class ReplayLog(NamedTuple):
    """What the subscriber missed is exactly the query's part of the log after ``after``."""

    after: int


class SnapshotRequired(NamedTuple):
    """Changes may be missing in the log, or the position is of another count."""

    reason: str


def decide(client: Position, state: QueryState) -> ReplayLog | SnapshotRequired:
    """Compare a client's position with what the store knows of its query. Pure.

    A query that did not change since the client's position is resumed even when the log does not reach back
    that far; what comes after its state was read is then what the client missed.
    """
    if client.epoch != state.epoch:
        return SnapshotRequired("another epoch")
    if client.seq > state.seq:
        return SnapshotRequired("a position ahead of the view")
    if client.seq < state.since:
        return SnapshotRequired("a position before the query was registered")
    if client.seq >= state.floor:
        return ReplayLog(client.seq)
    if state.last <= client.seq:
        return ReplayLog(state.seq)
    return SnapshotRequired("the log does not reach back that far")


# --- reading it -------------------------------------------------------------------------------------------


class ChangedKeys(Protocol):
    """Names the record keys of a topic between two marks of each partition."""

    async def __call__(
        self, topic: str, id: str, start: Mapping[int, Mark], end: Mapping[int, Mark], most: int
    ) -> set[str] | None:
        """Return every key there was; None when some may be missing, or there are more than ``most``."""


async def read_missed(
    store: ReaderStore,
    build: Build,
    query: Query,
    start: Start,
    *,
    as_rows: bool = False,
    row_filtered: bool = False,
    changed_keys: ChangedKeys | None = None,
) -> Recovered | None:
    """Read what a subscriber missed since ``start``; None: not known, it needs a snapshot.

    ``as_rows``: where the changes themselves are not known, it may be sent the rows as they are now instead.
    That is for a subscriber that starts from a position and has seen no change yet. From a time on it is
    always rows, since what is known of a time is a position somewhat before. ``row_filtered``: the subscriber
    may not see every row of the view. It is not sent rows instead of changes: that would name the keys of all
    that changed, in the query or not.
    """
    await require_live(store, build)
    state = await store.query_state(build.view, query.id)
    if state is None:
        return None
    exact = isinstance(start, Position)
    if not isinstance(start, Position):
        checkpoint = await store.find_checkpoint(build, time=start)
        if checkpoint is None:
            return None
        start, as_rows = Position(checkpoint.epoch, checkpoint.seq), True
    decision = decide(start, state)
    if exact and isinstance(decision, ReplayLog):
        with contextlib.suppress(StaleRead):  # the log was cut while it was read
            return await _changes(store, build, state, decision.after)
    # Rows of a timed query come and go without a change.
    if start.epoch != state.epoch or start.seq > state.seq or query.timed:
        return None
    if row_filtered:
        return None
    if as_rows and start.seq >= state.floor:
        with contextlib.suppress(StaleRead):
            return await changed_by_log(store, build, query, state, start.seq)
    if changed_keys is not None:
        with contextlib.suppress(StaleRead):
            return await changed_by_records(store, build, query, state, start, changed_keys=changed_keys)
    return None


async def _changes(store: ReaderStore, build: Build, state: QueryState, after: int) -> Recovered:
    found: list[Publication] = []
    top = after
    async for entry in read_log(store, build, state.epoch, after, charge=charge_rows):
        for seq, change in entry.numbered():
            if seq > after and (data := data_for(change, state.number)) is not None:
                found.append((seq, data))
        top = entry.last
    return Recovered(state.epoch, top, found)


async def changed_by_log(
    store: ReaderStore, build: Build, query: Query, state: QueryState, after: int
) -> Recovered | None:
    """Return the rows that changed after a number by the log; None when there are more than ``MAX_ROWS``.

    Raises StaleRead when the log does not reach back.
    """
    keys: set[str] = set()
    top = after
    async for entry in read_log(store, build, state.epoch, after, charge=charge_rows):
        keys.update(change.key for seq, change in entry.numbered() if seq > after)
        top = entry.last
        if len(keys) > MAX_ROWS:
            return None
    return await _rows_now(store, build, query, state, keys, upto=top)


async def changed_by_records(
    store: ReaderStore,
    build: Build,
    query: Query,
    state: QueryState,
    position: Position,
    *,
    changed_keys: ChangedKeys,
) -> Recovered | None:
    """Return the rows whose records came after a position; None: not known. Raises StaleRead."""
    info = await store.build(build)
    checkpoint = await store.find_checkpoint(build, seq=position.seq)
    if info is None or checkpoint is None or not (checkpoint.epoch == info.epoch == state.epoch):
        return None
    definition = replayable(query, info)
    if definition is None or info.marks.keys() - checkpoint.marks.keys():
        return None  # of a partition without a mark then, it is unknown from which record on it was folded
    keys = await changed_keys(definition.feed.topic, info.topic, checkpoint.marks, info.marks, MAX_ROWS)
    if keys is None:
        return None
    found = await _rows_now(store, build, query, state, keys, upto=info.seq)
    return found._replace(tier="replay")


def replayable(query: Query, info: BuildInfo) -> Definition | None:
    """Return a view's definition if its records name every row that changed, else None.

    They do for all rows of a view with ``replay``, where a row has the key of its records and changes by them
    alone.
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


async def _rows_now(
    store: ReaderStore, build: Build, query: Query, state: QueryState, keys: Collection[str], *, upto: int
) -> Recovered:
    """Read rows as they are now, and all other changes after ``upto`` out of the log.

    All of it together is true at one number. A row carries the number that it was read at, and what the log
    says of it up to that number is left out.
    """
    wanted = sorted(keys)
    read_at: dict[str, int] = {}
    found: list[tuple[int, bool, bytes]] = []
    seq = upto
    for at in range(0, len(wanted), ROWS_PER_READ):
        portion = wanted[at : at + ROWS_PER_READ]
        rows = await store.rows(build, portion)
        if rows.epoch != state.epoch or rows.seq < seq:
            raise StaleRead
        seq, by_key = rows.seq, dict(rows.rows)
        for key in portion:
            read_at[key] = seq
            found.append((seq, True, _row_data(query, key, by_key.get(key))))
    if seq > upto:
        async for entry in read_log(store, build, state.epoch, upto, charge=charge_rows):
            for number, change in entry.numbered():
                if read_at.get(change.key, upto) < number <= seq:
                    data = data_for(change, state.number)
                    if data is not None:
                        found.append((number, False, data))
    found.sort(key=lambda one: one[:2])
    publications: list[Publication] = [(number, data) for number, _, data in found]
    return Recovered(state.epoch, seq, publications, all_or_nothing=bool(keys))


def _row_data(query: Query, key: str, row: Row | None) -> bytes:
    """Write a row for a subscriber that may or may not have it."""
    if row is not None and belongs(query, key, row.json):
        return b'{"op":"add","key":%b,"row":%b}' % (encode_json(key), row.json)
    return b'{"op":"remove","key":%b}' % encode_json(key)
