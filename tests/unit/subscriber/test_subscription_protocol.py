from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.model.position import Position
from distributary.subscriber.subscribed_change import SubscribedChange
from distributary.subscriber.subscription_protocol import (
    Action,
    Deliver,
    Fail,
    Reconnect,
    RefreshIn,
    Send,
    SubscriberSession,
)

CHANNEL = "odds"


def joined(rows: dict[str, Any] | None = None, epoch: str = "e1", offset: int = 5) -> SubscriberSession:
    session = SubscriberSession(CHANNEL)
    session.opened()
    session.received('{"id":1,"connect":{"client":"c","ping":25,"pong":true}}')
    reply = {"epoch": epoch, "offset": offset, "data": snapshot(rows or {})}
    session.received(json.dumps({"id": 2, "subscribe": reply}))
    return session


def snapshot(rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"op": "snapshot", "rows": [[key, row] for key, row in rows.items()], **more}


def push(data: dict[str, Any], offset: int | None = None) -> str:
    pub: dict[str, Any] = {"data": data}
    if offset is not None:
        pub["offset"] = offset
    return json.dumps({"push": {"channel": CHANNEL, "pub": pub}})


def sent(actions: list[Action]) -> list[dict[str, Any]]:
    lines = [line for action in actions if isinstance(action, Send) for line in action.text.split("\n")]
    return [json.loads(line) for line in lines]


def delivered(actions: list[Action]) -> list[SubscribedChange]:
    return [action.change for action in actions if isinstance(action, Deliver)]


def test_session_connects_and_subscribes_in_one_frame() -> None:
    connect, subscribe = sent(SubscriberSession("odds?keys=a", token="t", subscription="s").opened())
    assert connect["connect"]["token"] == "t"
    assert subscribe["subscribe"] == {"channel": "odds?keys=a", "data": {"subscription": "s"}}


def test_snapshot_comes_first_with_its_position() -> None:
    session = SubscriberSession(CHANNEL)
    session.opened()
    reply = {"epoch": "e1", "offset": 7, "data": snapshot({"a": {"n": 1}}, stale=True)}
    (change,) = delivered(session.received(json.dumps({"id": 2, "subscribe": reply})))
    assert (change.op, change.rows, str(change.position)) == ("snapshot", {"a": {"n": 1}}, "e1:7")
    assert change.stale
    assert not change.incomplete


def test_pings_are_answered() -> None:
    assert sent(joined().received("{}")) == [{}]


def test_changes_are_merged() -> None:
    session = joined({"a": {"n": 1, "m": 2}})
    (change,) = delivered(
        session.received(push({"op": "change", "key": "a", "time": 9, "changed": {"n": 3}, "gone": ["m"]}, 6))
    )
    assert (change.row, change.changed, change.gone, change.time) == ({"n": 3}, {"n": 3}, ("m",), 9)
    assert session.rows == {"a": {"n": 3}}


def test_complete_row_for_a_known_key_is_a_change() -> None:
    session = joined({"a": {"n": 1, "m": 2, "same": 3}})
    row = {"n": 5, "new": 1, "same": 3}
    (change,) = delivered(session.received(push({"op": "add", "key": "a", "time": 9, "row": row}, 6)))
    assert (change.op, change.row, change.changed) == ("change", row, {"n": 5, "new": 1})
    assert (change.gone, change.time) == (("m",), 9)
    (change,) = delivered(session.received(push({"op": "add", "key": "b", "row": row}, 7)))
    assert (change.op, change.row) == ("add", row)


def test_order_ranks_rows_and_allows_equal_numbers() -> None:
    session = SubscriberSession(CHANNEL, options={"conflate": "2s"}, ordered=True)
    (_, params) = sent(session.opened())
    assert params["subscribe"]["data"] == {"conflate": "2s"}
    reply = {"epoch": "e", "offset": 5, "data": snapshot({"b": {"n": 2}, "c": {"n": 3}})}
    session.received(json.dumps({"id": 2, "subscribe": reply}))
    changes = delivered(
        session.received(
            push({"op": "remove", "key": "c"}, 6)
            + "\n"
            + push({"op": "add", "key": "a", "row": {"n": 1}, "at": 0}, 6)
            + "\n"
            + push({"op": "change", "key": "a", "changed": {"n": 9}, "at": 1}, 7)
        )
    )
    assert [(change.op, change.key, change.at) for change in changes] == [
        ("remove", "c", None),
        ("add", "a", 0),
        ("change", "a", 1),
    ]
    assert list(session.rows) == ["b", "a"]


