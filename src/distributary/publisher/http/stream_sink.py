"""One HTTP stream: how it is written, and where what the hub writes waits for the handler to send it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from distributary.errors import TokenRefused
from distributary.model.field_mask import FieldMask
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending, protocol_error
from distributary.publisher.codec.publication import Publication, encode_json, one_line
from distributary.publisher.hub.channel import projected
from distributary.publisher.hub.conflation import MAX_BACKLOG
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.state_budget import Turn
from distributary.publisher.hub.subscription import (
    ChannelEncoder,
    Initial,
    Outcome,
    Recovered,
    Subscription,
    Tier,
    Write,
)

RETRY_MS = 1_000
PAGE_BYTES = 65_536


class StreamFormat(Protocol):
    """One way of writing a stream. An event has a name, JSON data and perhaps a position to resume from."""

    key: str
    content_type: str
    first: bytes
    """What every stream begins with."""
    heartbeat: bytes

    def event(self, name: str, data: bytes, id: str = "") -> bytes:
        """Write one event."""

    def changes(self, epoch: str, publications: Sequence[Publication]) -> bytes:
        """Write publications, each with its position as id."""


class ServerSentEvents:
    """Implements ``StreamFormat`` for browsers and their ``EventSource``."""

    key = "\0sse"  # no channel's name begins like this
    content_type = "text/event-stream; charset=utf-8"
    first = b"retry: %d\n\n" % RETRY_MS
    heartbeat = b": still here\n\n"

    def event(self, name: str, data: bytes, id: str = "") -> bytes:
        """Write one event."""
        head = f"id: {id}\n" if id else ""
        return f"{head}event: {name}\ndata: ".encode() + one_line(data) + b"\n\n"

    def changes(self, epoch: str, publications: Sequence[Publication]) -> bytes:
        """Write publications as events."""
        head = b"id: " + epoch.encode()
        return b"".join(
            [b"%b:%d\nevent: change\ndata: %b\n\n" % (head, n, one_line(data)) for n, data in publications]
        )


class JsonLines:
    """Implements ``StreamFormat`` with one JSON object a line, for programs that read a body as it comes."""

    key = "\0ndjson"
    content_type = "application/x-ndjson"
    first = b""
    heartbeat = b'{"event":"heartbeat"}\n'

    def event(self, name: str, data: bytes, id: str = "") -> bytes:
        """Write one line."""
        head = b'"id":%b,' % encode_json(id) if id else b""
        return b'{"event":%b,%b"data":%b}\n' % (encode_json(name), head, one_line(data))

    def changes(self, epoch: str, publications: Sequence[Publication]) -> bytes:
        """Write publications as lines."""
        head = b'{"event":"change","id":"%b:' % encode_json(epoch)[1:-1]
        return b"".join([b'%b%d","data":%b}\n' % (head, n, one_line(data)) for n, data in publications])


SSE = ServerSentEvents()
JSON_LINES = JsonLines()


def stream_format(accept: str) -> StreamFormat:
    """Choose by a request's Accept header: events, unless it accepts lines and no events."""
    kinds = [part.split(";", 1)[0].strip().lower() for part in accept.split(",")]
    lines = "application/x-ndjson" in kinds or "application/ndjson" in kinds
    return JSON_LINES if lines and "text/event-stream" not in kinds else SSE


class StreamEncoder:
    """Implements ``ChannelEncoder`` for all streams of one format that show the same epochs."""

    def __init__(self, format: StreamFormat, visible_epoch: Callable[[str], str] = str) -> None:
        self.key = format.key + visible_epoch("")
        self.live: dict[Subscription, Write] = {}
        self._format = format
        self._visible_epoch = visible_epoch

    def encode(self, epoch: str, publications: Sequence[Publication]) -> bytes:
        """Encode a batch."""
        return self._format.changes(self._visible_epoch(epoch), publications)

    def encode_notice(self, data: bytes) -> bytes:
        """Encode a notice as an event without an id."""
        return self._format.event("stale", data)


