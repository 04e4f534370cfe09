"""The client protocol in Protobuf, against the schema that clients have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.wire_formats import CODECS, PROTO, UNREADABLE, read, split

from distributary.publisher.codec import codes
from distributary.publisher.codec.client_commands import (
    UNSERVED,
    Command,
    Connect,
    History,
    Publish,
    Refresh,
    Rpc,
    Since,
    SubRefresh,
    Subscribe,
    Unsubscribe,
)
from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.protobuf_codec import PROTOBUF
from distributary.publisher.codec.protobuf_encoding import delimited
from distributary.publisher.codec.publication import Publication

UINT63 = st.integers(0, (1 << 63) - 1)
TEXT = st.text(max_size=20)
WITH_DATA = ("connect", "subscribe", "publish", "rpc")

SUBSCRIBES = st.builds(
    PROTO.SubscribeRequest,
    channel=TEXT,
    token=TEXT,
    recover=st.booleans(),
    epoch=TEXT,
    offset=UINT63,
    data=st.binary(max_size=20),
    positioned=st.booleans(),
    delta=TEXT,
    flag=st.integers(-(1 << 63), (1 << 63) - 1),
)
COMMANDS = st.one_of(
    st.builds(PROTO.Command),
    st.builds(
        PROTO.Command,
        id=st.integers(0, (1 << 32) - 1),
        connect=st.none()
        | st.builds(PROTO.ConnectRequest, token=TEXT, name=TEXT, data=st.binary(max_size=9)),
        subscribe=st.none() | SUBSCRIBES,
        unsubscribe=st.none() | st.builds(PROTO.UnsubscribeRequest, channel=TEXT),
        publish=st.none() | st.builds(PROTO.PublishRequest, channel=TEXT, data=st.binary(max_size=20)),
        rpc=st.none() | st.builds(PROTO.RPCRequest, method=TEXT, data=st.binary(max_size=20)),
        history=st.none()
        | st.builds(
            PROTO.HistoryRequest,
            channel=TEXT,
            limit=st.integers(-(1 << 31), (1 << 31) - 1),
            since=st.none() | st.builds(PROTO.StreamPosition, offset=UINT63, epoch=TEXT),
            reverse=st.booleans(),
        ),
        presence=st.none() | st.builds(PROTO.PresenceRequest, channel=TEXT),
        ping=st.none() | st.builds(PROTO.PingRequest),
        send=st.none() | st.builds(PROTO.SendRequest, data=st.binary(max_size=20)),
        refresh=st.none() | st.builds(PROTO.RefreshRequest, token=TEXT),
        sub_refresh=st.none() | st.builds(PROTO.SubRefreshRequest, channel=TEXT, token=TEXT),
    ),
)


def expected(command: Any) -> Command:
    """What a command means, by the schema's own code."""

    def of(name: str) -> Any:
        return getattr(command, name) if command.HasField(name) else None

    found = Command(id=command.id)
    if (one := of("connect")) is not None:
        found.connect = Connect(one.token)
    if (one := of("subscribe")) is not None:
        found.subscribe = Subscribe(one.channel, one.token, one.recover, one.epoch, one.offset, one.flag)
    if (one := of("unsubscribe")) is not None:
        found.unsubscribe = Unsubscribe(one.channel)
    if (one := of("history")) is not None:
        since = Since(one.since.offset, one.since.epoch) if one.HasField("since") else None
        found.history = History(one.channel, one.limit, since, one.reverse)
    if (one := of("publish")) is not None:
        found.publish = Publish(one.channel)
    if (one := of("rpc")) is not None:
        found.rpc = Rpc(one.method)
    if (one := of("refresh")) is not None:
        found.refresh = Refresh(one.token)
    if (one := of("sub_refresh")) is not None:
        found.sub_refresh = SubRefresh(one.channel, one.token)
    for name in ("presence", "presence_stats", "ping", "send"):
        if of(name) is not None:
            setattr(found, name, {})
    return found


def without_data(command: Command) -> tuple[Command, list[bytes]]:
    """Take the raw data out, which does not compare, and fields that the schema's code does not know."""
    data = []
    for name, fields in UNSERVED.items():
        body = getattr(command, name)
        if body is not None:
            for field in fields:
                setattr(body, field, getattr(type(body)(), field))
    for name in WITH_DATA:
        body = getattr(command, name)
        if body is not None:
            data.append(bytes(body.data))
            body.data = type(body)().data
    return command, data


@given(st.lists(COMMANDS, min_size=1, max_size=4))
def test_commands_are_decoded_by_the_schema(sent: list[Any]) -> None:
    frame = b"".join(delimited(one.SerializeToString()) for one in sent)
    for one, found in zip(sent, PROTOBUF.decode(frame), strict=True):
        assert found is not None
        bare, data = without_data(found)
        assert bare == expected(one)
        assert data == [getattr(one, n).data for n in WITH_DATA if one.HasField(n)]


@given(sent=COMMANDS, at=st.integers(0, 200), byte=st.integers(0, 255), cut=st.integers(0, 200))
def test_damaged_command_is_refused_or_decoded_by_the_schema(sent: Any, at: int, byte: int, cut: int) -> None:
    damaged = bytearray(sent.SerializeToString()[: cut or None])
    if damaged:
        damaged[at % len(damaged)] = byte
    (found,) = PROTOBUF.decode(delimited(bytes(damaged)))
    try:
        response = PROTO.Command.FromString(bytes(damaged))
    except UNREADABLE:
        response = None  # it may have looked into fields that we pass over
    if found is not None and response is not None:
        assert without_data(found)[0] == expected(response)