def test_delivered_row_never_changes() -> None:
    session = joined({"a": {"n": 1}})
    (first,) = delivered(session.received(push({"op": "change", "key": "a", "changed": {"n": 2}}, 6)))
    session.received(push({"op": "change", "key": "a", "changed": {"n": 3}}, 7))
    assert first.row == {"n": 2}


def test_numbers_are_exact() -> None:
    session = joined()
    huge = "1" + "0" * 5000
    frame = push({"op": "add", "key": "a", "row": {"d": 0, "i": 2**70, "h": 1}}, 6)
    frame = frame.replace('"d": 0', '"d": 0.1000000000000000055').replace('"h": 1', f'"h": {huge}')
    (change,) = delivered(session.received(frame))
    assert change.row == {"d": Decimal("0.1000000000000000055"), "i": 2**70, "h": Decimal(huge)}


def test_known_changes_are_not_delivered_again() -> None:
    session = joined({"a": {"n": 1}})
    assert not delivered(session.received(push({"op": "remove", "key": "a"}, 5)))
    assert session.rows == {"a": {"n": 1}}


def test_change_of_an_unknown_row_leads_to_a_snapshot() -> None:
    session = joined()
    assert isinstance(session.received(push({"op": "change", "key": "x", "changed": {}}, 6))[0], Reconnect)
    assert "recover" not in sent(session.opened())[1]["subscribe"]


def test_session_recovers_from_its_position() -> None:
    session = joined(offset=5)
    session.received(push({"op": "add", "key": "a", "row": {}}, 8))
    assert isinstance(session.closed(1006)[0], Reconnect)
    request = sent(session.opened())[1]["subscribe"]
    assert (request["recover"], request["epoch"], request["offset"]) == (True, "e1", 8)


def test_recovered_changes_are_delivered_and_the_position_goes_to_the_views_end() -> None:
    session = joined(offset=5)
    session.closed(1006)
    id = sent(session.opened())[1]["id"]
    pubs = [{"data": {"op": "add", "key": k, "row": {}}, "offset": n} for k, n in (("a", 6), ("b", 8))]
    reply = {"epoch": "e1", "offset": 20, "recovered": True, "was_recovering": True, "publications": pubs}
    changes = delivered(session.received(json.dumps({"id": id, "subscribe": reply})))
    assert [change.key for change in changes] == ["a", "b"]
    assert str(session.position) == "e1:20"


def test_lost_position_leads_to_a_new_snapshot() -> None:
    session = joined({"a": {}}, offset=5)
    session.closed(1006)
    id = sent(session.opened())[1]["id"]
    reply = {"epoch": "e2", "offset": 3, "was_recovering": True, "data": snapshot({"b": {}})}
    (change,) = delivered(session.received(json.dumps({"id": id, "subscribe": reply})))
    assert (change.op, dict(change.rows), str(change.position)) == ("snapshot", {"b": {}}, "e2:3")
    assert session.rows == {"b": {}}


def test_pages_are_one_snapshot_when_ready() -> None:
    session = SubscriberSession(CHANNEL, subscription="s")
    session.opened()
    waiting = {"epoch": "e1", "offset": 1, "data": {"op": "waiting"}}
    assert not delivered(session.received(json.dumps({"id": 2, "subscribe": waiting})))
    assert not delivered(session.received(push(snapshot({"a": {}}, more=True))))
    assert not delivered(session.received(push(snapshot({"b": {}}))))
    (change,) = delivered(session.received(push({"op": "ready", "position": "e1:9"}, 9)))
    assert (dict(change.rows), str(change.position)) == ({"a": {}, "b": {}}, "e1:9")


