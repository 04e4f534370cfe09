"""One HTTP stream: how it is written, and where what the hub writes waits for the handler to send."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from distributary.errors import TokenRefused
from distributary.model.field_mask import Fields
from distributary.publisher.codec import codes, websocket_frames
from distributary.publisher.codec.codes import Ending, protocol_error
from distributary.publisher.codec.websocket_frames import Pub, encode, one_line
from distributary.publisher.hub.field_projection import projected
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.state_budget import Turn
from distributary.publisher.hub.subscription import Initial, Member, Outcome, Outlet, Recovered, Tier, Write

RETRY_MS = 1_000


class Shape(Protocol):
    """One way of writing a stream. An event has a name, JSON data and perhaps a position to resume by."""

    key: str
    content_type: str
    first: bytes
    heartbeat: bytes

    def event(self, name: str, data: bytes, id: str = "") -> bytes:
        """Write one event."""

    def changes(self, epoch: str, pubs: Sequence[Pub]) -> bytes:
        """Write publications, each with its position as id."""


class ServerSentEvents:
    """What browsers read with ``EventSource``."""

    key = "\0sse"  # no channel's name begins so
    content_type = "text/event-stream; charset=utf-8"
    first = b"retry: %d\n\n" % RETRY_MS
    heartbeat = b": still here\n\n"

    def event(self, name: str, data: bytes, id: str = "") -> bytes:
        """Write one event."""
        head = f"id: {id}\n" if id else ""
        return f"{head}event: {name}\ndata: ".encode() + one_line(data) + b"\n\n"

    def changes(self, epoch: str, pubs: Sequence[Pub]) -> bytes:
        """Write publications as events."""
        head = b"id: " + epoch.encode()
        return b"".join(
            [b"%b:%d\nevent: change\ndata: %b\n\n" % (head, n, one_line(data)) for n, data in pubs]
        )


class JsonLines:
    """One JSON object a line, for whoever reads a body as it comes."""

    key = "\0ndjson"
    content_type = "application/x-ndjson"
    first = b""
    heartbeat = b'{"event":"heartbeat"}\n'

    def event(self, name: str, data: bytes, id: str = "") -> bytes:
        """Write one line."""
        head = b'"id":%b,' % encode(id) if id else b""
        return b'{"event":%b,%b"data":%b}\n' % (encode(name), head, one_line(data))

    def changes(self, epoch: str, pubs: Sequence[Pub]) -> bytes:
        """Write publications as lines."""
        head = b'{"event":"change","id":"%b:' % encode(epoch)[1:-1]
        return b"".join([b'%b%d","data":%b}\n' % (head, n, one_line(data)) for n, data in pubs])


SSE = ServerSentEvents()
JSON_LINES = JsonLines()


def shape_of(accept: str) -> Shape:
    """Choose by a request's Accept header: events, unless lines are asked for and events are not."""
    kinds = [part.split(";", 1)[0].strip().lower() for part in accept.split(",")]
    lines = "application/x-ndjson" in kinds or "application/ndjson" in kinds
    return JSON_LINES if lines and "text/event-stream" not in kinds else SSE


class EventOutlet:
    """Publications as one kind of stream has them; all streams of that kind share it."""

    def __init__(self, shape: Shape, told: Callable[[str], str] = str) -> None:
        self.key = shape.key + told("")
        self.live: dict[Member, Write] = {}
        self._shape = shape
        self._told = told

    def encode(self, epoch: str, pubs: Sequence[Pub]) -> bytes:
        """Encode a batch; ``told`` gives the epoch as these streams are told it."""
        return self._shape.changes(self._told(epoch), pubs)

    def notice(self, data: bytes) -> bytes:
        """Encode a notice as an event without an id."""
        return self._shape.event("stale", data)


PAGE_BYTES = 65_536


