"""A query's rows at one position, as subscribers are sent them, and how a channel reads them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING

from distributary.auth.metering import charge_rows, measured_task
from distributary.model.build import Build
from distributary.model.field_mask import FieldMask
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.codec.publication import encode_json
from distributary.store.build_scan import StaleRead
from distributary.store.consistent_read import ClockUnknown, read_registered
from distributary.store.contract import ReaderStore
from distributary.store.store_types import BuildInfo

if TYPE_CHECKING:
    from distributary.publisher.hub.channel import Channel

CLOCK_TIMEOUT, CLOCK_POLL = 3.0, 0.05
"""Seconds to wait for the clocks of rows, and between two checks."""


class Snapshot:
    """A query's rows at (epoch, seq), as JSON bytes; encoded once however many subscribers get it."""

    def __init__(self, epoch: str, seq: int, rows: list[tuple[str, bytes]], incomplete: bool = False) -> None:
        self.epoch = epoch
        self.seq = seq
        self.rows = rows
        # The build has lost some of its source's records.
        self.incomplete = incomplete
        self._projections: dict[str, Snapshot] = {}

    def project(self, fields: FieldMask | None) -> Snapshot:
        """Return the rows with some of their fields, built once for all who request the same."""
        if fields is None:
            return self
        found = self._projections.get(fields.text)
        if found is None:
            rows = [(key, fields.project(json)) for key, json in self.rows]
            found = self._projections[fields.text] = Snapshot(self.epoch, self.seq, rows, self.incomplete)
        return found

    @cached_property
    def _pairs(self) -> list[bytes]:
        return [b"[%b,%b]" % (encode_json(key), json) for key, json in self.rows]

    @cached_property
    def size(self) -> int:
        """Roughly how many bytes it is to send."""
        return sum(map(len, self._pairs)) + len(self._pairs)

    @cached_property
    def _all(self) -> bytes:
        return b",".join(self._pairs)

    def data(self, *, stale: bool) -> bytes:
        """Write all rows as one message."""
        return self._message(self._all, stale, more=False)

    def pages(self, *, stale: bool, size: int) -> list[bytes]:
        """Write the rows as messages of about ``size`` bytes; all but the last say that more follow."""
        chunks: list[list[bytes]] = [[]]
        room = size
        for pair in self._pairs:
            if chunks[-1] and len(pair) > room:
                chunks.append([])
                room = size
            chunks[-1].append(pair)
            room -= len(pair)
        last = len(chunks) - 1
        return [self._message(b",".join(chunk), stale, more=i < last) for i, chunk in enumerate(chunks)]

    def _message(self, rows: bytes, stale: bool, *, more: bool) -> bytes:
        return b'{"op":"snapshot","rows":[%b],"stale":%b%b%b,"tier":"snapshot"}' % (
            rows,
            b"true" if stale else b"false",
            b',"incomplete":true' if self.incomplete else b"",
            b',"more":true' if more else b"",
        )


async def require_live(store: ReaderStore, build: Build) -> BuildInfo:
    """Read a build's state. Raises Refused while it has no rows to serve, StaleRead when it is gone."""
    info = await store.build(build)
    if info is None:
        raise StaleRead
    if info.status != "live":
        raise Refused(codes.BUILDING)
    return info


async def read_shared(store: ReaderStore, build: Build, channel: Channel) -> Snapshot:
    """Read a channel's rows, once for all who wait for them at the same time.

    The read may have begun before the caller's buffer. The caller's buffer checks its position, which covers
    that.
    """
    task = channel.reading
    if task is None or task.done():
        task = channel.reading = measured_task(_read(store, build, channel))
        task.add_done_callback(lambda done: _forget(channel, done))
    return await asyncio.shield(task)


def _forget(channel: Channel, task: asyncio.Task[Snapshot]) -> None:
    if channel.reading is task:
        channel.reading = None
    if not task.cancelled():
        task.exception()  # mark it as retrieved: all who waited may have left


async def _read(store: ReaderStore, build: Build, channel: Channel) -> Snapshot:
    info = await require_live(store, build)
    found = await _read_with_clocks(store, build, channel, info.indexed_fields)
    if found.epoch != info.epoch:
        raise StaleRead
    found.incomplete = info.incomplete
    return found


async def _read_with_clocks(
    store: ReaderStore, build: Build, channel: Channel, index: Collection[str]
) -> Snapshot:
    """Read the rows; a query with ``now()`` waits a moment for reducers that have just started."""
    deadline = time.monotonic() + CLOCK_TIMEOUT
    while True:
        try:
            found = await read_registered(
                store, build, channel.query, channel.number, index=index, charge=charge_rows
            )
            return Snapshot(found.epoch, found.seq, found.rows)
        except ClockUnknown:
            if time.monotonic() > deadline:
                raise Refused(codes.building("its reducers have not started yet")) from None
            await asyncio.sleep(CLOCK_POLL)
