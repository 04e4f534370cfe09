"""One subscription over the Centrifuge JSON protocol, without I/O: events in, actions out.

A ``SubscriberSession`` outlives connections. It has the position and the rows, so that after a lost
connection it asks for what it missed, and starts from a new snapshot when that is gone.

Promises: each change is delivered once and in order; a change is delivered only if all changes of the
query before it were; the caller may drop a connection at any time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from distributary.errors import DistributaryError, SubscribeError
from distributary.model.position import Position, Start
from distributary.subscriber.subscribed_change import (
    Row,
    SubscribedChange,
    decode_json,
    insert_row,
    replaced_row,
)

_CONNECT = 1
_GRACE = 10.0
_EXPIRED = 3005
_EARLY, _AGAIN = 0.9, 5.0
"""After which part of its lifetime a token is replaced, and after how many seconds that is tried again."""


class Send(NamedTuple):
    """Send a text frame."""

    text: str


class Deliver(NamedTuple):
    """Deliver a change to the user."""

    change: SubscribedChange


class Reconnect(NamedTuple):
    """Drop the connection and connect again after a delay (to another publisher if there is one)."""

    reason: str


class Fail(NamedTuple):
    """Fail: trying again would not help."""

    error: DistributaryError


class RefreshIn(NamedTuple):
    """Call ``refresh`` with a new token in this many seconds, before the current one expires."""

    seconds: float


Action = Send | Deliver | Reconnect | Fail | RefreshIn


class SubscriberSession:
    """The state of one subscription.

    ``start`` is where to start from, for a caller that has the ``rows`` of then, or goes without. With
    ``renewable`` the caller can fetch another token when one expires.
    """

    def __init__(
        self,
        channel: str,
        *,
        subscription: str | None = None,
        token: str | None = None,
        start: Start | None = None,
        rows: Mapping[str, Row] | None = None,
        options: Mapping[str, Any] | None = None,
        ordered: bool = False,
        renewable: bool = False,
    ) -> None:
        self.channel = channel
        # Where the next connection resumes from; None: it starts from a snapshot.
        self.position: Position | None = None
        self.rows: dict[str, Row] = dict(rows or {})
        # Where the rows last came from: a snapshot, the log, or a replay of records.
        self.tier = ""
        # Where to start from, until that is done.
        self._start = start
        # The caller gave no rows to start from: changes of unknown rows are delivered as they are.
        self._partial = start is not None and rows is None
        # The publisher has accepted the subscription.
        self.joined = False
        # Seconds without a message after which a connection is dead; None: not known yet.
        self.silence: float | None = None
        self._subscription = subscription
        # What the next connection authenticates with; None when another one must be fetched first.
        self.token = token
        self._renewable = renewable
        self._options = dict(options or {})
        # The query has an order: changes may have equal numbers.
        self._ordered = ordered
        # The ids of the last command, the last refresh and the last subscribe.
        self._id = self._refresh = _CONNECT
        self._subscribing = 0
        # The publisher expects a pong for every ping.
        self._pong = False
        # A snapshot that is not complete yet: its epoch, rows and flags.
        self._epoch = ""
        self._pages: dict[str, Row] = {}
        self._stale = self._incomplete = False

    # --- events -----------------------------------------------------------------------------------

    def opened(self) -> list[Action]:
        """Handle a new connection: connect and subscribe in one frame."""
        self.joined = False
        self.silence = None
        self._pages = {}
        hello: dict[str, Any] = {"name": "distributary-python"}
        if self.token:
            hello["token"] = self.token
        connect = json.dumps({"id": _CONNECT, "connect": hello})
        return [Send(connect + "\n" + self._subscribe())]

    def received(self, frame: str | bytes) -> list[Action]:
        """Handle a frame of one or more messages."""
        done: list[Action] = []
        text = frame.decode(errors="replace") if isinstance(frame, bytes) else frame
        try:
            for line in text.split("\n"):
                for action in self._message(decode_json(line)) if line else ():
                    done.append(action)
                    if isinstance(action, (Reconnect, Fail)):
                        return done
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            done.append(Reconnect(f"the publisher sent an invalid message: {error!r}"))
        return done

    def refresh(self, token: str) -> list[Action]:
        """Send a new token while connected."""
        self.token = token
        self._id += 1
        self._refresh = self._id
        return [Send(json.dumps({"id": self._refresh, "refresh": {"token": token}}))]

    def closed(self, code: int | None, reason: str = "") -> list[Action]:
        """Handle the end of the connection; the code says whether to reconnect."""
        self.joined = False
        if code == _EXPIRED and self._renewable:
            self.token = None
        if code is not None and (3500 <= code < 4000 or 4500 <= code < 5000):
            message = f"the publisher closed the connection: {reason or code} ({code})"
            return [Fail(SubscribeError(message, hint=_hint(code)))]
        return [Reconnect(f"connection closed ({code}) {reason}".strip())]

    # --- messages ---------------------------------------------------------------------------------

    def _message(self, message: dict[str, Any]) -> Iterator[Action]:
        if not message:
            if self._pong:
                yield Send("{}")
        elif "id" in message:
            yield from self._reply(message)
        elif "push" in message:
            push = message["push"]
            if "disconnect" in push:
                yield from self.closed(push["disconnect"].get("code"), push["disconnect"].get("reason", ""))
            elif push.get("channel") != self.channel:
                return
            elif "pub" in push:
                yield from self._publication(push["pub"])
            elif "unsubscribe" in push:
                yield from self._unsubscribed(push["unsubscribe"])

    def _reply(self, message: dict[str, Any]) -> Iterator[Action]:
        error = message.get("error")
        if message["id"] == self._refresh != _CONNECT:
            yield from self._refreshed(message)
            return
        if message["id"] not in (_CONNECT, self._subscribing):
            return
        if error is not None:
            yield self._refused(error)
        elif message["id"] == _CONNECT:
            connect = message["connect"]
            self._pong = bool(connect.get("pong"))
            ping = connect.get("ping")
            self.silence = float(ping) + _GRACE if ping else None
            yield from self._expires(connect)
        else:
            yield from self._subscribed(message["subscribe"])

    def _refreshed(self, message: dict[str, Any]) -> Iterator[Action]:
        error = message.get("error")
        if error is None:
            yield from self._expires(message["refresh"])
        elif error.get("temporary"):
            yield RefreshIn(_AGAIN)
        else:
            yield Reconnect(str(error.get("message", "error")))

    def _expires(self, reply: dict[str, Any]) -> Iterator[Action]:
        if reply.get("expires"):
            yield RefreshIn(float(reply.get("ttl", 0)) * _EARLY)

    def _refused(self, error: dict[str, Any]) -> Action:
        code, text = int(error.get("code", 0)), str(error.get("message", "error"))
        if code == 109 and self._renewable:
            self.token = None
            return Reconnect(text)
        if code == 112:  # the position is of no use any more
            self.position = None
            return Send(self._subscribe())
        if error.get("temporary") or code == 100:
            return Reconnect(text)
        return Fail(
            SubscribeError(f"the publisher refused {self.channel!r}: {text} ({code})", hint=_hint(code))
        )

    def _subscribed(self, reply: dict[str, Any]) -> Iterator[Action]:
        self.joined = True
        data = reply.get("data") or {}
        self.tier = str(data.get("tier") or "")
        if reply.get("recovered") and self._start is not None:
            yield self._resumed(str(reply.get("epoch", "")))
        if reply.get("recovered") and self.position is not None:
            # Several may have the same number, so they are compared with the position before all of them.
            after = self.position.seq
            for publication in reply.get("publications") or ():
                yield from self._publication(publication, after)
            # The reply's offset counts the whole view, so it may be beyond the last change of this query.
            if self.position is not None:
                self.position = Position(self.position.epoch, max(self.position.seq, reply.get("offset", 0)))
            return
        # The old rows are not continued. They stay readable until the new snapshot is complete.
        self.position = None
        self._start, self._partial = None, False
        self._pages = {}
        self._epoch = str(reply.get("epoch", ""))
        if data.get("op") == "snapshot":
            yield from self._snapshot(data, reply.get("offset", 0))

    def _resumed(self, epoch: str) -> Action:
        """Start from the rows that the caller has; from now on it is resumed as usual."""
        start, self._start = self._start, None
        self.position = start if isinstance(start, Position) else Position(epoch, -1)
        change = SubscribedChange("resumed", position=self.position, rows=dict(self.rows), tier=self.tier)
        return Deliver(change)

    def _unsubscribed(self, push: dict[str, Any]) -> Iterator[Action]:
        self.joined = False
        code = push.get("code", 0)
        if code < 2500:
            reason = push.get("reason") or "no reason given"
            yield Fail(SubscribeError(f"the publisher ended {self.channel!r}: {reason} ({code})"))
            return
        self._pages = {}
        yield Send(self._subscribe())

    # --- data -------------------------------------------------------------------------------------

    def _publication(self, publication: dict[str, Any], after: int | None = None) -> Iterator[Action]:
        data, offset = publication["data"], publication.get("offset")
        op = data["op"]
        if op == "snapshot":
            yield from self._snapshot(data, offset)
        elif op == "ready":
            self.tier = str(data.get("tier") or self.tier)
            yield self._complete(int(offset if offset is not None else Position.parse(data["position"]).seq))
        elif op in ("stale", "fresh"):
            yield Deliver(SubscribedChange(op, time=data.get("since"), position=self.position))
        elif op in ("add", "change", "remove"):
            if self.position is None:
                raise ValueError(f"{op} before a snapshot")
            if offset is None:
                raise ValueError(f"{op} without an offset")
            last = self.position.seq if after is None else after
            # With an order, one change may remove a row and add another one: both have its number.
            if offset > last or (self._ordered and offset == last):
                yield from self._change(op, data, Position(self.position.epoch, offset))

    def _snapshot(self, data: dict[str, Any], offset: int | None) -> Iterator[Action]:
        self._pages.update((key, row) for key, row in data["rows"])
        self._stale, self._incomplete = bool(data.get("stale")), bool(data.get("incomplete"))
        if not data.get("more") and offset is not None:
            yield self._complete(offset)

    def _complete(self, seq: int) -> Action:
        self.position = Position(self._epoch, seq)
        self.rows, self._pages = self._pages, {}
        return Deliver(
            SubscribedChange(
                "snapshot",
                position=self.position,
                rows=dict(self.rows),
                stale=self._stale,
                incomplete=self._incomplete,
                tier=self.tier,
            )
        )

    def _change(self, op: Any, data: dict[str, Any], position: Position) -> Iterator[Action]:
        key, time, at = data["key"], data.get("time"), data.get("at")
        if op == "remove":
            if self.rows.pop(key, None) is None and not self._partial:
                self.position = position  # of a row that came and went between two connections
                return
            change = SubscribedChange("remove", key, time=time, position=position)
        elif "row" in data:
            change = replaced_row(self.rows.get(key), key, data["row"], time=time, position=position, at=at)
            insert_row(self.rows, key, data["row"], at)
        elif (old := self.rows.get(key)) is None and self._partial:
            gone = tuple(data.get("gone") or ())
            change = SubscribedChange(
                "change", key, changed=data["changed"], gone=gone, time=time, position=position
            )
        elif old is None:
            # A change of an unknown row: something was lost, so start again from a snapshot.
            self.position = None
            yield Reconnect(f"a change of the unknown row {key!r}")
            return
        else:
            changed, gone = data["changed"], tuple(data.get("gone") or ())
            row = {name: value for name, value in old.items() if name not in gone} | changed
            insert_row(self.rows, key, row, at)
            change = SubscribedChange(
                "change", key, row, changed=changed, gone=gone, time=time, position=position, at=at
            )
        self.position = position
        yield Deliver(change)

    def _subscribe(self) -> str:
        self._id += 1
        self._subscribing = self._id
        request: dict[str, Any] = {"channel": self.channel}
        data = dict(self._options)
        if self._subscription is not None:
            data["subscription"] = self._subscription
        if self._start is not None:
            data["from"] = str(self._start) if isinstance(self._start, Position) else self._start
        if data:
            request["data"] = data
        if self.position is not None:
            request |= {"recover": True, "epoch": self.position.epoch, "offset": self.position.seq}
        return json.dumps({"id": self._id, "subscribe": request})


def _hint(code: int) -> str:
    return {
        101: "give a token",
        102: "list the views with: distributary view list",
        103: "the token does not allow this query",
        106: "narrow the filter, or subscribe to less",
        107: "check the filter: price > 1.5 and sport = 'tennis'",
        109: "give a new token, or get_token=, which is called for another one",
        3500: "give a valid token or an API key; see: distributary token show",
    }.get(code, "")
