"""The gateway's protocol without sockets: whatever is lost, each publication is emitted once and in order."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from distributary.socketio_gateway.publisher_messages import (
    Acknowledge,
    Action,
    Connected,
    Disconnect,
    Emit,
    Reconnect,
    RetryLater,
    Send,
)
from distributary.socketio_gateway.publisher_session import MAX_PENDING, PublisherSession
from distributary.socketio_gateway.socketio_transport import ExactJson


def plain(body: Any) -> Any:
    return json.loads(ExactJson.dumps(body))


class Publisher:
    """A minimal publisher: one channel with a log, which reaches back to ``oldest``."""

    def __init__(self) -> None:
        self.log: list[int] = []
        self.oldest = 0
        self.epoch = "e0"
        self.subscribed = False

    def take(self, text: str) -> str | None:
        command = json.loads(text)
        if "connect" in command:
            self.subscribed = False
            return json.dumps({"id": command["id"], "connect": {"ping": 25, "pong": True}})
        if "subscribe" in command:
            requested = command["subscribe"]
            self.subscribed = True
            reply: dict[str, Any] = {"epoch": self.epoch, "offset": len(self.log)}
            if requested.get("recover"):
                good = requested["epoch"] == self.epoch and requested["offset"] >= self.oldest
                reply |= {"was_recovering": True, "recovered": good}
                if good:
                    missed = range(requested["offset"] + 1, len(self.log) + 1)
                    reply["publications"] = [{"data": n, "offset": n} for n in missed]
            if not reply.get("recovered"):
                reply["data"] = {"state": len(self.log)}
            return json.dumps({"id": command["id"], "subscribe": reply})
        return None

    def publish(self) -> str | None:
        self.log.append(len(self.log) + 1)
        n = self.log[-1]
        message = {"push": {"channel": "odds", "pub": {"data": n, "offset": n}}}
        return json.dumps(message) if self.subscribed else None


class World:
    """A client's view of it all: where it stands after each event."""

    def __init__(self) -> None:
        self.publisher = Publisher()
        self.session = PublisherSession("t", max_frame=65536)
        self.at: int | None = None
        self.states = 0
        self.up = False

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                reply = self.publisher.take(action.text)
                if reply is not None and self.up:
                    self.do(self.session.received(reply))
            elif isinstance(action, Acknowledge | Emit):
                self._told(action)
            else:
                assert isinstance(action, Connected | Reconnect)

    def _told(self, action: Acknowledge | Emit) -> None:
        body = plain(action.body)
        if isinstance(action, Acknowledge) or action.event == "subscribed":
            self.at, self.states = body["offset"], self.states + 1
            assert body["data"] == {"state": self.at}
        else:
            assert action.event == "publication"
            assert self.at is not None
            assert body["offset"] == self.at + 1, "none is missing and none comes twice"
            self.at = body["offset"]

    def lose(self) -> None:
        if self.up:
            self.up = self.publisher.subscribed = False
            self.do(self.session.closed(1006))

    def connect(self) -> None:
        if not self.up:
            self.up = True
            self.do(self.session.opened())

    def publish(self) -> None:
        message = self.publisher.publish()
        if message is not None and self.up:
            self.do(self.session.received(message))

    def forget(self) -> None:
        self.publisher.oldest = len(self.publisher.log)

    def restart(self) -> None:
        self.publisher.epoch += "'"
        if self.up and self.publisher.subscribed:
            self.publisher.subscribed = False
            push = {"channel": "odds", "unsubscribe": {"code": 2500, "reason": "insufficient state"}}
            self.do(self.session.received(json.dumps({"push": push})))


STEPS = ["publish", "lose", "connect", "forget", "restart"]


@given(st.lists(st.sampled_from(STEPS), max_size=40))
def test_each_publication_is_emitted_once_whatever_is_lost(steps: list[str]) -> None:
    world = World()
    world.do(world.session.request("subscribe", ({"view": "odds"},), "first"))
    for step in steps:
        getattr(world, step)()
    world.connect()
    world.publish()
    assert world.at == len(world.publisher.log)
    if not {"forget", "restart"} & set(steps):
        assert world.states == 1, "what the log still has costs no new state"


def opened(token: str = "") -> PublisherSession:
    one = PublisherSession(token, max_frame=2000)
    (hello,) = one.opened()
    assert isinstance(hello, Send)
    message = json.loads(hello.text)
    assert message["connect"].get("token", "") == token
    assert one.received(json.dumps({"id": message["id"], "connect": {}})) == [Connected()]
    return one


def sent(actions: list[Action]) -> list[dict[str, Any]]:
    return [json.loads(action.text) for action in actions if isinstance(action, Send)]