class EventSink:
    """Implements ``Sink`` for one stream: what is written waits here, bounded, for the handler to send.

    What the handler has taken counts as waiting until it comes for more: then it is out.
    """

    def __init__(
        self,
        limit: int,
        too_slow: Callable[[], object] = lambda: None,
        shape: Shape = SSE,
        epoch: Callable[[str], str] = str,
        fields: Fields | None = None,
    ) -> None:
        self.over = False
        self.shape = shape
        self.fields = fields
        self._epoch = epoch
        self._limit = limit
        self._too_slow = too_slow
        self._waiting: deque[tuple[bytes, bool]] = deque()
        self._size = self._taken = self._states = 0
        self._turns: list[Turn] = []
        self._some = asyncio.Event()

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
        self._some.set()

    def room(self) -> int:
        """Say how much may wait beside what waits."""
        return min(websocket_frames.ROOM, self._limit // 2) - self._taken - self._size - self._states

    def write_state(self, data: bytes) -> None:
        """Add a part of an initial state, which may be larger than what else may wait."""
        if not self.over:
            self._waiting.append((data, True))
            self._states += len(data)
            self._some.set()

    def carry(self, turn: Turn) -> None:
        """End a turn when all states are out."""
        self._turns.append(turn)

    def release(self) -> None:
        """End the turns of all states: they are out, or the reader is gone."""
        turns, self._turns = self._turns, []
        for turn in turns:
            turn.end()

    @property
    def empty(self) -> bool:
        """Say whether nothing waits."""
        return not self._waiting

    async def take(self, timeout: float) -> tuple[bytes, bool]:
        """Wait for something to send, and say whether it is of a state; empty when nothing came in time.

        A state comes in parts, everything else as far as it is there.
        """
        self._taken = 0
        if not self._states:
            self.release()
        if not self._waiting:
            self._some.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._some.wait()
        state = bool(self._waiting) and self._waiting[0][1]
        parts: list[bytes] = []
        size = 0
        while self._waiting and self._waiting[0][1] == state and not (state and size >= PAGE_BYTES):
            parts.append(self._waiting.popleft()[0])
            size += len(parts[-1])
        if state:
            self._states -= size
        else:
            self._taken = size
            self._size -= size
        return b"".join(parts), state

    def _add(self, data: bytes) -> None:
        self._waiting.append((data, False))
        self._size += len(data)

    def outlet(self) -> Outlet:
        """All streams of a query and a list of fields share one encoding for each shape.

        How positions are told is part of it.
        """
        return projected(EventOutlet(self.shape, self._epoch), self.fields)

    def joined(self, outcome: Outcome) -> None:
        """Write the state or what was missed, then that the stream is ready."""
        if isinstance(outcome, Recovered):
            if outcome.whole:
                # Without ids: a stream that breaks between them begins again where it began.
                for _, data in outcome.pubs:
                    self.write_state(self.shape.event("change", data))
            else:
                for some in portions(outcome.pubs, PAGE_BYTES):
                    self.write_state(self.shape.changes(self._epoch(outcome.epoch), some))
            self._ready(outcome.epoch, outcome.seq, outcome.tier)
        elif isinstance(outcome, Initial):
            self.begun(outcome.snapshot, outcome.stale)
        else:
            self.write(self.shape.event("waiting", b'{"op":"waiting"}'))

    def begun(self, snapshot: Snapshot, stale: bool) -> None:
        """Write the state in pages, then that the stream is ready."""
        for page in snapshot.pages(stale=stale, size=PAGE_BYTES):
            self.write_state(self.shape.event("snapshot", page))
        self._ready(snapshot.epoch, snapshot.seq, "snapshot")

    def _ready(self, epoch: str, seq: int, tier: Tier) -> None:
        position = f"{self._epoch(epoch)}:{seq}"
        recovered = b"false" if tier == "snapshot" else b"true"
        data = b'{"op":"ready","position":%b,"recovered":%b,"tier":"%b"}' % (
            websocket_frames.encode(position),
            recovered,
            tier.encode(),
        )
        self.write_state(self.shape.event("ready", data, position))

    def expel(self, error: TokenRefused) -> None:
        """End the stream: what its caller showed no longer counts."""
        said = protocol_error(error, connected=True)
        self.ended(said if isinstance(said, Ending) else codes.EXPIRED)

    def ended(self, ending: Ending) -> None:
        """End the stream; the client comes back with its last id, or learns that there is nothing."""
        reason = b'{"code":%d,"reason":%b}' % (ending.code, websocket_frames.encode(ending.reason))
        self._add(self.shape.event("end", reason))
        self.over = True
        self._some.set()


def portions(pubs: Sequence[Pub], size: int) -> Iterator[Sequence[Pub]]:
    """Cut publications into pieces of about so many bytes."""
    begin = waiting = 0
    for at, (_, data) in enumerate(pubs, 1):
        waiting += len(data)
        if waiting >= size or at == len(pubs):
            yield pubs[begin:at]
            begin, waiting = at, 0
