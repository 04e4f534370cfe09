"""The protocol between one socket.io client and its publisher, without I/O: events in, actions out.

The client's requests become commands of the Centrifuge JSON protocol, so authorization, limits and exactness
are the publisher's own. A ``PublisherSession`` outlives connections to publishers: it knows each channel's
position, so after a lost connection it asks for what was missed.

Promises: each request is acknowledged exactly once, unless the client is gone; each publication of a channel
is emitted once, in order, and after the acknowledgement of its subscribe; if publications of a channel were
lost for good, ``subscribed`` is emitted with a new snapshot, or ``unsubscribed`` if that is refused for good.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from distributary.errors import BadQuery, BadRequest
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending, Refusal
from distributary.socketio_gateway import client_requests
from distributary.socketio_gateway.client_requests import ClientRequest
from distributary.socketio_gateway.publisher_messages import (
    Acknowledge,
    Action,
    Connected,
    Disconnect,
    Emit,
    Error,
    Fields,
    Message,
    Push,
    Reconnect,
    RetryLater,
    Send,
    decoder,
    number,
    text,
)
from distributary.subscriber.subscribed_change import encode_json

MAX_PENDING = 256
"""How many requests of one client may be pending."""

LOST = Refusal(
    100, "the connection to the publisher was lost; the message may or may not have been written", True
)

_GRACE = 10.0
_RESUBSCRIBE = 2500
_NAME = "distributary-socketio"


@dataclass(slots=True)
class _Pending:
    """A command without a reply. ``ticket`` is the client's request, None for a command of our own."""

    request: ClientRequest
    ticket: Hashable | None


@dataclass(slots=True)
class _Channel:
    """A channel that the client is subscribed or subscribing to."""

    params: dict[str, Any]
    joined: bool = False
    tries: int = 0