def error(actions: list[Action]) -> tuple[Any, int, bool]:
    (answer,) = actions
    assert isinstance(answer, Acknowledge)
    result = answer.body["error"]
    return answer.ticket, result["code"], result["temporary"]


def test_lost_publish_is_an_error_and_other_requests_are_sent_again() -> None:
    one = opened()
    one.request("publish", ({"channel": "feed:f", "data": 1},), "p")
    one.request("rpc", ({"method": "status"},), "r")
    result, again = one.closed(1006)
    assert error([result]) == ("p", 100, True)
    assert isinstance(again, Reconnect)
    one.opened()
    (requested,) = sent(one.received('{"id":9,"connect":{}}'))
    assert requested["rpc"] == {"method": "status"}
    assert one.received(json.dumps({"id": requested["id"], "rpc": {"data": 1}}))[0] == Acknowledge(
        "r", {"data": one_raw(1)}
    )


def one_raw(value: Any) -> Any:
    import msgspec

    class Same:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, msgspec.Raw) and json.loads(bytes(other)) == value

    return Same()


def test_requests_without_a_publisher_wait_in_order() -> None:
    one = PublisherSession(max_frame=2000)
    assert one.request("subscribe", ({"channel": "a"},), 1) == []
    assert one.request("publish", ({"channel": "feed:f", "data": {}},), 2) == []
    assert one.request("subscribe", ({"channel": "b"},), 3) == []
    gone, done = one.request("unsubscribe", ({"channel": "b"},), 4)
    assert error([gone])[:2] == (3, 100)
    assert done == Acknowledge(4, {})
    one.opened()
    assert [next(iter(c.keys() - {"id"})) for c in sent(one.received('{"id":1,"connect":{}}'))] == [
        "subscribe",
        "publish",
    ]


def test_pending_requests_are_bounded() -> None:
    one = PublisherSession(max_frame=2000)
    for n in range(MAX_PENDING):
        assert one.request("rpc", ({"method": "m"},), n) == []
    assert error(one.request("rpc", ({"method": "m"},), "x")) == ("x", 111, True)
    assert error(opened().request("rpc", ({"method": "m" * 2000},), 1)) == (1, 107, False)


def test_refreshed_token_is_used_for_later_connections() -> None:
    one = opened("old")
    (requested,) = sent(one.request("refresh", ({"token": "new"},), 1))
    one.received(json.dumps({"id": requested["id"], "refresh": {"ttl": 60}}))
    one.closed(1006)
    (hello,) = sent(one.opened())
    assert hello["connect"]["token"] == "new"


def test_channel_refused_after_a_reconnect_is_unsubscribed() -> None:
    one = opened()
    (requested,) = sent(one.request("subscribe", ({"channel": "a"},), 1))
    one.received(json.dumps({"id": requested["id"], "subscribe": {"epoch": "e", "offset": 3}}))
    push = '{"push":{"channel":"a","unsubscribe":{"code":2500}}}'
    (again,) = sent(one.received(push))
    assert again["subscribe"] == {"channel": "a", "recover": True, "epoch": "e", "offset": 3}
    refused = {"code": 1100, "message": "building", "temporary": True}
    assert one.received(json.dumps({"id": again["id"], "error": refused})) == [RetryLater("a", 1)]
    (again,) = sent(one.retry("a"))
    assert one.retry("a") == [], "it is under way"
    (anew,) = sent(one.received(json.dumps({"id": again["id"], "error": {"code": 112}})))
    assert anew["subscribe"] == {"channel": "a"}, "the position is of no use any more"
    (over,) = one.received(json.dumps({"id": anew["id"], "error": {"code": 103, "message": "no"}}))
    assert over == Emit("unsubscribed", {"channel": "a", "code": 103, "reason": "no"})
    assert len(sent(one.request("subscribe", ({"channel": "a"},), 2))) == 1, "it may be asked for again"


def test_terminal_codes_disconnect_the_client() -> None:
    assert opened().closed(3501, "bad request") == [Disconnect((3501, "bad request"), False)]  # type: ignore[arg-type]
    assert opened().closed(3008)[0] == Disconnect((3008, "slow"), True)  # type: ignore[arg-type]
    disconnect = '{"push":{"disconnect":{"code":3503,"reason":"force"}}}'
    assert opened().received(disconnect) == [Disconnect((3503, "force"), False)]  # type: ignore[arg-type]
    one = PublisherSession(max_frame=2000)
    one.opened()
    expired = '{"id":1,"error":{"code":109,"message":"token expired"}}'
    assert one.received(expired) == [Disconnect((109, "token expired"), True)]  # type: ignore[arg-type]
    for nonsense in ("[]", "{", '{"id":"x"}', '{"push":7}', "[" * 100_000):
        (again,) = opened().received(nonsense)
        assert isinstance(again, Reconnect)
    assert opened().received("{}") == [Send("{}")]
