"""Targets: what a subscriber sends over a WebSocket or a socket.io connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from random import Random

from distributary.errors import DistributaryError
from distributary.model.feed import Feed
from distributary.model.query_params import parse_channel
from distributary.publisher.codec import codes
from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.codes import Refused
from distributary.publisher.codec.json_codec import JSON
from distributary.publisher.codec.websocket_frames import TooBig, deflated, inflate
from distributary.publisher.websocket.client_publish import record
from distributary.publisher.websocket.rpc import call
from distributary.publisher.websocket.session import Session
from distributary.publisher.websocket.session_actions import CloseConnection, PublishMessage
from distributary.publisher.websocket.websocket_server import agree
from distributary.socketio_gateway.publisher_session import PublisherSession
from distributary.socketio_gateway.socketio_transport import ExactPacket
from tests.fuzz.engine import Run, Target, without_resources
from tests.fuzz.mutations import any_json, any_text
from tests.support.fake_view import FakeView
from tests.support.wire_formats import CODECS, write

CHANNELS = (
    "odds",
    "odds?where=price%20%3E%201",
    "odds?key=a&key=b",
    "q:odds:0123456789abcdef",
    "feed:odds",
    "odds?order=a&limit=3",
)
COMMANDS: tuple[dict[str, object], ...] = (
    {"id": 1, "connect": {"token": "a.b.c", "data": {"api_key": "dk_x"}}},
    {
        "id": 2,
        "subscribe": {"channel": "odds", "recover": True, "epoch": "e", "offset": 3, "data": {"from": "e:1"}},
    },
    {
        "id": 2,
        "subscribe": {"channel": "odds?where=price%20%3E%201", "data": {"conflate": "1 s", "max_rate": 5}},
    },
    {"id": 2, "subscribe": {"channel": "odds?order=a&limit=3", "flag": 2, "data": {"slow": "conflate"}}},
    {"id": 3, "unsubscribe": {"channel": "odds"}},
    {
        "id": 4,
        "history": {"channel": "odds", "limit": 5, "since": {"offset": 1, "epoch": "e"}, "reverse": True},
    },
    {"id": 5, "publish": {"channel": "feed:odds", "data": {"price": 1.5}}},
    {"id": 6, "rpc": {"method": "stats", "data": {}}},
    {"id": 7, "refresh": {"token": "a.b.c"}},
    {"id": 8, "sub_refresh": {"channel": "odds", "token": "a.b.c"}},
    {"id": 9, "ping": {}},
    {"id": 10, "presence": {"channel": "odds"}},
    {"id": 11, "presence_stats": {"channel": "odds"}},
    {"send": {"data": {}}},
    {},
)
"""At least one of every command."""
FEED = Feed("odds", "odds", publish=True, publish_key="player")


def _session(wire: Codec, data: bytes) -> bool:
    """Receive messages, separated by two zero bytes, in a new and in a connected session."""
    closed = False
    for start in ((), ({"id": 1, "connect": {}},)):
        session = Session("c", version="1", ping=25, max_channels=5, codec=wire)
        for command in start:
            session.receive(write(wire, command))
        closed = False
        for message in data.split(b"\0\0"):
            for action in session.receive(message):
                if isinstance(action, PublishMessage):
                    with contextlib.suppress(Refused):
                        record(FEED, bytes(action.data))
                closed |= isinstance(action, CloseConnection)
        assert session.channels <= 5, "more channels than the limit"
    return not closed


def _frames(wire: Codec) -> list[bytes]:
    each = [write(wire, command) for command in COMMANDS]
    return [*each, b"\0\0".join(each)]


def _commands(random: Random) -> bytes:
    def one() -> bytes:
        command = dict(random.choice(COMMANDS))
        for name, inner in command.items():
            if isinstance(inner, dict) and random.random() < 0.6:
                changed = dict(inner)
                for field in changed:
                    if random.random() < 0.3:
                        changed[field] = any_json(random)
                if "channel" in changed and random.random() < 0.5:
                    changed["channel"] = random.choice(CHANNELS) + random.choice(("", any_text(random)))
                command[name] = changed
        return json.dumps(command).encode()

    return random.choice((b"\n", b"\0\0")).join(one() for _ in range(random.randrange(1, 6)))


def _inflate(data: bytes) -> bool:
    try:
        return len(inflate(data, 65_536)) <= 65_536
    except (TooBig, ValueError):
        return False


def _agree(data: bytes) -> bool:
    protocols, _, rest = data.decode("latin-1").partition("\n")
    query, _, extensions = rest.partition("\n")
    agree(protocols, query, extensions, compression=True)
    return True


def _channel(data: bytes) -> bool:
    try:
        parse_channel(data.decode("utf-8", "surrogateescape"))
    except DistributaryError:
        return False
    return True


def _record(data: bytes) -> bool:
    accepted = False
    for feed in (
        FEED,
        Feed("t", "t", format="text", publish=True),
        Feed("b", "b", format="bytes", publish=True),
    ):
        try:
            record(feed, data)
            accepted = True
        except Refused:
            pass
    return accepted


@contextlib.contextmanager
def _calls() -> Iterator[Run]:
    fake_view, loop = FakeView(), asyncio.new_event_loop()

    def run(data: bytes) -> bool:
        method, _, body = data.partition(b" ")
        try:
            loop.run_until_complete(call(fake_view.reader, method.decode("utf-8", "replace"), body))
        except Refused as refused:
            if refused.refusal == codes.INTERNAL:
                raise AssertionError("an internal error") from refused
            return False
        return True

    yield run
    loop.close()


def _packet(data: bytes) -> bool:
    try:
        packet = ExactPacket(encoded_packet=data.decode("utf-8", "surrogateescape"))
    except ValueError:
        return False
    if isinstance(packet.data, list) and packet.data and isinstance(packet.data[0], str):
        PublisherSession(max_frame=65_536).request(packet.data[0], tuple(packet.data[1:]), 1)
    return True


def _packets(random: Random) -> bytes:
    event = random.choice(EVENTS)
    payload = {name: value if random.random() < 0.7 else any_json(random) for name, value in event[1].items()}
    return f"2{random.choice(('', '0', '17'))}{json.dumps([event[0], payload])}".encode()


EVENTS: tuple[tuple[str, dict[str, object]], ...] = (
    (
        "subscribe",
        {"view": "odds", "where": "price > 1", "fields": ["price"], "recover": {"epoch": "e", "offset": 1}},
    ),
    ("subscribe", {"channel": "odds", "data": {}, "token": "t"}),
    ("subscribe", {"view": "odds", "keys": ["a", "b"]}),
    ("unsubscribe", {"channel": "odds"}),
    ("publish", {"channel": "feed:odds", "data": {"n": 1.50}}),
    ("history", {"channel": "odds", "limit": 3, "since": {"epoch": "e", "offset": 0}, "reverse": True}),
    ("rpc", {"method": "stats", "data": None}),
    ("refresh", {"token": "t"}),
    ("sub_refresh", {"channel": "odds", "token": "t"}),
)
_OFFERS = (
    b"centrifuge-protobuf, centrifuge-json\ncf_protocol=protobuf\npermessage-deflate; client_max_window_bits"
)

TARGETS = (
    Target(
        "session-json",
        without_resources(lambda data: _session(JSON, data)),
        _frames(JSON),
        (
            "publisher.codec.client_commands",
            "publisher.codec.json_codec",
            "publisher.websocket.session",
            "publisher.codec.subscribe_options",
        ),
        _commands,
    ),
    Target(
        "session-protobuf",
        without_resources(lambda data: _session(next(w for w in CODECS if w.binary), data)),
        _frames(next(w for w in CODECS if w.binary)),
        ("publisher.codec.protobuf_encoding", "publisher.codec.protobuf_codec"),
    ),
    Target(
        "inflate",
        without_resources(_inflate),
        [deflated(0x81, b"x" * 500)[4:], b"\x00"],
        ("publisher.codec.websocket_frames",),
    ),
    Target(
        "handshake", without_resources(_agree), [_OFFERS, b"\n\n"], ("publisher.websocket.websocket_server",)
    ),
    Target(
        "channel",
        without_resources(_channel),
        [channel.encode() for channel in CHANNELS],
        ("model.channel_name", "model.query_params", "model.query"),
        lambda random: (random.choice(CHANNELS) + "?&"[random.randrange(2)] + any_text(random)).encode(
            "utf-8", "replace"
        ),
    ),
    Target(
        "published-record",
        without_resources(_record),
        [b'{"player": "ann", "n": 1.50}', b'{"player": 7}', b'"text"', b"\xff"],
        ("publisher.websocket.client_publish",),
        lambda random: json.dumps({"player": _plain(any_json(random)), any_text(random): 1}).encode(),
    ),
    Target(
        "call",
        _calls,
        [b'position {"view":"odds"}', b'status {"view":"odds"}'],
        ("publisher.websocket.rpc",),
        share=0.5,
    ),
    Target(
        "socketio-packet",
        without_resources(_packet),
        [f"2{json.dumps(event)}".encode() for event in EVENTS] + [b'0{"token":"t"}', b"1", b'31["a"]'],
        (
            "socketio_gateway.socketio_transport",
            "socketio_gateway.client_requests",
            "socketio_gateway.publisher_session",
        ),
        _packets,
    ),
)


def _plain(value: object) -> object:
    return value if isinstance(value, str | bool | float | None) else str(value)