def test_incomplete_snapshot_is_dropped_with_its_connection() -> None:
    session = SubscriberSession(CHANNEL)
    session.opened()
    session.received(
        json.dumps({"id": 2, "subscribe": {"epoch": "e1", "data": snapshot({"old": {}}, more=True)}})
    )
    session.closed(1006)
    id = sent(session.opened())[1]["id"]
    reply = {"epoch": "e1", "offset": 2, "data": snapshot({"a": {}})}
    (change,) = delivered(session.received(json.dumps({"id": id, "subscribe": reply})))
    assert dict(change.rows) == {"a": {}}


def test_insufficient_state_subscribes_again() -> None:
    actions = joined().received(
        json.dumps(
            {"push": {"channel": CHANNEL, "unsubscribe": {"code": 2500, "reason": "insufficient state"}}}
        )
    )
    assert sent(actions)[0]["subscribe"]["recover"]


def test_unrecoverable_position_is_dropped() -> None:
    session = joined()
    id = sent(session.opened())[1]["id"]
    actions = session.received(
        json.dumps({"id": id, "error": {"code": 112, "message": "unrecoverable position"}})
    )
    assert "recover" not in sent(actions)[0]["subscribe"]


@pytest.mark.parametrize("code", [3500, 3999, 4500, 4999])
def test_terminal_code_fails(code: int) -> None:
    (action,) = joined().closed(code, "no")
    assert isinstance(action, Fail)
    assert "no" in str(action.error)


@pytest.mark.parametrize("code", [None, 1000, 1006, 3000, 3008, 3499, 4000, 4499])
def test_other_codes_reconnect(code: int | None) -> None:
    assert isinstance(joined().closed(code)[0], Reconnect)


def test_disconnect_push_is_a_close() -> None:
    push = '{"push":{"disconnect":{"code":3501,"reason":"bad"}}}'
    assert isinstance(joined().received(push)[0], Fail)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 102, "message": "unknown channel"}, Fail),
        ({"code": 107, "message": "bad request"}, Fail),
        ({"code": 100, "message": "internal"}, Reconnect),
        ({"code": 4000, "message": "building", "temporary": True}, Reconnect),
    ],
)
def test_refused_subscribe_fails_or_reconnects(error: dict[str, Any], kind: type) -> None:
    session = SubscriberSession(CHANNEL)
    session.opened()
    (action,) = session.received(json.dumps({"id": 2, "error": error}))
    assert isinstance(action, kind)


# --- tokens ---------------------------------------------------------------------------------------------


def greeted(**more: Any) -> tuple[SubscriberSession, list[Action]]:
    session = SubscriberSession(CHANNEL, token="old", renewable=True)
    session.opened()
    reply = {"client": "c", "ping": 25, "pong": True, **more}
    return session, session.received(json.dumps({"id": 1, "connect": reply}))


def test_token_is_replaced_before_it_expires() -> None:
    assert greeted()[1] == []
    session, actions = greeted(expires=True, ttl=60)
    assert actions == [RefreshIn(54.0)]
    (params,) = sent(session.refresh("new"))
    assert params["refresh"] == {"token": "new"}
    again = {"client": "c", "expires": True, "ttl": 10}
    assert session.received(json.dumps({"id": params["id"], "refresh": again})) == [RefreshIn(9.0)]
    # The subscribe that was sent before is still answered.
    reply = {"epoch": "e1", "offset": 5, "data": snapshot({"a": {}})}
    assert delivered(session.received(json.dumps({"id": 2, "subscribe": reply})))
    assert sent(session.opened())[0]["connect"]["token"] == "new"


def test_refused_refresh_reconnects_or_retries() -> None:
    session, _ = greeted(expires=True, ttl=60)
    (params,) = sent(session.refresh("new"))
    error = {"code": 100, "message": "internal", "temporary": True}
    (later,) = session.received(json.dumps({"id": params["id"], "error": error}))
    assert isinstance(later, RefreshIn)
    (params,) = sent(session.refresh("new"))
    (over,) = session.received(json.dumps({"id": params["id"], "error": {"code": 1, "message": "no"}}))
    assert over == Reconnect("no")