class StreamSink:
    """Implements ``Sink`` for one stream: what is written waits here, bounded, for the handler to send.

    What the handler has taken counts as waiting until it comes for more: then it is out.
    """

    def __init__(
        self,
        limit: int,
        too_slow: Callable[[], object] = lambda: None,
        format: StreamFormat = SSE,
        visible_epoch: Callable[[str], str] = str,
        fields: FieldMask | None = None,
    ) -> None:
        # No more is written; what waits is still sent.
        self.over = False
        self.format = format
        self.fields = fields
        self._visible_epoch = visible_epoch
        self._limit = limit
        self._too_slow = too_slow
        # What waits, and whether it is part of a state, which does not count towards the limit.
        self._waiting: deque[tuple[bytes, bool]] = deque()
        # Bytes that wait, that the handler has taken, and that wait of states.
        self._size = self._taken = self._state_size = 0
        # The turns of states that are not out yet.
        self._turns: list[Turn] = []
        self._not_empty = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Add to what waits; over the limit the stream ends, and the client resumes by its last id."""
        if self.over:
            return
        if self._taken + self._size + len(data) > self._limit:
            self.over = True
            self._waiting.clear()
            self._too_slow()
        else:
            self._add(data)
        self._not_empty.set()

    def room(self) -> int:
        """Return how many more bytes may wait, so that a slow reader is sent the newest rows next."""
        return min(MAX_BACKLOG, self._limit // 2) - self._taken - self._size - self._state_size

    def write_state(self, data: bytes) -> None:
        """Add a part of an initial state, which may be larger than what else may wait."""
        if not self.over:
            self._waiting.append((data, True))
            self._state_size += len(data)
            self._not_empty.set()

    def release_when_read(self, turn: Turn) -> None:
        """End a turn when all states are out."""
        self._turns.append(turn)

    def release(self) -> None:
        """End the turns of all states: they are out, or the reader is gone."""
        turns, self._turns = self._turns, []
        for turn in turns:
            turn.end()

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    async def take(self, timeout: float) -> tuple[bytes, bool]:
        """Wait for something to send, and return whether it is of a state; empty when nothing came in time.

        A state comes in parts, everything else as far as it is there.
        """
        self._taken = 0
        if not self._state_size:
            self.release()
        if not self._waiting:
            self._not_empty.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._not_empty.wait()
        state = bool(self._waiting) and self._waiting[0][1]
        parts: list[bytes] = []
        size = 0
        while self._waiting and self._waiting[0][1] == state and not (state and size >= PAGE_BYTES):
            parts.append(self._waiting.popleft()[0])
            size += len(parts[-1])
        if state:
            self._state_size -= size
        else:
            self._taken = size
            self._size -= size
        return b"".join(parts), state

    def _add(self, data: bytes) -> None:
        self._waiting.append((data, False))
        self._size += len(data)

    def encoder(self) -> ChannelEncoder:
        """All streams of a query and its fields share one encoding for each format and visible epoch."""
        return projected(StreamEncoder(self.format, self._visible_epoch), self.fields)

    def send_outcome(self, outcome: Outcome) -> None:
        """Write the state or what was missed, then that the stream is ready."""
        if isinstance(outcome, Recovered):
            if outcome.all_or_nothing:
                # Without ids: a stream that breaks between them starts again where it started.
                for _, data in outcome.publications:
                    self.write_state(self.format.event("change", data))
            else:
                epoch = self._visible_epoch(outcome.epoch)
                for portion in portions(outcome.publications, PAGE_BYTES):
                    self.write_state(self.format.changes(epoch, portion))
            self._ready(outcome.epoch, outcome.seq, outcome.tier)
        elif isinstance(outcome, Initial):
            self.send_snapshot(outcome.snapshot, outcome.stale)
        else:
            self.write(self.format.event("waiting", b'{"op":"waiting"}'))

    def send_snapshot(self, snapshot: Snapshot, stale: bool) -> None:
        """Write the state in pages, then that the stream is ready."""
        for page in snapshot.pages(stale=stale, size=PAGE_BYTES):
            self.write_state(self.format.event("snapshot", page))
        self._ready(snapshot.epoch, snapshot.seq, "snapshot")

    def _ready(self, epoch: str, seq: int, tier: Tier) -> None:
        position = f"{self._visible_epoch(epoch)}:{seq}"
        recovered = b"false" if tier == "snapshot" else b"true"
        data = b'{"op":"ready","position":%b,"recovered":%b,"tier":"%b"}' % (
            encode_json(position),
            recovered,
            tier.encode(),
        )
        self.write_state(self.format.event("ready", data, position))

    def revoke(self, error: TokenRefused) -> None:
        """End the stream: its caller's credentials have expired or were revoked."""
        reply = protocol_error(error, connected=True)
        self.end(reply if isinstance(reply, Ending) else codes.EXPIRED)

    def end(self, ending: Ending) -> None:
        """End the stream; the client reconnects with its last id, or gets the reason why it cannot."""
        reason = b'{"code":%d,"reason":%b}' % (ending.code, encode_json(ending.reason))
        self._add(self.format.event("end", reason))
        self.over = True
        self._not_empty.set()


def portions(publications: Sequence[Publication], size: int) -> Iterator[Sequence[Publication]]:
    """Cut publications into portions of about this many bytes."""
    start = waiting = 0
    for at, (_, data) in enumerate(publications, 1):
        waiting += len(data)
        if waiting >= size or at == len(publications):
            yield publications[start:at]
            start, waiting = at, 0
