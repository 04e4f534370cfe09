"""The protocol of one connection."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.wire_formats import UNSAYABLE, WIRES, read, write

from distributary.model.position import Position
from distributary.publisher.codec import codes
from distributary.publisher.codec.codec import Wire
from distributary.publisher.codec.json_codec import JSON
from distributary.publisher.hub.conflation import Pace
from distributary.publisher.websocket.flow_control import Rate
from distributary.publisher.websocket.session import MAX_PENDING, Session
from distributary.publisher.websocket.session_actions import (
    Action,
    Admit,
    Call,
    Close,
    History,
    Join,
    Leave,
    Publish,
    Refresh,
    Send,
    Ticket,
)

both = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.subprotocol)


def make(
    max_channels: int = 3, wire: Wire = JSON, rate: Rate | None = None, *, asks: bool = False
) -> Session:
    return Session("c1", version="1", ping=25, max_channels=max_channels, wire=wire, rate=rate, asks=asks)


def line(**command: Any) -> bytes:
    return json.dumps(command).encode()


def connected(wire: Wire = JSON, rate: Rate | None = None) -> Session:
    session = make(wire=wire, rate=rate)
    session.receive(write(wire, {"id": 1, "connect": {}}))
    return session


def said(actions: list[Action], wire: Wire = JSON) -> list[dict[str, Any]]:
    return [one for a in actions if isinstance(a, Send) for one in read(wire, a.payload)]


def joined(session: Session, channel: str = "odds", id: int = 2) -> Ticket:
    (join,) = session.receive(line(id=id, subscribe={"channel": channel}))
    assert isinstance(join, Join)
    assert session.answer(join.ticket, b'"subscribe":{}') is not None
    return join.ticket


@both
def test_connect(wire: Wire) -> None:
    (reply,) = said(make(wire=wire).receive(write(wire, {"id": 1, "connect": {"name": "js"}})), wire)
    assert reply == {"id": 1, "connect": {"client": "c1", "version": "1", "ping": 25, "pong": True}}


@both
def test_connect_and_subscribe_in_one_frame(wire: Wire) -> None:
    asked = {"id": 2, "subscribe": {"channel": "odds", "flag": 1}}
    hello, join = make(wire=wire).receive(write(wire, {"id": 1, "connect": {}}, asked))
    assert isinstance(hello, Send)
    assert isinstance(join, Join)
    assert (join.ticket.channel, join.position, join.reject, join.subscription) == ("odds", None, False, "")


@both
def test_subscribe_with_position_flag_and_subscription(wire: Wire) -> None:
    asked = {"channel": "q:odds:ab", "recover": True, "epoch": "e", "offset": 7, "flag": 3}
    command = {"id": 2, "subscribe": asked | {"data": {"subscription": "G"}}}
    (join,) = connected(wire).receive(write(wire, command))
    assert isinstance(join, Join)
    assert (join.position, join.reject, join.subscription) == (Position("e", 7), True, "G")


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
def test_bad_frames_before_connect_close(frame: bytes) -> None:
    assert make().receive(frame) == [Close(codes.BAD_FRAME)]


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
def test_bad_frames_after_connect_close(frame: bytes) -> None:
    assert connected().receive(frame) == [Close(codes.BAD_FRAME)]


def test_nothing_is_taken_after_a_close() -> None:
    session = connected()
    actions = session.receive(b"x\n" + line(id=2, subscribe={"channel": "odds"}))
    assert actions == [Close(codes.BAD_FRAME)]
    assert session.receive(line(id=3, subscribe={"channel": "odds"})) == []


def test_already_subscribed_and_limit() -> None:
    session = connected()
    for n, channel in enumerate(("a", "b", "c"), 2):
        joined(session, channel, n)
    (again,) = said(session.receive(line(id=9, subscribe={"channel": "a"})))
    (over,) = said(session.receive(line(id=10, subscribe={"channel": "d"})))
    assert (again["error"]["code"], over["error"]["code"]) == (105, 106)


def test_a_refused_channel_is_free_again() -> None:
    session = connected()
    (join,) = session.receive(line(id=2, subscribe={"channel": "odds"}))
    assert isinstance(join, Join)
    reply = session.refuse(join.ticket, codes.BUILDING)
    assert reply is not None
    assert json.loads(reply)["error"] == {"code": 1100, "message": codes.BUILDING.message, "temporary": True}
    assert session.channels == 0
    joined(session, "odds", 3)


def test_unsubscribe_while_joining_answers_both_once() -> None:
    session = connected()
    (join,) = session.receive(line(id=2, subscribe={"channel": "odds"}))
    assert isinstance(join, Join)
    leave, *replies = session.receive(line(id=3, unsubscribe={"channel": "odds"}))
    assert leave == Leave("odds")
    given_up, done = said(replies)
    assert (given_up["id"], given_up["error"]["temporary"]) == (2, True)
    assert done == {"id": 3, "unsubscribe": {}}
    assert session.answer(join.ticket, b'"subscribe":{}') is None


def test_unsubscribe_from_what_is_not_held() -> None:
    assert said(connected().receive(line(id=2, unsubscribe={"channel": "x"}))) == [
        {"id": 2, "unsubscribe": {}}
    ]


def test_history() -> None:
    session = connected()
    joined(session)
    since = {"offset": 2, "epoch": "e"}
    (asked,) = session.receive(line(id=3, history={"channel": "odds", "limit": 10, "since": since}))
    assert isinstance(asked, History)
    assert (asked.since, asked.limit, asked.reverse) == (Position("e", 2), 10, False)
    (busy,) = said(session.receive(line(id=4, history={"channel": "odds"})))
    assert busy["error"]["code"] == 111
    assert session.answer(asked.ticket, b'"history":{}') == b'{"id":3,"history":{}}'
    (other,) = said(session.receive(line(id=5, history={"channel": "else"})))
    assert other["error"]["code"] == 103


def test_history_backwards() -> None:
    session = connected()
    joined(session)
    (asked,) = session.receive(line(id=3, history={"channel": "odds", "limit": 1, "reverse": True}))
    assert isinstance(asked, History)
    assert (asked.since, asked.limit, asked.reverse) == (None, 1, True)
    nothing = {"channel": "odds", "reverse": True, "since": {"offset": 0, "epoch": "e"}}
    (refused,) = said(session.receive(line(id=4, history=nothing)))
    assert refused["error"]["code"] == 107


@both
def test_publish_and_call(wire: Wire) -> None:
    session = connected(wire)
    publish, call = session.receive(
        write(
            wire,
            {"id": 2, "publish": {"channel": "feed:moves", "data": {"x": 1}}},
            {"id": 3, "rpc": {"method": "position", "data": {"view": "odds"}}},
        )
    )
    assert isinstance(publish, Publish)
    assert isinstance(call, Call)
    assert (publish.ticket.channel, json.loads(publish.data)) == ("feed:moves", {"x": 1})
    assert (call.method, json.loads(call.data)) == ("position", {"view": "odds"})
    assert session.pending == 2
    done = session.answer(call.ticket, wire.called(b'{"position":"e:1"}'))
    failed = session.refuse(publish.ticket, codes.INTERNAL)
    assert done is not None
    assert failed is not None
    assert read(wire, done) == [{"id": 3, "rpc": {"data": {"position": "e:1"}}}]
    assert read(wire, failed)[0]["error"]["code"] == 100
    assert session.pending == 0
    assert session.answer(call.ticket, wire.called(b"1")) is None


def test_what_is_under_way_is_bounded() -> None:
    session = connected()
    taken = [session.receive(line(id=n + 2, publish={"channel": "feed:a"}))[0] for n in range(MAX_PENDING)]
    assert all(isinstance(action, Publish) for action in taken)
    (over,) = said(session.receive(line(id=100, rpc={"method": "status"})))
    assert over["error"] == {"code": 111, "message": "too many requests", "temporary": True}
    first = taken[0]
    assert isinstance(first, Publish)
    session.answer(first.ticket, JSON.published())
    assert isinstance(session.receive(line(id=101, rpc={"method": "status"}))[0], Call)


@pytest.mark.parametrize("method", ["ping", "presence", "presence_stats"])
def test_not_available(method: str) -> None:
    (reply,) = said(connected().receive(line(id=2, **{method: {}})))
    assert reply["error"]["code"] == 108


@both
def test_ping_pong(wire: Wire) -> None:
    session = connected(wire)
    assert session.ping() == Send(wire.ping)
    assert read(wire, wire.ping) == [{}]
    session.receive(write(wire, {}))
    assert session.ping() == Send(wire.ping)
    assert session.ping() == Close(codes.NO_PONG)


def test_too_many_commands_are_refused_then_closed() -> None:
    session = connected(rate=Rate(10, 5))
    asked = b"\n".join(line(id=n, unsubscribe={"channel": "x"}) for n in range(2, 8))
    answers = said(session.receive(asked, 0.0))
    assert [one.get("error", {}).get("code", 0) for one in answers] == [0, 0, 0, 0, 111, 111]
    assert answers[-1]["error"]["temporary"]
    (again,) = said(session.receive(line(id=9, unsubscribe={"channel": "x"}), 1.0))
    assert again == {"id": 9, "unsubscribe": {}}
    *_, last = session.receive(b"\n".join([b"{}"] * 100), 1.0)
    assert last == Close(codes.FLOOD)
    assert session.closed


# --- permission -----------------------------------------------------------------------------------------


@both
def test_where_nobody_is_asked_a_refresh_is_answered_at_once(wire: Wire) -> None:
    session = connected(wire)
    (reply,) = said(session.receive(write(wire, {"id": 2, "refresh": {"token": "t"}})), wire)
    assert reply == {"id": 2, "refresh": {"client": "c1", "version": "1"}}
    (join,) = session.receive(write(wire, {"id": 3, "subscribe": {"channel": "odds", "token": "t"}}))
    assert isinstance(join, Join)
    session.answer(join.ticket, wire.unsubscribed())
    sub_refresh = {"id": 4, "sub_refresh": {"channel": "odds", "token": "t"}}
    (reply,) = said(session.receive(write(wire, sub_refresh)), wire)
    assert reply == {"id": 4, "sub_refresh": {}}
    assert not session.pending


@both
def test_what_is_sent_before_the_answer_waits_for_it(wire: Wire) -> None:
    session = make(wire=wire, asks=True)
    subscribe = {"id": 2, "subscribe": {"channel": "odds", "token": "own"}}
    hello = {"id": 1, "connect": {"token": "t", "data": {"api_key": "k"}}}
    (admit,) = session.receive(write(wire, hello, subscribe))
    assert isinstance(admit, Admit)
    assert (admit.token, admit.api_key) == ("t", "k")
    assert not session.connected
    assert session.receive(write(wire, {"id": 3, "rpc": {"method": "status"}})) == []
    welcome, join, call = session.admitted(60, max_channels=3, rate=None)
    assert said([welcome], wire)[0]["connect"]["ttl"] == 60
    assert isinstance(join, Join)
    assert (join.ticket.id, join.token) == (2, "own")
    assert isinstance(call, Call)


def test_who_is_turned_away_may_show_something_else() -> None:
    session = make(asks=True)
    session.receive(line(id=1, connect={}) + b"\n" + line(id=2, subscribe={"channel": "odds"}))
    (refused,) = said(session.turned_away(codes.TOKEN_EXPIRED))
    assert refused == {"id": 1, "error": {"code": 109, "message": "token expired"}}
    (admit,) = session.receive(line(id=3, connect={"token": "other"}))
    assert isinstance(admit, Admit)
    assert len(session.admitted(0, max_channels=3, rate=None)) == 1, "what waited before is forgotten"


def test_before_the_answer_little_may_wait_and_nobody_connects_twice() -> None:
    session = make(asks=True)
    session.receive(line(id=1, connect={}))
    assert session.receive(line(id=2, connect={})) == [Close(codes.BAD_FRAME)]
    session = make(asks=True)
    session.receive(line(id=1, connect={}))
    *none, last = session.receive(b"\n".join([line(id=2, rpc={})] * 1000))
    assert (none, last) == ([], Close(codes.FLOOD))
    assert session.admitted(0, max_channels=3, rate=None) == []


def test_the_limits_of_who_comes_are_kept() -> None:
    session = make(asks=True)
    session.receive(line(id=1, connect={}))
    session.admitted(0, max_channels=1, rate=Rate(0, 2))
    joined(session)
    assert said(session.receive(line(id=3, subscribe={"channel": "x"})))[0]["error"]["code"] == 106
    assert said(session.receive(line(id=4, rpc={})))[0]["error"]["code"] == 111


@both
def test_refreshes(wire: Wire) -> None:
    session = make(wire=wire, asks=True)
    session.receive(write(wire, {"id": 1, "connect": {}}))
    session.admitted(0, max_channels=3, rate=None)
    (refresh,) = session.receive(write(wire, {"id": 2, "refresh": {"token": "new"}}))
    assert isinstance(refresh, Refresh)
    assert (refresh.token, refresh.ticket.channel) == ("new", "")
    payload = session.refreshed(refresh.ticket, 60)
    assert payload is not None
    assert read(wire, payload)[0]["refresh"]["ttl"] == 60
    unknown = {"id": 3, "sub_refresh": {"channel": "odds", "token": "new"}}
    assert said(session.receive(write(wire, unknown)), wire)[0]["error"]["code"] == 103
    (join,) = session.receive(write(wire, {"id": 4, "subscribe": {"channel": "odds"}}))
    assert isinstance(join, Join)
    session.answer(join.ticket, wire.unsubscribed())
    (refresh,) = session.receive(write(wire, {**unknown, "id": 5}))
    assert isinstance(refresh, Refresh)
    assert (refresh.token, refresh.ticket.channel) == ("new", "odds")
    payload = session.refreshed(refresh.ticket, 60)
    assert payload is not None
    assert read(wire, payload) == [{"id": 5, "sub_refresh": {"expires": True, "ttl": 60}}]


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
@given(wire=st.sampled_from(WIRES), hello=st.booleans(), asks=st.booleans(), steps=STEPS)
def test_any_sequence_keeps_the_promises(
    wire: Wire, hello: bool, asks: bool, steps: list[list[dict[str, Any]] | bytes | str]
) -> None:
    """Never raises; answers no more often than asked; closes with documented codes; silent after a close."""
    session = make(wire=wire, asks=asks)
    asked: Counter[int] = Counter()
    answered: Counter[int] = Counter()
    tickets: list[Ticket] = []
    closed = False
    sent: list[bytes] = []

    def act(actions: list[Action]) -> None:
        nonlocal closed
        for action in actions:
            assert not closed, "an action after a close"
            if isinstance(action, Send):
                sent.append(action.payload)
            elif isinstance(action, (Join, History, Publish, Call, Refresh)):
                assert session.connected
                tickets.append(action.ticket)
            elif isinstance(action, Close):
                assert action.ending in codes.CLOSINGS
                closed = True

    def take(payload: bytes | None) -> None:
        assert payload is None or not closed
        if payload is not None:
            sent.append(payload)

    first: list[dict[str, Any]] = [{"id": 1, "connect": {}}]
    for step in [first, *steps] if hello else steps:
        if isinstance(step, list):
            asked.update(command["id"] for command in step if "id" in command)
            try:
                frame = write(wire, *step)
            except UNSAYABLE:  # what the schema cannot say
                frame = b"\xff"
            act(session.receive(frame))
        elif isinstance(step, bytes):
            asked.update(command.id for command in wire.decode(step) if command is not None)
            act(session.receive(step))
        elif step == "ping" and not closed:
            act([session.ping()])
        elif step == "answer" and tickets:
            take(session.answer(tickets.pop(0), wire.unsubscribed()))
        elif step == "refuse" and tickets:
            take(session.refuse(tickets.pop(), codes.INTERNAL))
        elif step == "left":
            session.left("odds")
        elif step == "admit":
            act(session.admitted(9, max_channels=3, rate=None))
        elif step == "turn away":
            act(session.turned_away(codes.TOKEN_EXPIRED))
        assert 0 <= session.channels <= 3
        assert 0 <= session.pending <= MAX_PENDING
    for payload in sent:
        (reply,) = read(wire, payload)
        if "id" in reply:
            answered[reply["id"]] += 1
    assert not answered - asked
    assert wire is not JSON or all(b"\n" not in payload for payload in sent)


@both
def test_options_of_a_subscription(wire: Wire) -> None:
    session = connected(wire)
    data: dict[str, Any] = {"conflate": "2s", "max_rate": 5, "subscription": "s"}
    (join,) = session.receive(
        write(wire, {"id": 2, "subscribe": {"channel": "odds", "data": data, "flag": 2}})
    )
    assert isinstance(join, Join)
    assert (join.pace, join.subscription, join.reject) == (Pace(2.0, 5.0), "s", True)
    for wrong, reason in (
        ({"conflate": "soon"}, "conflate='soon'"),
        ({"max_rate": [1]}, "options"),
        ({"slow": "never"}, "slow='never'"),
        ([1], "options"),
    ):
        (reply,) = said(
            session.receive(write(wire, {"id": 3, "subscribe": {"channel": "b", "data": wrong}})), wire
        )
        assert reply["error"]["code"] == 107
        assert reason in reply["error"]["message"]


@pytest.mark.parametrize("wire", WIRES)
def test_a_subscribe_may_say_from_where(wire: Wire) -> None:
    session = make(max_channels=9, wire=wire)
    session.receive(write(wire, {"id": 1, "connect": {}}))
    for id, (said, since) in enumerate(
        [("e:7", Position("e", 7)), ("2026-01-31", 1769817600000), (1769817600000, 1769817600000)], 2
    ):
        (join,) = session.receive(
            write(wire, {"id": id, "subscribe": {"channel": f"o{id}", "data": {"from": said}}})
        )
        assert isinstance(join, Join)
        assert (join.since, join.position) == (since, None)
    (refused,) = session.receive(
        write(wire, {"id": 9, "subscribe": {"channel": "x", "data": {"from": "soon"}}})
    )
    assert isinstance(refused, Send)
    (reply,) = read(wire, refused.payload)
    assert (reply["id"], reply["error"]["code"]) == (9, 107)
    assert "neither a position nor a time" in reply["error"]["message"]
    assert session.channels == 3