def test_expired_token_is_replaced_if_renewable() -> None:
    expired = json.dumps({"id": 1, "error": {"code": 109, "message": "token expired"}})
    session = SubscriberSession(CHANNEL, token="old", renewable=True)
    session.opened()
    assert session.received(expired) == [Reconnect("token expired")]
    assert session.token is None
    session, _ = greeted(expires=True, ttl=60)
    assert isinstance(session.closed(3005, "connection expired")[0], Reconnect)
    assert session.token is None


def test_expired_token_fails_if_not_renewable() -> None:
    expired = json.dumps({"id": 1, "error": {"code": 109, "message": "token expired"}})
    session = SubscriberSession(CHANNEL, token="old")
    session.opened()
    assert isinstance(session.closed(3005)[0], Reconnect)
    session.opened()
    (action,) = session.received(expired)
    assert isinstance(action, Fail)
    assert "get_token" in str(action.error)


@given(st.one_of(st.binary(max_size=40), st.text(max_size=40), st.from_regex(r'\{"push":\{.{0,30}\}\}')))
def test_invalid_messages_never_raise(frame: str | bytes) -> None:
    for action in joined().received(frame):
        assert isinstance(action, (Send, Deliver, Reconnect, Fail, RefreshIn))


# --- against a model of the publisher: whatever is lost and when, the rows end right --------------------


@dataclass
class Publisher:
    """Keeps a log of changes, of which it may forget the beginning, and answers subscribes truly."""

    epoch: int = 0
    seq: int = 0
    floor: int = 0
    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    log: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def write(self, key: str, value: int | None) -> str | None:
        self.seq += 1
        old = self.rows.get(key)
        if value is None:
            if old is None:
                return None  # a change that does not concern this query
            del self.rows[key]
            data: dict[str, Any] = {"op": "remove", "key": key}
        elif old is None:
            self.rows[key] = {"v": value}
            data = {"op": "add", "key": key, "row": {"v": value}}
        else:
            self.rows[key] = {"v": value}
            data = {"op": "change", "key": key, "changed": {"v": value}}
        self.log.append((self.seq, data))
        return push(data, self.seq)

    def answer(self, request: dict[str, Any]) -> str:
        params = request["subscribe"]
        reply: dict[str, Any] = {"epoch": str(self.epoch), "offset": self.seq}
        if params.get("recover") and params["epoch"] == str(self.epoch) and params["offset"] >= self.floor:
            reply["recovered"] = True
            reply["publications"] = [{"data": d, "offset": n} for n, d in self.log if n > params["offset"]]
        else:
            reply["data"] = snapshot(self.rows)
        return json.dumps({"id": request["id"], "subscribe": reply})


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 9))),
        st.tuples(st.sampled_from(["drop", "trim", "renew", "kick"])),
    ),
    max_size=40,
)


@settings(max_examples=200)
@given(STEPS)
def test_rows_end_right_whatever_is_lost(steps: list[tuple[Any, ...]]) -> None:
    publisher, session = Publisher(), SubscriberSession(CHANNEL)
    taken: dict[str, Any] = {}
    changes: list[SubscribedChange] = []

    def play(actions: list[Action]) -> None:
        for action in actions:
            assert not isinstance(action, (Fail, Reconnect))
            if isinstance(action, Deliver):
                changes.append(action.change)
                if action.change.op == "snapshot":
                    taken.clear()
                    taken.update(action.change.rows)
                elif action.change.row is None:
                    del taken[str(action.change.key)]
                else:
                    taken[str(action.change.key)] = action.change.row
            elif isinstance(action, Send):
                for line in sent([action]):
                    if "subscribe" in line:
                        play(session.received(publisher.answer(line)))

    connected = False
    for step in (*steps, ("kick",)):
        if step[0] == "write":
            frame = publisher.write(step[1], step[2])
            if connected and frame is not None:
                play(session.received(frame))
        elif step[0] == "drop":
            session.closed(1006)
            connected = False
        elif step[0] == "trim":
            publisher.log, publisher.floor = publisher.log[-2:], publisher.seq
            publisher.floor = publisher.log[0][0] - 1 if publisher.log else publisher.seq
        elif step[0] == "renew":
            publisher.epoch += 1
            publisher.log, publisher.floor = [], publisher.seq
            if connected:
                play(session.received(_unsubscribe()))
        elif not connected:
            play(session.opened())
            connected = True
    assert taken == publisher.rows == session.rows
    seqs = [change.position for change in changes]
    for before, after in itertools.pairwise(seqs):
        assert before is not None
        assert after is not None
        assert before.epoch != after.epoch or before.seq <= after.seq