@given(st.binary(max_size=100))
@example(b"")
@example(b"\x00")
@example(b"\xff" * 30)
@example(b"\x05\x08\x01")
def test_any_bytes_are_decoded_or_refused(frame: bytes) -> None:
    found = list(PROTOBUF.decode(frame))
    assert found
    assert None not in found[:-1]


def test_empty_message_is_a_pong() -> None:
    assert list(PROTOBUF.decode(b"\x00")) == [Command()]
    assert list(PROTOBUF.decode(b"")) == [None]
    assert PROTOBUF.ping == b"\x00"


@given(st.text(min_size=1), st.lists(st.tuples(st.integers(1, (1 << 63) - 1), st.binary())))
def test_pushes_are_decoded_by_the_sdk(channel: str, pubs: list[Publication]) -> None:
    payload = PROTOBUF.pushes(PROTOBUF.push_head(channel), pubs)
    response = [PROTO.Reply.FromString(message) for message in split(payload)]
    assert [(one.push.channel, one.push.pub.offset, one.push.pub.data) for one in response] == [
        (channel, n, data) for n, data in pubs
    ]
    assert all(one.id == 0 for one in response)
    (notice,) = split(PROTOBUF.notice(PROTOBUF.push_head(channel), b"{}"))
    assert PROTO.Reply.FromString(notice).push.pub == PROTO.Publication(data=b"{}")


@pytest.mark.parametrize("recovering", [False, True])
def test_replies_are_decoded_by_the_sdk(recovering: bool) -> None:
    codec = PROTOBUF
    bodies = [
        codec.connected("c1", "1", 25),
        codec.subscribed("e", 7, b'{"n":1.50}', recovering=recovering),
        codec.recovered("e", 9, [(8, b'"a"'), (9, b'"b"')], b'{"tier":"log"}'),
        codec.history("e", 9, [(8, b'"a"')]),
        codec.unsubscribed(),
        codec.published(),
        codec.called(b'{"x":1}'),
        codec.error(codes.INTERNAL),
        codec.error(codes.UNRECOVERABLE),
    ]
    was = {"was_recovering": True} if recovering else {}
    place = {"recoverable": True, "positioned": True, "epoch": "e"}
    pubs = [{"data": "a", "offset": 8}, {"data": "b", "offset": 9}]
    assert read(codec, codec.join([codec.reply(n, body) for n, body in enumerate(bodies, 1)])) == [
        {"id": 1, "connect": {"client": "c1", "version": "1", "ping": 25, "pong": True}},
        {"id": 2, "subscribe": {**place, "offset": 7, "data": {"n": 1.5}, **was}},
        {
            "id": 3,
            "subscribe": {
                **place,
                "offset": 9,
                "publications": pubs,
                "data": {"tier": "log"},
                "recovered": True,
                "was_recovering": True,
            },
        },
        {"id": 4, "history": {"epoch": "e", "offset": 9, "publications": pubs[:1]}},
        {"id": 5, "unsubscribe": {}},
        {"id": 6, "publish": {}},
        {"id": 7, "rpc": {"data": {"x": 1}}},
        {"id": 8, "error": {"code": 100, "message": codes.INTERNAL.message, "temporary": True}},
        {"id": 9, "error": {"code": 112, "message": "unrecoverable position"}},
    ]
    (result,) = read(codec, codec.unsubscribe("odds", codes.INSUFFICIENT))
    assert result == {
        "push": {"channel": "odds", "unsubscribe": {"code": 2500, "reason": "insufficient state"}}
    }


def test_values_keep_their_bytes() -> None:
    data = b'{"n": 12345678901234567890.100,\n "m": 1e5}'
    (message,) = split(PROTOBUF.pushes(PROTOBUF.push_head("c"), [(1, data)]))
    assert PROTO.Reply.FromString(message).push.pub.data == data
    assert json.loads(data)["m"] == 1e5


def test_frames_are_binary() -> None:
    assert PROTOBUF.frame(b"\x00") == b"\x82\x01\x00"


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.subprotocol)
@pytest.mark.parametrize("ttl", [0, 60])
def test_reply_with_expiry_has_its_ttl(codec: Codec, ttl: int) -> None:
    when = {"expires": True, "ttl": 60} if ttl else {}
    bodies = [
        codec.connected("c1", "1", 25, ttl),
        codec.refreshed("c1", "1", ttl),
        codec.sub_refreshed(ttl),
        codec.subscribed("e", 1, b"{}", recovering=False, ttl=ttl),
        codec.recovered("e", 1, [], b"{}", ttl=ttl),
    ]
    names = ("connect", "refresh", "sub_refresh", "subscribe", "subscribe")
    for body, name in zip(bodies, names, strict=True):
        (reply,) = read(codec, codec.reply(1, body))
        response = reply[name]
        assert {key: response[key] for key in ("expires", "ttl") if key in response} == when
    assert read(codec, codec.reply(1, bodies[1]))[0]["refresh"] == {"client": "c1", "version": "1", **when}
    assert read(codec, codec.reply(1, bodies[2]))[0]["sub_refresh"] == when
