"""What one socket.io client and its publisher say to each other, without I/O: events in, actions out.

The client's requests become commands of the Centrifuge JSON protocol, so permission, limits and exactness are
the publisher's own. An ``Upstream`` outlives connections to publishers: it knows each channel's position, so
after a loss it asks for what was missed.

Promises: each request is answered exactly once, unless the client is gone; each publication of a channel is
emitted once, in order, and after the answer to its subscribe; a channel whose publications were lost for good
is told by ``subscribed`` with a new state, one that cannot be had any more by ``unsubscribed``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from distributary.errors import BadQuery, BadRequest
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending, Refusal
from distributary.socketio_gateway import client_requests as requests
from distributary.socketio_gateway.client_requests import Asked
from distributary.socketio_gateway.publisher_messages import (
    Action,
    Answer,
    Emit,
    End,
    Error,
    Fields,
    Later,
    Message,
    Push,
    Ready,
    Reconnect,
    Send,
    decoder,
    number,
    text,
)
from distributary.subscriber.subscribed_change import encode

MAX_WAITING = 256
"""Requests of one client that may wait for their answers at the same time."""

LOST = Refusal(100, "the connection to the publisher was lost: it may have been written or not", True)

_GRACE = 10.0
_AGAIN = 2500
_NAME = "distributary-socketio"


@dataclass(slots=True)
class _Waiting:
    """A command that is to be answered. ``ticket`` None: ours, nobody asked."""

    asked: Asked
    ticket: Hashable | None


@dataclass(slots=True)
class _Held:
    """A channel that the client has, or is about to have."""

    params: dict[str, Any]
    joined: bool = False
    tries: int = 0


class Upstream:
    """One client's side of the protocol. ``silence`` is after how many seconds a connection is dead."""

    def __init__(self, token: str = "", *, max_frame: int) -> None:
        self.silence: float | None = None
        self.connected = False
        self._token = token
        self._max_frame = max_frame
        self._id = 0
        self._waiting: dict[int, _Waiting] = {}
        self._channels: dict[str, _Held] = {}

    # --- the client ---------------------------------------------------------------------------------

    def ask(self, event: str, payload: tuple[Any, ...], ticket: Hashable) -> list[Action]:
        """Take a request of the client."""
        if event not in requests.FIELDS:
            return [_refuse(ticket, codes.METHOD_NOT_FOUND)]
        try:
            asked = requests.read(event, payload)
            size = len(self._text(0xFFFFFFFF, asked).encode())
        except (BadRequest, BadQuery) as error:
            return [_refuse(ticket, codes.bad_request(str(error)))]
        except (TypeError, ValueError, RecursionError):
            return [_refuse(ticket, codes.bad_request(f"the payload of {event} cannot be written as JSON"))]
        if size > self._max_frame:
            return [_refuse(ticket, codes.bad_request(f"more than {self._max_frame} bytes"))]
        if len(self._waiting) >= MAX_WAITING:
            return [_refuse(ticket, codes.TOO_MANY_REQUESTS)]
        if asked.method == "subscribe":
            if asked.channel in self._channels:
                return [_refuse(ticket, codes.ALREADY_SUBSCRIBED)]
            self._channels[asked.channel] = _Held(asked.params)
        elif asked.method == "unsubscribe":
            self._channels.pop(asked.channel, None)
            if not self.connected:
                return [*self._give_up(asked.channel), Answer(ticket, {})]
        return list(self._command(asked, ticket))

    def again(self, channel: str) -> list[Action]:
        """Try a channel again that was refused for a while."""
        held = self._channels.get(channel)
        if held is None or held.joined or not self.connected or self._joining(channel):
            return []
        return list(self._command(Asked("subscribe", held.params, channel), None))

    # --- the publisher ------------------------------------------------------------------------------

    def opened(self) -> list[Action]:
        """Take note of a new connection to a publisher: greet it."""
        self.connected = False
        self.silence = None
        self._id += 1
        hello = {"name": _NAME, **({"token": self._token} if self._token else {})}
        return [Send(encode({"id": self._id, "connect": hello}))]

    def closed(self, code: int | None, reason: str = "") -> list[Action]:
        """Take note that the connection ended; the code says whether to make another."""
        was, self.connected = self.connected, False
        if code is not None and (3500 <= code < 4000 or 4500 <= code < 5000):
            return [End(Ending(code, reason or "closed by the publisher"), back=False)]
        if code == codes.SLOW.code:
            return [End(codes.SLOW, back=True)]
        done: list[Action] = []
        for held in self._channels.values():
            held.joined = False
        for id, waiting in list(self._waiting.items()):
            if waiting.asked.method == "publish" and waiting.ticket is not None and was:
                del self._waiting[id]
                done.append(_refuse(waiting.ticket, LOST))
        return [*done, Reconnect(f"connection closed ({code}) {reason}".strip())]

    def received(self, frame: str) -> list[Action]:
        """Take in a frame of one or more messages."""
        done: list[Action] = []
        try:
            for line in frame.split("\n"):
                for action in self._message(decoder.decode(line)) if line else ():
                    done.append(action)
                    if isinstance(action, (Reconnect, End)):
                        return done
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            done.append(Reconnect(f"the publisher sent what is not the protocol: {error}"))
        return done

    def _message(self, message: Message) -> Iterator[Action]:
        if message.push is not None:
            yield from self._pushed(message.push)
        elif not message.id:
            yield Send("{}")
        elif not self.connected:
            yield from self._greeted(message)
        elif (waiting := self._waiting.pop(message.id, None)) is not None:
            yield from self._replied(waiting, message)

    def _greeted(self, message: Message) -> Iterator[Action]:
        if message.error is not None:
            error = message.error
            if error.temporary:
                yield Reconnect(error.message)
            else:
                yield End(Ending(error.code, error.message), back=True)
            return
        self.connected = True
        ping = number.decode(message.connect["ping"]) if message.connect and "ping" in message.connect else 0
        self.silence = ping + _GRACE if ping else None
        yield Ready()
        # What the client asked meanwhile, and before it the channels that it had.
        waiting, self._waiting = list(self._waiting.values()), {}
        asked = {one.asked.channel for one in waiting if one.asked.method == "subscribe"}
        for channel, held in self._channels.items():
            if channel not in asked:
                yield from self._command(Asked("subscribe", held.params, channel), None)
        for one in waiting:
            yield from self._command(one.asked, one.ticket)

    def _pushed(self, push: Push) -> Iterator[Action]:
        if push.disconnect is not None:
            yield from self.closed(push.disconnect.code, push.disconnect.reason)
            return
        held = self._channels.get(push.channel)
        if held is None or not held.joined:
            return
        if push.pub is not None:
            yield self._publication(push.channel, held, push.pub)
        elif push.unsubscribe is not None:
            held.joined = False
            if push.unsubscribe.code >= _AGAIN:
                yield from self._command(Asked("subscribe", held.params, push.channel), None)
            else:
                del self._channels[push.channel]
                yield _unsubscribed(push.channel, push.unsubscribe.code, push.unsubscribe.reason)

    def _replied(self, waiting: _Waiting, message: Message) -> Iterator[Action]:
        asked, ticket, error = waiting.asked, waiting.ticket, message.error
        if asked.method == "subscribe":
            yield from self._subscribed(asked, ticket, message)
        elif ticket is not None and error is not None:
            yield _refuse(ticket, Refusal(error.code, error.message, error.temporary))
        elif ticket is not None:
            if asked.method == "refresh":
                self._token = asked.params.get("token", self._token)
            yield Answer(ticket, getattr(message, asked.method) or {})

    def _subscribed(self, asked: Asked, ticket: Hashable | None, message: Message) -> Iterator[Action]:
        channel, held, error = asked.channel, self._channels.get(asked.channel), message.error
        if error is not None:
            yield from self._unjoined(asked, ticket, error)
            return
        reply = message.subscribe or {}
        body = {"channel": channel, **reply}
        if held is None or held.params is not asked.params:
            if ticket is not None:  # unsubscribed meanwhile, and the reply was under way
                yield _refuse(ticket, codes.INTERNAL._replace(message="unsubscribed meanwhile"))
            return
        held.joined, held.tries = True, 0
        recovered = bytes(reply.get("recovered", b"")) == b"true"
        missed = msgspec.json.decode(reply.get("publications") or b"[]", type=list[Fields])
        if ticket is not None:
            yield Answer(ticket, body)
        elif recovered:
            for pub in missed:
                yield self._publication(channel, held, pub)
        else:
            yield Emit("subscribed", body)
        epoch = text.decode(reply["epoch"]) if "epoch" in reply else ""
        offset = number.decode(reply["offset"]) if "offset" in reply else 0
        if epoch:
            held.params |= {"recover": True, "epoch": epoch, "offset": offset}

    def _unjoined(self, asked: Asked, ticket: Hashable | None, error: Error) -> Iterator[Action]:
        held = self._channels.get(asked.channel)
        ours = held is not None and held.params is asked.params
        if ticket is not None:
            if ours:
                del self._channels[asked.channel]
            yield _refuse(ticket, Refusal(error.code, error.message, error.temporary))
        elif not ours or held is None:
            return
        elif error.code == codes.UNRECOVERABLE.code:
            for name in ("recover", "epoch", "offset"):
                held.params.pop(name, None)
            yield from self._command(asked, None)
        elif error.temporary:
            held.tries += 1
            yield Later(asked.channel, held.tries)
        else:
            del self._channels[asked.channel]
            yield _unsubscribed(asked.channel, error.code, error.message)

    def _publication(self, channel: str, held: _Held, pub: Fields) -> Action:
        if "offset" in pub and "epoch" in held.params:
            held.params["offset"] = max(held.params["offset"], number.decode(pub["offset"]))
        return Emit("publication", {"channel": channel, **pub})

    # --- commands -----------------------------------------------------------------------------------

    def _command(self, asked: Asked, ticket: Hashable | None) -> Iterator[Action]:
        self._id += 1
        self._waiting[self._id] = _Waiting(asked, ticket)
        if self.connected:
            yield Send(self._text(self._id, asked))

    def _text(self, id: int, asked: Asked) -> str:
        return encode({"id": id, asked.method: asked.params})

    def _joining(self, channel: str) -> bool:
        return any(
            one.asked.method == "subscribe" and one.asked.channel == channel for one in self._waiting.values()
        )

    def _give_up(self, channel: str) -> Iterator[Action]:
        for id, one in list(self._waiting.items()):
            if one.asked.channel == channel and one.asked.method == "subscribe":
                del self._waiting[id]
                if one.ticket is not None:
                    yield _refuse(one.ticket, codes.INTERNAL._replace(message="unsubscribed meanwhile"))


def error_body(refusal: Refusal) -> dict[str, Any]:
    """Write a refusal as the client gets it."""
    return {"error": refusal._asdict()}


def _unsubscribed(channel: str, code: int, reason: str) -> Emit:
    return Emit("unsubscribed", {"channel": channel, "code": code, "reason": reason})


def _refuse(ticket: Hashable, refusal: Refusal) -> Answer:
    return Answer(ticket, error_body(refusal))