class PublisherSession:
    """The state of one client's subscriptions and requests."""

    def __init__(self, token: str = "", *, max_frame: int) -> None:
        # Seconds without a message after which the connection is dead; None: not known yet.
        self.silence: float | None = None
        # The publisher has accepted the connection.
        self.connected = False
        self._token = token
        self._max_frame = max_frame
        # The id of the last command.
        self._id = 0
        # Commands without a reply, by id; they outlive the connection.
        self._pending: dict[int, _Pending] = {}
        self._channels: dict[str, _Channel] = {}

    # --- the client ---------------------------------------------------------------------------------

    def request(self, event: str, payload: tuple[Any, ...], ticket: Hashable) -> list[Action]:
        """Handle a request of the client."""
        if event not in client_requests.FIELDS:
            return [_refuse(ticket, codes.METHOD_NOT_FOUND)]
        try:
            request = client_requests.read(event, payload)
            size = len(self._text(0xFFFFFFFF, request).encode())
        except (BadRequest, BadQuery) as error:
            return [_refuse(ticket, codes.bad_request(str(error)))]
        except (TypeError, ValueError, RecursionError):
            return [_refuse(ticket, codes.bad_request(f"the payload of {event} cannot be written as JSON"))]
        if size > self._max_frame:
            return [_refuse(ticket, codes.bad_request(f"more than {self._max_frame} bytes"))]
        if len(self._pending) >= MAX_PENDING:
            return [_refuse(ticket, codes.TOO_MANY_REQUESTS)]
        if request.method == "subscribe":
            if request.channel in self._channels:
                return [_refuse(ticket, codes.ALREADY_SUBSCRIBED)]
            self._channels[request.channel] = _Channel(request.params)
        elif request.method == "unsubscribe":
            self._channels.pop(request.channel, None)
            if not self.connected:
                return [*self._give_up(request.channel), Acknowledge(ticket, {})]
        return list(self._command(request, ticket))

    def retry(self, channel: str) -> list[Action]:
        """Subscribe again to a channel that was temporarily refused."""
        state = self._channels.get(channel)
        if state is None or state.joined or not self.connected or self._joining(channel):
            return []
        return list(self._command(ClientRequest("subscribe", state.params, channel), None))

    # --- the publisher ------------------------------------------------------------------------------

    def opened(self) -> list[Action]:
        """Handle a new connection to a publisher: send the connect."""
        self.connected = False
        self.silence = None
        self._id += 1
        hello = {"name": _NAME, **({"token": self._token} if self._token else {})}
        return [Send(encode_json({"id": self._id, "connect": hello}))]

    def closed(self, code: int | None, reason: str = "") -> list[Action]:
        """Handle the end of the connection; the code says whether to connect again."""
        was_connected, self.connected = self.connected, False
        if code is not None and (3500 <= code < 4000 or 4500 <= code < 5000):
            return [Disconnect(Ending(code, reason or "closed by the publisher"), may_reconnect=False)]
        if code == codes.SLOW.code:
            return [Disconnect(codes.SLOW, may_reconnect=True)]
        done: list[Action] = []
        for state in self._channels.values():
            state.joined = False
        for id, pending in list(self._pending.items()):
            if pending.request.method == "publish" and pending.ticket is not None and was_connected:
                del self._pending[id]
                done.append(_refuse(pending.ticket, LOST))
        return [*done, Reconnect(f"connection closed ({code}) {reason}".strip())]

    def received(self, frame: str) -> list[Action]:
        """Handle a frame of one or more messages."""
        done: list[Action] = []
        try:
            for line in frame.split("\n"):
                for action in self._message(decoder.decode(line)) if line else ():
                    done.append(action)
                    if isinstance(action, (Reconnect, Disconnect)):
                        return done
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            done.append(Reconnect(f"the publisher sent an invalid message: {error}"))
        return done

    def _message(self, message: Message) -> Iterator[Action]:
        if message.push is not None:
            yield from self._pushed(message.push)
        elif not message.id:
            yield Send("{}")
        elif not self.connected:
            yield from self._connected_reply(message)
        elif (pending := self._pending.pop(message.id, None)) is not None:
            yield from self._replied(pending, message)

    def _connected_reply(self, message: Message) -> Iterator[Action]:
        if message.error is not None:
            error = message.error
            if error.temporary:
                yield Reconnect(error.message)
            else:
                yield Disconnect(Ending(error.code, error.message), may_reconnect=True)
            return
        self.connected = True
        ping = number.decode(message.connect["ping"]) if message.connect and "ping" in message.connect else 0
        self.silence = ping + _GRACE if ping else None
        yield Connected()
        # First the channels that the client had, then its requests since.
        pending, self._pending = list(self._pending.values()), {}
        subscribing = {one.request.channel for one in pending if one.request.method == "subscribe"}
        for channel, state in self._channels.items():
            if channel not in subscribing:
                yield from self._command(ClientRequest("subscribe", state.params, channel), None)
        for one in pending:
            yield from self._command(one.request, one.ticket)

    def _pushed(self, push: Push) -> Iterator[Action]:
        if push.disconnect is not None:
            yield from self.closed(push.disconnect.code, push.disconnect.reason)
            return
        state = self._channels.get(push.channel)
        if state is None or not state.joined:
            return
        if push.pub is not None:
            yield self._publication(push.channel, state, push.pub)
        elif push.unsubscribe is not None:
            state.joined = False
            if push.unsubscribe.code >= _RESUBSCRIBE:
                yield from self._command(ClientRequest("subscribe", state.params, push.channel), None)
            else:
                del self._channels[push.channel]
                yield _unsubscribed(push.channel, push.unsubscribe.code, push.unsubscribe.reason)

    def _replied(self, pending: _Pending, message: Message) -> Iterator[Action]:
        request, ticket, error = pending.request, pending.ticket, message.error
        if request.method == "subscribe":
            yield from self._subscribed(request, ticket, message)
        elif ticket is not None and error is not None:
            yield _refuse(ticket, Refusal(error.code, error.message, error.temporary))
        elif ticket is not None:
            if request.method == "refresh":
                self._token = request.params.get("token", self._token)
            yield Acknowledge(ticket, getattr(message, request.method) or {})

    def _subscribed(
        self, request: ClientRequest, ticket: Hashable | None, message: Message
    ) -> Iterator[Action]:
        channel, state, error = request.channel, self._channels.get(request.channel), message.error
        if error is not None:
            yield from self._subscribe_failed(request, ticket, error)
            return
        reply = message.subscribe or {}
        body = {"channel": channel, **reply}
        if state is None or state.params is not request.params:
            if ticket is not None:  # unsubscribed meanwhile, and the reply was under way
                yield _refuse(ticket, codes.INTERNAL._replace(message="unsubscribed meanwhile"))
            return
        state.joined, state.tries = True, 0
        recovered = bytes(reply.get("recovered", b"")) == b"true"
        missed = msgspec.json.decode(reply.get("publications") or b"[]", type=list[Fields])
        if ticket is not None:
            yield Acknowledge(ticket, body)
        elif recovered:
            for pub in missed:
                yield self._publication(channel, state, pub)
        else:
            yield Emit("subscribed", body)
        epoch = text.decode(reply["epoch"]) if "epoch" in reply else ""
        offset = number.decode(reply["offset"]) if "offset" in reply else 0
        if epoch:
            state.params |= {"recover": True, "epoch": epoch, "offset": offset}

    def _subscribe_failed(
        self, request: ClientRequest, ticket: Hashable | None, error: Error
    ) -> Iterator[Action]:
        state = self._channels.get(request.channel)
        current = state is not None and state.params is request.params
        if ticket is not None:
            if current:
                del self._channels[request.channel]
            yield _refuse(ticket, Refusal(error.code, error.message, error.temporary))
        elif not current or state is None:
            return
        elif error.code == codes.UNRECOVERABLE.code:
            for name in ("recover", "epoch", "offset"):
                state.params.pop(name, None)
            yield from self._command(request, None)
        elif error.temporary:
            state.tries += 1
            yield RetryLater(request.channel, state.tries)
        else:
            del self._channels[request.channel]
            yield _unsubscribed(request.channel, error.code, error.message)

    def _publication(self, channel: str, state: _Channel, pub: Fields) -> Action:
        if "offset" in pub and "epoch" in state.params:
            state.params["offset"] = max(state.params["offset"], number.decode(pub["offset"]))
        return Emit("publication", {"channel": channel, **pub})

    # --- commands -----------------------------------------------------------------------------------

    def _command(self, request: ClientRequest, ticket: Hashable | None) -> Iterator[Action]:
        self._id += 1
        self._pending[self._id] = _Pending(request, ticket)
        if self.connected:
            yield Send(self._text(self._id, request))

    def _text(self, id: int, request: ClientRequest) -> str:
        return encode_json({"id": id, request.method: request.params})

    def _joining(self, channel: str) -> bool:
        return any(
            one.request.method == "subscribe" and one.request.channel == channel
            for one in self._pending.values()
        )

    def _give_up(self, channel: str) -> Iterator[Action]:
        for id, one in list(self._pending.items()):
            if one.request.channel == channel and one.request.method == "subscribe":
                del self._pending[id]
                if one.ticket is not None:
                    yield _refuse(one.ticket, codes.INTERNAL._replace(message="unsubscribed meanwhile"))


def error_body(refusal: Refusal) -> dict[str, Any]:
    """Return a refusal as the client gets it."""
    return {"error": refusal._asdict()}


def _unsubscribed(channel: str, code: int, reason: str) -> Emit:
    return Emit("unsubscribed", {"channel": channel, "code": code, "reason": reason})


def _refuse(ticket: Hashable, refusal: Refusal) -> Acknowledge:
    return Acknowledge(ticket, error_body(refusal))
