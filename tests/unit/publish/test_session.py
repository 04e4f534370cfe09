"""The protocol of one connection."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.model.position import Position
from distributary.publish import codes, frames
from distributary.publish.session import Action, Close, History, Join, Leave, Send, Session, Ticket


def make(max_channels: int = 3) -> Session:
    return Session("c1", version="1", ping=25, max_channels=max_channels)


def line(**command: Any) -> bytes:
    return json.dumps(command).encode()


def connected() -> Session:
    session = make()
    session.receive(line(id=1, connect={}))
    return session


def said(actions: list[Action]) -> list[dict[str, Any]]:
    return [json.loads(a.payload) for a in actions if isinstance(a, Send)]


def joined(session: Session, channel: str = "odds", id: int = 2) -> Ticket:
    (join,) = session.receive(line(id=id, subscribe={"channel": channel}))
    assert isinstance(join, Join)
    assert session.answer(join.ticket, b'"subscribe":{}') is not None
    return join.ticket


def test_connect() -> None:
    (reply,) = said(make().receive(line(id=1, connect={"name": "js"})))
    assert reply == {"id": 1, "connect": {"client": "c1", "version": "1", "ping": 25, "pong": True}}


def test_connect_and_subscribe_in_one_frame() -> None:
    frame = line(id=1, connect={}) + b"\n" + line(id=2, subscribe={"channel": "odds", "flag": 1})
    hello, join = make().receive(frame)
    assert isinstance(hello, Send)
    assert isinstance(join, Join)
    assert (join.ticket.channel, join.position, join.reject, join.subscription) == ("odds", None, False, "")


def test_subscribe_with_position_flag_and_subscription() -> None:
    asked = {"channel": "q:odds:ab", "recover": True, "epoch": "e", "offset": 7, "flag": 3}
    (join,) = connected().receive(line(id=2, subscribe=asked | {"data": {"subscription": "G"}}))
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
    (read,) = session.receive(line(id=3, history={"channel": "odds", "limit": 10, "since": since}))
    assert isinstance(read, History)
    assert (read.since, read.limit) == (Position("e", 2), 10)
    (busy,) = said(session.receive(line(id=4, history={"channel": "odds"})))
    assert busy["error"]["code"] == 111
    assert session.answer(read.ticket, b'"history":{}') == b'{"id":3,"history":{}}'
    (other,) = said(session.receive(line(id=5, history={"channel": "else"})))
    assert other["error"]["code"] == 103


@pytest.mark.parametrize("method", ["publish", "presence", "presence_stats", "rpc", "refresh", "sub_refresh"])
def test_not_available(method: str) -> None:
    (reply,) = said(connected().receive(line(id=2, **{method: {}})))
    assert reply["error"]["code"] == 108


def test_ping_pong() -> None:
    session = connected()
    assert session.ping() == Send(b"{}")
    session.receive(b"{}")
    assert session.ping() == Send(b"{}")
    assert session.ping() == Close(codes.NO_PONG)


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
            "send": st.just({}),
        },
    ),
)
STEPS = st.lists(
    st.one_of(
        st.lists(COMMANDS.map(lambda c: json.dumps(c).encode()), min_size=1, max_size=4).map(b"\n".join),
        st.binary(max_size=30),
        st.sampled_from(["ping", "answer", "refuse", "left"]),
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(hello=st.booleans(), steps=STEPS)
def test_any_sequence_keeps_the_promises(hello: bool, steps: list[bytes | str]) -> None:
    """Never raises; answers no more often than asked; closes with documented codes; silent after a close."""
    session = make()
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
            elif isinstance(action, (Join, History)):
                tickets.append(action.ticket)
            elif isinstance(action, Close):
                assert action.ending in codes.CLOSINGS
                closed = True

    def take(payload: bytes | None) -> None:
        assert payload is None or not closed
        if payload is not None:
            sent.append(payload)

    for step in [line(id=1, connect={}), *steps] if hello else steps:
        if isinstance(step, bytes):
            for one in step.split(b"\n"):
                try:
                    command = json.loads(one)
                except ValueError:
                    continue
                if isinstance(command, dict) and isinstance(command.get("id"), int):
                    asked[command["id"]] += 1
            act(session.receive(step))
        elif step == "ping" and not closed:
            act([session.ping()])
        elif step == "answer" and tickets:
            take(session.answer(tickets.pop(0), b'"subscribe":{}'))
        elif step == "refuse" and tickets:
            take(session.refuse(tickets.pop(), codes.INTERNAL))
        elif step == "left":
            session.left("odds")
        assert 0 <= session.channels <= 3
    for payload in sent:
        reply = json.loads(payload)
        if "id" in reply:
            answered[reply["id"]] += 1
    assert not answered - asked
    assert all(b"\n" not in payload for payload in sent)


def test_frames_are_read_by_their_header() -> None:
    for size in (0, 125, 126, 65535, 65536):
        frame = frames.text_frame(b"x" * size)
        assert frame[0] == 0x81
        head = 2 if size < 126 else 4 if size < 65536 else 10
        told = frame[1] if size < 126 else int.from_bytes(frame[2:head], "big")
        assert (told, len(frame)) == (size, head + size)
