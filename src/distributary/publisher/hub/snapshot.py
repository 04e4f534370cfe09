"""A query's rows at one position, as subscribers are sent them."""

from __future__ import annotations

from functools import cached_property

from distributary.model.field_mask import Fields
from distributary.publisher.codec import websocket_frames


class Snapshot:
    """A query's rows at (epoch, seq), as JSON bytes; encoded once however many get it."""

    def __init__(self, epoch: str, seq: int, rows: list[tuple[str, bytes]], incomplete: bool = False) -> None:
        self.epoch = epoch
        self.seq = seq
        self.rows = rows
        self.incomplete = incomplete
        self._of: dict[str, Snapshot] = {}

    def of(self, fields: Fields | None) -> Snapshot:
        """The same with some fields of each row; made once for all who ask for the same."""
        if fields is None:
            return self
        found = self._of.get(fields.text)
        if found is None:
            rows = [(key, fields.project(json)) for key, json in self.rows]
            found = self._of[fields.text] = Snapshot(self.epoch, self.seq, rows, self.incomplete)
        return found

    @cached_property
    def _pairs(self) -> list[bytes]:
        return [b"[%b,%b]" % (websocket_frames.encode(key), json) for key, json in self.rows]

    @cached_property
    def size(self) -> int:
        """About how many bytes it is to send."""
        return sum(map(len, self._pairs)) + len(self._pairs)

    @cached_property
    def _all(self) -> bytes:
        return b",".join(self._pairs)

    def data(self, *, stale: bool) -> bytes:
        """Write all rows as one message."""
        return self._message(self._all, stale, more=False)

    def pages(self, *, stale: bool, size: int) -> list[bytes]:
        """Write the rows as messages of about ``size`` bytes; all but the last say that more come."""
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