def _unsubscribe() -> str:
    return json.dumps({"push": {"channel": CHANNEL, "unsubscribe": {"code": 2500, "reason": "epoch"}}})


def test_changes_before_an_invalid_message_are_delivered() -> None:
    session = joined(offset=5)
    id = sent(session.opened())[1]["id"]
    pubs = [{"data": {"op": "add", "key": "a", "row": {}}, "offset": 6}, {"data": {"op": "add"}}]
    reply = {"epoch": "e1", "offset": 9, "recovered": True, "publications": pubs}
    change, after = session.received(json.dumps({"id": id, "subscribe": reply}))
    assert isinstance(change, Deliver)
    assert isinstance(after, Reconnect)
    assert str(session.position) == "e1:6"


def started(start: Any, rows: Any = None, **reply: Any) -> tuple[SubscriberSession, list[SubscribedChange]]:
    session = SubscriberSession(CHANNEL, start=start, rows=rows)
    session.opened()
    session.received('{"id":1,"connect":{"client":"c"}}')
    result = {"epoch": "e1", "offset": 9, "was_recovering": True, **reply}
    return session, delivered(session.received(json.dumps({"id": 2, "subscribe": result})))


def row(key: str, value: Any, offset: int) -> dict[str, Any]:
    op = {"op": "remove"} if value is None else {"op": "add", "row": value}
    return {"data": {"key": key, **op}, "offset": offset}


def test_session_starts_from_a_position_with_its_rows() -> None:
    pubs = [row("a", {"n": 2}, 9), row("b", None, 9), row("never", None, 9)]
    session, changes = started(
        Position("e1", 4),
        {"a": {"n": 1}, "b": {"n": 1}, "c": {"n": 1}},
        recovered=True,
        publications=pubs,
        data={"op": "resumed", "tier": "log"},
    )
    first, *rest = changes
    assert (first.op, first.tier, set(first.rows), str(first.position)) == (
        "resumed",
        "log",
        set("abc"),
        "e1:4",
    )
    assert [(change.op, change.key) for change in rest] == [("change", "a"), ("remove", "b")]
    assert session.rows == {"a": {"n": 2}, "c": {"n": 1}}
    assert (str(session.position), session.tier) == ("e1:9", "log")
    (again,) = [message for message in sent(session.opened()) if "subscribe" in message]
    assert again["subscribe"] == {"channel": CHANNEL, "recover": True, "epoch": "e1", "offset": 9}


def test_start_is_sent_until_it_is_replied_to() -> None:
    session = SubscriberSession(CHANNEL, start=1_700_000_000_000)
    for _ in range(2):
        assert sent(session.opened())[1]["subscribe"]["data"] == {"from": 1_700_000_000_000}
    assert sent(SubscriberSession(CHANNEL, start=Position("e", 3)).opened())[1]["subscribe"]["data"] == {
        "from": "e:3"
    }


def test_start_without_rows_delivers_changes_without_a_row() -> None:
    result = {"data": {"op": "change", "key": "a", "changed": {"n": 2}, "gone": ["m"]}, "offset": 5}
    session, (first, change) = started(
        Position("e1", 4), recovered=True, publications=[result], data={"op": "resumed", "tier": "log"}
    )
    assert (first.op, change.row, change.changed, change.gone) == ("resumed", None, {"n": 2}, ("m",))
    (removed,) = delivered(session.received(push({"op": "remove", "key": "x"}, 12)))
    assert removed.key == "x"


def test_start_that_cannot_be_served_is_a_snapshot() -> None:
    session, (first,) = started(
        Position("old", 4), {"x": {}}, recovered=False, data=snapshot({"a": {"n": 1}}, tier="snapshot")
    )
    assert (first.op, first.tier, first.rows, session.tier) == (
        "snapshot",
        "snapshot",
        {"a": {"n": 1}},
        "snapshot",
    )
    assert "data" not in sent(session.opened())[1]["subscribe"]
