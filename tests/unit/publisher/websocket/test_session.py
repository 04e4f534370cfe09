"""The protocol of one connection."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.wire_formats import CODECS, UNENCODABLE, read, write

from distributary.model.position import Position
from distributary.publisher.codec import codes
from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.json_codec import JSON
from distributary.publisher.codec.subscribe_options import Conflation
from distributary.publisher.websocket.flow_control import CommandRate
from distributary.publisher.websocket.session import MAX_PENDING, Session
from distributary.publisher.websocket.session_actions import (
    Action,
    Authenticate,
    CallMethod,
    CloseConnection,
    JoinChannel,
    LeaveChannel,
    PendingReply,
    PublishMessage,
    ReadHistory,
    RefreshToken,
    Send,
)

both = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.subprotocol)


def make(
    max_channels: int = 3,
    codec: Codec = JSON,
    rate: CommandRate | None = None,
    *,
    authenticates: bool = False,
) -> Session:
    return Session(
        "c1",
        version="1",
        ping=25,
        max_channels=max_channels,
        codec=codec,
        rate=rate,
        authenticates=authenticates,
    )


def line(**command: Any) -> bytes:
    return json.dumps(command).encode()


def connected(codec: Codec = JSON, rate: CommandRate | None = None) -> Session:
    session = make(codec=codec, rate=rate)
    session.receive(write(codec, {"id": 1, "connect": {}}))
    return session


def response(actions: list[Action], codec: Codec = JSON) -> list[dict[str, Any]]:
    return [one for a in actions if isinstance(a, Send) for one in read(codec, a.payload)]


def joined(session: Session, channel: str = "odds", id: int = 2) -> PendingReply:
    (join,) = session.receive(line(id=id, subscribe={"channel": channel}))
    assert isinstance(join, JoinChannel)
    assert session.answer(join.reply, b'"subscribe":{}') is not None
    return join.reply


@both
def test_connect_is_replied_to(codec: Codec) -> None:
    (reply,) = response(make(codec=codec).receive(write(codec, {"id": 1, "connect": {"name": "js"}})), codec)
    assert reply == {"id": 1, "connect": {"client": "c1", "version": "1", "ping": 25, "pong": True}}


@both
def test_connect_and_subscribe_may_share_a_frame(codec: Codec) -> None:
    request = {"id": 2, "subscribe": {"channel": "odds", "flag": 1}}
    hello, join = make(codec=codec).receive(write(codec, {"id": 1, "connect": {}}, request))
    assert isinstance(hello, Send)
    assert isinstance(join, JoinChannel)
    assert (
        join.reply.channel,
        join.command.position,
        join.command.require_recovery,
        join.command.subscription,
    ) == ("odds", None, False, "")


@both
def test_subscribe_has_position_flag_and_subscription(codec: Codec) -> None:
    request = {"channel": "q:odds:ab", "recover": True, "epoch": "e", "offset": 7, "flag": 3}
    command = {"id": 2, "subscribe": request | {"data": {"subscription": "G"}}}
    (join,) = connected(codec).receive(write(codec, command))
    assert isinstance(join, JoinChannel)
    assert (join.command.position, join.command.require_recovery, join.command.subscription) == (
        Position("e", 7),
        True,
        "G",
    )


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\n",
        b"nonsense",
        b"[]",
        b'{"id":"1","connect":{}}',
        b'{"id":-1,"connect":{}}',
        b'{"id":1,"subscribe":{"channel":"odds"}}',
        b"{}",
        b'{"connect":{}}',
        b"\xff\xfe",
        b'{"id":1,"connect":' + b"[" * 100_000,
        b'{"id":1,"extra":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
    ],
)
def test_bad_frame_before_connect_closes(frame: bytes) -> None:
    assert make().receive(frame) == [CloseConnection(codes.BAD_FRAME)]


@pytest.mark.parametrize(
    "frame",
    [
        b'{"id":2,"connect":{}}',
        b'{"id":2}',
        b'{"id":2,"unheard":{}}',
        b'{"subscribe":{"channel":"odds"}}',
        b'{"id":2,"subscribe":{"channel":""}}',
        b'{"id":2,"subscribe":{"channel":1}}',
        b'{"id":2,"subscribe":{"channel":"odds","offset":-1}}',
        b'{"id":2,"unsubscribe":{"channel":""}}',
        b'{"id":2,"history":{"channel":""}}',
        b'{"id":2,"publish":{}}',
        b'{"id":2,"publish":{"channel":"","data":1}}',
        b'{"id":2,"rpc":[]}',
        b'{"publish":{"channel":"feed:a","data":{}}}',
    ],
)
def test_bad_frame_after_connect_closes(frame: bytes) -> None:
    assert connected().receive(frame) == [CloseConnection(codes.BAD_FRAME)]


def test_nothing_is_accepted_after_a_close() -> None:
    session = connected()
    actions = session.receive(b"x\n" + line(id=2, subscribe={"channel": "odds"}))
    assert actions == [CloseConnection(codes.BAD_FRAME)]
    assert session.receive(line(id=3, subscribe={"channel": "odds"})) == []


def test_second_subscribe_and_too_many_channels_are_refused() -> None:
    session = connected()
    for n, channel in enumerate(("a", "b", "c"), 2):
        joined(session, channel, n)
    (again,) = response(session.receive(line(id=9, subscribe={"channel": "a"})))
    (over,) = response(session.receive(line(id=10, subscribe={"channel": "d"})))
    assert (again["error"]["code"], over["error"]["code"]) == (105, 106)


def test_refused_channel_is_free_again() -> None:
    session = connected()
    (join,) = session.receive(line(id=2, subscribe={"channel": "odds"}))
    assert isinstance(join, JoinChannel)
    reply = session.refuse(join.reply, codes.BUILDING)
    assert reply is not None
    assert json.loads(reply)["error"] == {"code": 1100, "message": codes.BUILDING.message, "temporary": True}
    assert session.channels == 0
    joined(session, "odds", 3)


def test_unsubscribe_while_joining_replies_to_both_once() -> None:
    session = connected()
    (join,) = session.receive(line(id=2, subscribe={"channel": "odds"}))
    assert isinstance(join, JoinChannel)
    leave, *replies = session.receive(line(id=3, unsubscribe={"channel": "odds"}))
    assert leave == LeaveChannel("odds")
    given_up, done = response(replies)
    assert (given_up["id"], given_up["error"]["temporary"]) == (2, True)
    assert done == {"id": 3, "unsubscribe": {}}
    assert session.answer(join.reply, b'"subscribe":{}') is None


def test_unsubscribe_from_an_unknown_channel_is_replied_to() -> None:
    assert response(connected().receive(line(id=2, unsubscribe={"channel": "x"}))) == [
        {"id": 2, "unsubscribe": {}}
    ]


def test_history_of_a_joined_channel_is_read() -> None:
    session = connected()
    joined(session)
    since = {"offset": 2, "epoch": "e"}
    (request,) = session.receive(line(id=3, history={"channel": "odds", "limit": 10, "since": since}))
    assert isinstance(request, ReadHistory)
    assert (request.since, request.limit, request.reverse) == (Position("e", 2), 10, False)
    (busy,) = response(session.receive(line(id=4, history={"channel": "odds"})))
    assert busy["error"]["code"] == 111
    assert session.answer(request.reply, b'"history":{}') == b'{"id":3,"history":{}}'
    (other,) = response(session.receive(line(id=5, history={"channel": "else"})))
    assert other["error"]["code"] == 103


def test_history_is_read_backwards() -> None:
    session = connected()
    joined(session)
    (request,) = session.receive(line(id=3, history={"channel": "odds", "limit": 1, "reverse": True}))
    assert isinstance(request, ReadHistory)
    assert (request.since, request.limit, request.reverse) == (None, 1, True)
    nothing = {"channel": "odds", "reverse": True, "since": {"offset": 0, "epoch": "e"}}
    (refused,) = response(session.receive(line(id=4, history=nothing)))
    assert refused["error"]["code"] == 107


@both
def test_publish_and_rpc_become_actions(codec: Codec) -> None:
    session = connected(codec)
    publish, call = session.receive(
        write(
            codec,
            {"id": 2, "publish": {"channel": "feed:moves", "data": {"x": 1}}},
            {"id": 3, "rpc": {"method": "position", "data": {"view": "odds"}}},
        )
    )
    assert isinstance(publish, PublishMessage)
    assert isinstance(call, CallMethod)
    assert (publish.reply.channel, json.loads(publish.data)) == ("feed:moves", {"x": 1})
    assert (call.method, json.loads(call.data)) == ("position", {"view": "odds"})
    assert session.pending == 2
    done = session.answer(call.reply, codec.called(b'{"position":"e:1"}'))
    failed = session.refuse(publish.reply, codes.INTERNAL)
    assert done is not None
    assert failed is not None
    assert read(codec, done) == [{"id": 3, "rpc": {"data": {"position": "e:1"}}}]
    assert read(codec, failed)[0]["error"]["code"] == 100
    assert session.pending == 0
    assert session.answer(call.reply, codec.called(b"1")) is None


def test_pending_commands_are_bounded() -> None:
    session = connected()
    taken = [session.receive(line(id=n + 2, publish={"channel": "feed:a"}))[0] for n in range(MAX_PENDING)]
    assert all(isinstance(action, PublishMessage) for action in taken)
    (over,) = response(session.receive(line(id=100, rpc={"method": "status"})))
    assert over["error"] == {"code": 111, "message": "too many requests", "temporary": True}
    first = taken[0]
    assert isinstance(first, PublishMessage)
    session.answer(first.reply, JSON.published())
    assert isinstance(session.receive(line(id=101, rpc={"method": "status"}))[0], CallMethod)


@pytest.mark.parametrize("method", ["ping", "presence", "presence_stats"])
def test_unsupported_command_is_refused(method: str) -> None:
    (reply,) = response(connected().receive(line(id=2, **{method: {}})))
    assert reply["error"]["code"] == 108


@both
def test_missing_pong_closes(codec: Codec) -> None:
    session = connected(codec)
    assert session.ping() == Send(codec.ping)
    assert read(codec, codec.ping) == [{}]
    session.receive(write(codec, {}))
    assert session.ping() == Send(codec.ping)
    assert session.ping() == CloseConnection(codes.NO_PONG)


def test_too_many_commands_are_refused_then_closed() -> None:
    session = connected(rate=CommandRate(10, 5))
    request = b"\n".join(line(id=n, unsubscribe={"channel": "x"}) for n in range(2, 8))
    answers = response(session.receive(request, 0.0))
    assert [one.get("error", {}).get("code", 0) for one in answers] == [0, 0, 0, 0, 111, 111]
    assert answers[-1]["error"]["temporary"]
    (again,) = response(session.receive(line(id=9, unsubscribe={"channel": "x"}), 1.0))
    assert again == {"id": 9, "unsubscribe": {}}
    *_, last = session.receive(b"\n".join([b"{}"] * 100), 1.0)
    assert last == CloseConnection(codes.FLOOD)
    assert session.closed


# --- permission -----------------------------------------------------------------------------------------


@both
def test_refresh_without_authentication_is_replied_to_at_once(codec: Codec) -> None:
    session = connected(codec)
    (reply,) = response(session.receive(write(codec, {"id": 2, "refresh": {"token": "t"}})), codec)
    assert reply == {"id": 2, "refresh": {"client": "c1", "version": "1"}}
    (join,) = session.receive(write(codec, {"id": 3, "subscribe": {"channel": "odds", "token": "t"}}))
    assert isinstance(join, JoinChannel)
    session.answer(join.reply, codec.unsubscribed())
    sub_refresh = {"id": 4, "sub_refresh": {"channel": "odds", "token": "t"}}
    (reply,) = response(session.receive(write(codec, sub_refresh)), codec)
    assert reply == {"id": 4, "sub_refresh": {}}
    assert not session.pending


@both
def test_commands_wait_for_authentication(codec: Codec) -> None:
    session = make(codec=codec, authenticates=True)
    subscribe = {"id": 2, "subscribe": {"channel": "odds", "token": "own"}}
    hello = {"id": 1, "connect": {"token": "t", "data": {"api_key": "k"}}}
    (admit,) = session.receive(write(codec, hello, subscribe))
    assert isinstance(admit, Authenticate)
    assert (admit.token, admit.api_key) == ("t", "k")
    assert not session.connected
    assert session.receive(write(codec, {"id": 3, "rpc": {"method": "status"}})) == []
    welcome, join, call = session.accept_connect(60, max_channels=3, rate=None)
    assert response([welcome], codec)[0]["connect"]["ttl"] == 60
    assert isinstance(join, JoinChannel)
    assert (join.reply.id, join.command.token) == (2, "own")
    assert isinstance(call, CallMethod)


def test_rejected_client_may_send_other_credentials() -> None:
    session = make(authenticates=True)
    session.receive(line(id=1, connect={}) + b"\n" + line(id=2, subscribe={"channel": "odds"}))
    (refused,) = response(session.reject_connect(codes.TOKEN_EXPIRED))
    assert refused == {"id": 1, "error": {"code": 109, "message": "token expired"}}
    (admit,) = session.receive(line(id=3, connect={"token": "other"}))
    assert isinstance(admit, Authenticate)
    assert len(session.accept_connect(0, max_channels=3, rate=None)) == 1, "what waited before is forgotten"


def test_commands_before_authentication_are_bounded() -> None:
    session = make(authenticates=True)
    session.receive(line(id=1, connect={}))
    assert session.receive(line(id=2, connect={})) == [CloseConnection(codes.BAD_FRAME)]
    session = make(authenticates=True)
    session.receive(line(id=1, connect={}))
    *none, last = session.receive(b"\n".join([line(id=2, rpc={})] * 1000))
    assert (none, last) == ([], CloseConnection(codes.FLOOD))
    assert session.accept_connect(0, max_channels=3, rate=None) == []


def test_limits_of_the_grant_apply() -> None:
    session = make(authenticates=True)
    session.receive(line(id=1, connect={}))
    session.accept_connect(0, max_channels=1, rate=CommandRate(0, 2))
    joined(session)
    assert response(session.receive(line(id=3, subscribe={"channel": "x"})))[0]["error"]["code"] == 106
    assert response(session.receive(line(id=4, rpc={})))[0]["error"]["code"] == 111


@both
def test_refresh_of_connection_and_channel_are_actions(codec: Codec) -> None:
    session = make(codec=codec, authenticates=True)
    session.receive(write(codec, {"id": 1, "connect": {}}))
    session.accept_connect(0, max_channels=3, rate=None)
    (refresh,) = session.receive(write(codec, {"id": 2, "refresh": {"token": "new"}}))
    assert isinstance(refresh, RefreshToken)
    assert (refresh.token, refresh.reply.channel) == ("new", "")
    payload = session.refreshed(refresh.reply, 60)
    assert payload is not None
    assert read(codec, payload)[0]["refresh"]["ttl"] == 60
    unknown = {"id": 3, "sub_refresh": {"channel": "odds", "token": "new"}}
    assert response(session.receive(write(codec, unknown)), codec)[0]["error"]["code"] == 103
    (join,) = session.receive(write(codec, {"id": 4, "subscribe": {"channel": "odds"}}))
    assert isinstance(join, JoinChannel)
    session.answer(join.reply, codec.unsubscribed())
    (refresh,) = session.receive(write(codec, {**unknown, "id": 5}))
    assert isinstance(refresh, RefreshToken)
    assert (refresh.token, refresh.reply.channel) == ("new", "odds")
    payload = session.refreshed(refresh.reply, 60)
    assert payload is not None
    assert read(codec, payload) == [{"id": 5, "sub_refresh": {"expires": True, "ttl": 60}}]


CHANNELS = st.sampled_from(["odds", "odds?where=a%20%3D%201", "q:odds:ab", "", "x"])
COMMANDS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {"id": st.integers(0, 6)},
        optional={
            "connect": st.fixed_dictionaries({}, optional={"token": st.text(max_size=3)}),
            "subscribe": st.fixed_dictionaries(
                {"channel": CHANNELS},
                optional={
                    "recover": st.booleans(),
                    "epoch": st.text(max_size=2),
                    "offset": st.integers(-1, 3),
                    "flag": st.integers(0, 3),
                    "data": st.one_of(
                        st.none(),
                        st.text(max_size=2),
                        st.fixed_dictionaries({"subscription": st.text(max_size=2)}),
                    ),
                },
            ),
            "unsubscribe": st.fixed_dictionaries({"channel": CHANNELS}),
            "history": st.fixed_dictionaries({"channel": CHANNELS}, optional={"limit": st.integers(-2, 3)}),
            "rpc": st.just({}),
            "publish": st.fixed_dictionaries({"channel": CHANNELS, "data": st.just({})}),
            "send": st.just({}),
            "refresh": st.fixed_dictionaries({}, optional={"token": st.text(max_size=3)}),
            "sub_refresh": st.fixed_dictionaries({"channel": CHANNELS}),
        },
    ),
)
STEPS = st.lists(
    st.one_of(
        st.lists(COMMANDS, min_size=1, max_size=4),
        st.binary(max_size=30),
        st.sampled_from(["ping", "answer", "refuse", "left", "admit", "turn away"]),
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(codec=st.sampled_from(CODECS), hello=st.booleans(), authenticates=st.booleans(), steps=STEPS)
def test_any_sequence_keeps_the_promises(
    codec: Codec, hello: bool, authenticates: bool, steps: list[list[dict[str, Any]] | bytes | str]
) -> None:
    """Never raises; replies at most once per command; closes with documented codes; silent after a close."""
    session = make(codec=codec, authenticates=authenticates)
    request: Counter[int] = Counter()
    answered: Counter[int] = Counter()
    tickets: list[PendingReply] = []
    closed = False
    sent: list[bytes] = []

    def act(actions: list[Action]) -> None:
        nonlocal closed
        for action in actions:
            assert not closed, "an action after a close"
            if isinstance(action, Send):
                sent.append(action.payload)
            elif isinstance(action, (JoinChannel, ReadHistory, PublishMessage, CallMethod, RefreshToken)):
                assert session.connected
                tickets.append(action.reply)
            elif isinstance(action, CloseConnection):
                assert action.ending in codes.CLOSINGS
                closed = True

    def take(payload: bytes | None) -> None:
        assert payload is None or not closed
        if payload is not None:
            sent.append(payload)

    first: list[dict[str, Any]] = [{"id": 1, "connect": {}}]
    for step in [first, *steps] if hello else steps:
        if isinstance(step, list):
            request.update(command["id"] for command in step if "id" in command)
            try:
                frame = write(codec, *step)
            except UNENCODABLE:  # what the schema cannot express
                frame = b"\xff"
            act(session.receive(frame))
        elif isinstance(step, bytes):
            request.update(command.id for command in codec.decode(step) if command is not None)
            act(session.receive(step))
        elif step == "ping" and not closed:
            act([session.ping()])
        elif step == "answer" and tickets:
            take(session.answer(tickets.pop(0), codec.unsubscribed()))
        elif step == "refuse" and tickets:
            take(session.refuse(tickets.pop(), codes.INTERNAL))
        elif step == "left":
            session.left("odds")
        elif step == "admit":
            act(session.accept_connect(9, max_channels=3, rate=None))
        elif step == "turn away":
            act(session.reject_connect(codes.TOKEN_EXPIRED))
        assert 0 <= session.channels <= 3
        assert 0 <= session.pending <= MAX_PENDING
    for payload in sent:
        (reply,) = read(codec, payload)
        if "id" in reply:
            answered[reply["id"]] += 1
    assert not answered - request
    assert codec is not JSON or all(b"\n" not in payload for payload in sent)


@both
def test_subscribe_has_options(codec: Codec) -> None:
    session = connected(codec)
    data: dict[str, Any] = {"conflate": "2s", "max_rate": 5, "subscription": "s"}
    (join,) = session.receive(
        write(codec, {"id": 2, "subscribe": {"channel": "odds", "data": data, "flag": 2}})
    )
    assert isinstance(join, JoinChannel)
    assert (join.command.conflation, join.command.subscription, join.command.require_recovery) == (
        Conflation(2.0, 5.0),
        "s",
        True,
    )
    for wrong, reason in (
        ({"conflate": "soon"}, "conflate='soon'"),
        ({"max_rate": [1]}, "options"),
        ({"slow": "never"}, "slow='never'"),
        ([1], "options"),
    ):
        (reply,) = response(
            session.receive(write(codec, {"id": 3, "subscribe": {"channel": "b", "data": wrong}})), codec
        )
        assert reply["error"]["code"] == 107
        assert reason in reply["error"]["message"]


@pytest.mark.parametrize("codec", CODECS)
def test_subscribe_starts_from_a_position_or_time(codec: Codec) -> None:
    session = make(max_channels=9, codec=codec)
    session.receive(write(codec, {"id": 1, "connect": {}}))
    for id, (response, since) in enumerate(
        [("e:7", Position("e", 7)), ("2026-01-31", 1769817600000), (1769817600000, 1769817600000)], 2
    ):
        (join,) = session.receive(
            write(codec, {"id": id, "subscribe": {"channel": f"o{id}", "data": {"from": response}}})
        )
        assert isinstance(join, JoinChannel)
        assert (join.command.since, join.command.position) == (since, None)
    (refused,) = session.receive(
        write(codec, {"id": 9, "subscribe": {"channel": "x", "data": {"from": "soon"}}})
    )
    assert isinstance(refused, Send)
    (reply,) = read(codec, refused.payload)
    assert (reply["id"], reply["error"]["code"]) == (9, 107)
    assert "neither a position nor a time" in reply["error"]["message"]
    assert session.channels == 3
