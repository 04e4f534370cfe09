"""How an HTTP stream is written: as server-sent events, or as lines of JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from distributary.publisher.codec.websocket_frames import Pub, encode, one_line
from distributary.publisher.hub.subscription import Member, Write

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
