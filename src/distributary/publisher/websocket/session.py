"""The Centrifuge protocol of one connection: frames in, actions out. No sockets, no clock.

Promises: a command with an id is replied to at most once; nothing follows a ``CloseConnection``; a channel is
joined at most once at a time; how much is under way at the same time is bounded. The caller carries out the
actions in their order and reports back with ``answer``, ``refuse`` and ``left``. How commands are read and
replies are written is the job of the connection's ``Codec``.
"""

from __future__ import annotations

from enum import Enum

from distributary.errors import BadQuery
from distributary.model.position import Position
from distributary.publisher.codec import codes
from distributary.publisher.codec.client_commands import (
    Command,
    Connect,
    History,
    Publish,
    Rpc,
    SubRefresh,
    Subscribe,
    api_key_of,
    unserved,
)
from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.codes import Ending, Refusal
from distributary.publisher.codec.json_codec import JSON
from distributary.publisher.codec.subscribe_options import read_subscribe
from distributary.publisher.websocket.flow_control import CommandRate, Verdict
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

MAX_NAME = 16_384
MAX_PENDING = 32
"""Publishes, calls and refreshes that may wait for their replies at the same time."""


class SessionState(Enum):
    """How far a session is."""

    NEW = "new"
    """Nothing was accepted yet: the only valid command is ``connect``."""
    AUTHENTICATING = "authenticating"
    """A ``connect`` waits until the client is accepted. Commands that come meanwhile wait with it."""
    CONNECTED = "connected"
    CLOSED = "closed"


class Session:
    """The state of one connection."""

    def __init__(
        self,
        client: str,
        *,
        version: str,
        ping: int,
        max_channels: int,
        codec: Codec = JSON,
        rate: CommandRate | None = None,
        authenticates: bool = False,
    ) -> None:
        # The client's id, which is in the reply to its connect.
        self.client = client
        self.codec = codec
        self.state = SessionState.NEW
        # The client was accepted; stays true when the connection is over.
        self.connected = False
        self._version = version
        self._ping = ping
        self.max_channels = max_channels
        # How often the client may send a command; None for no limit.
        self._rate = rate
        # Clients are connected only when ``accept_connect`` is called for them.
        self._authenticates = authenticates
        # The connect that waits, and the commands behind it, while AUTHENTICATING.
        self._connecting: PendingReply | None = None
        self._queued: list[Command] = []
        # The subscribe of each channel: open while it joins, else the channel is joined.
        self._channels: dict[str, PendingReply] = {}
        # The history that is being read: one at a time.
        self._reading: PendingReply | None = None
        # Publishes, calls and refreshes that wait for their replies.
        self._pending: set[PendingReply] = set()
        # A ping was sent, and no pong has come since.
        self._awaiting_pong = False

    @property
    def closed(self) -> bool:
        """Whether the connection is over."""
        return self.state is SessionState.CLOSED

    @property
    def channels(self) -> int:
        """How many channels are joined or joining."""
        return len(self._channels)

    @property
    def pending(self) -> int:
        """How many publishes, calls and refreshes wait for their replies."""
        return len(self._pending)

    # --- events ---------------------------------------------------------------------------------------

    def receive(self, frame: bytes, now: float = 0.0) -> list[Action]:
        """Take one message of the client; ``now`` is a clock in seconds, for the rate."""
        out: list[Action] = []
        if self.closed:
            return out
        for command in self.codec.decode(frame):
            verdict = self._rate.take(now) if self._rate is not None else Verdict.ALLOWED
            if command is None:
                self._close(out, codes.BAD_FRAME)
            elif verdict is Verdict.ALLOWED:
                self._take(command, out)
            elif verdict is Verdict.FLOOD:
                self._close(out, codes.FLOOD)
            elif command.id:
                self._error(command.id, codes.TOO_MANY_REQUESTS, out)
            if out and isinstance(out[-1], CloseConnection):
                break
        return out

    def accept_connect(self, ttl: int, *, max_channels: int, rate: CommandRate | None) -> list[Action]:
        """Connect the client that waits, for ``ttl`` seconds (0: no end), within its own limits."""
        out: list[Action] = []
        reply, self._connecting = self._connecting, None
        if reply is None or self.closed:
            return out
        self.max_channels = max_channels
        self._rate = rate
        self._connect(reply.id, ttl, out)
        queued, self._queued = self._queued, []
        for command in queued:
            self._take(command, out)
            if isinstance(out[-1], CloseConnection):
                break
        return out

    def reject_connect(self, refusal: Refusal) -> list[Action]:
        """Refuse the client that waits; it may send other credentials."""
        out: list[Action] = []
        reply, self._connecting = self._connecting, None
        self._queued = []
        if reply is not None and not self.closed:
            self.state = SessionState.NEW
            self._error(reply.id, refusal, out)
        return out

    def refreshed(self, reply: PendingReply, ttl: int) -> bytes | None:
        """Reply to a refresh, of a channel or of the connection."""
        if reply.channel:
            return self.answer(reply, self.codec.sub_refreshed(ttl))
        return self.answer(reply, self.codec.refreshed(self.client, self._version, ttl))

    def ping(self) -> Action:
        """Return what to do at ping time: send one, or close since the last one had no pong."""
        out: list[Action] = []
        if self._awaiting_pong:
            self._close(out, codes.NO_PONG)
            return out[0]
        self._awaiting_pong = True
        return Send(self.codec.ping)

    def answer(self, reply: PendingReply, body: bytes) -> bytes | None:
        """Write a reply; None when it is not wanted any more."""
        self._pending.discard(reply)
        if self._reading is reply:
            self._reading = None
        if not reply.open or self.closed:
            return None
        reply.open = False
        return self.codec.reply(reply.id, body)

    def refuse(self, reply: PendingReply, refusal: Refusal) -> bytes | None:
        """Write an error as the reply; the channel of a subscribe is free again."""
        payload = self.answer(reply, self.codec.error(refusal))
        if self._channels.get(reply.channel) is reply:
            del self._channels[reply.channel]
        return payload

    def left(self, channel: str) -> None:
        """Note that the server ended a channel: the client may subscribe to it again."""
        self._channels.pop(channel, None)

    def end(self) -> None:
        """Note that the connection is over."""
        self.state = SessionState.CLOSED
        self._channels.clear()
        self._pending.clear()
        self._queued.clear()

    # --- commands -------------------------------------------------------------------------------------

    def _take(self, command: Command, out: list[Action]) -> None:
        if command.connect is not None:
            self._on_connect(command, command.connect, out)
        elif self.state is SessionState.AUTHENTICATING:
            if len(self._queued) >= self.max_channels + MAX_PENDING:
                return self._close(out, codes.FLOOD)
            self._queued.append(command)
        elif self.state is SessionState.NEW:
            self._close(out, codes.BAD_FRAME)
        elif command.send is not None:
            return
        elif not command.id:
            if command == Command():
                self._awaiting_pong = False
            else:
                self._close(out, codes.BAD_FRAME)
        elif what := unserved(command):
            self._error(command.id, codes.not_available(what), out)
        elif command.subscribe is not None:
            self._subscribe(command.id, command.subscribe, out)
        elif command.unsubscribe is not None:
            self._unsubscribe(command.id, command.unsubscribe.channel, out)
        elif command.publish is not None:
            self._publish(command.id, command.publish, out)
        elif command.history is not None:
            self._history(command.id, command.history, out)
        elif command.rpc is not None:
            self._call(command.id, command.rpc, out)
        elif command.refresh is not None:
            self._refresh(command.id, "", command.refresh.token, out)
        elif command.sub_refresh is not None:
            self._sub_refresh(command.id, command.sub_refresh, out)
        elif any(one is not None for one in (command.ping, command.presence, command.presence_stats)):
            self._error(command.id, codes.NOT_AVAILABLE, out)
        else:
            self._close(out, codes.BAD_FRAME)

    def _on_connect(self, command: Command, connect: Connect, out: list[Action]) -> None:
        if self.state is not SessionState.NEW or not command.id:
            self._close(out, codes.BAD_FRAME)
        elif what := unserved(command):
            self._error(command.id, codes.not_available(what), out)
        elif self._authenticates:
            self.state = SessionState.AUTHENTICATING
            self._connecting = PendingReply(command.id, "")
            out.append(Authenticate(self._connecting, connect.token, api_key_of(connect.data)))
        else:
            self._connect(command.id, 0, out)

    def _connect(self, id: int, ttl: int, out: list[Action]) -> None:
        self.state = SessionState.CONNECTED
        self.connected = True
        body = self.codec.connected(self.client, self._version, self._ping, ttl)
        out.append(Send(self.codec.reply(id, body)))

    def _refresh(self, id: int, channel: str, token: str, out: list[Action]) -> None:
        reply = self._track(id, channel, out)
        if reply is None:
            return
        if self._authenticates:
            out.append(RefreshToken(reply, token))
        elif (payload := self.refreshed(reply, 0)) is not None:
            out.append(Send(payload))

    def _sub_refresh(self, id: int, command: SubRefresh, out: list[Action]) -> None:
        if not command.channel:
            self._close(out, codes.BAD_FRAME)
        elif not self._joined(command.channel):
            self._error(id, codes.NOT_SUBSCRIBED, out)
        else:
            self._refresh(id, command.channel, command.token, out)

    def _subscribe(self, id: int, command: Subscribe, out: list[Action]) -> None:
        if not command.channel:
            return self._close(out, codes.BAD_FRAME)
        if len(command.channel) > MAX_NAME:
            what = f"a channel's name has at most {MAX_NAME} characters"
            return self._error(id, codes.bad_request(what), out)
        try:
            checked = read_subscribe(command)
        except BadQuery as error:
            return self._error(id, codes.bad_request(str(error)), out)
        if command.channel in self._channels:
            self._error(id, codes.ALREADY_SUBSCRIBED, out)
        elif len(self._channels) >= self.max_channels:
            self._error(id, codes.LIMIT_EXCEEDED, out)
        else:
            reply = self._channels[command.channel] = PendingReply(id, command.channel)
            out.append(JoinChannel(reply, checked))

    def _unsubscribe(self, id: int, channel: str, out: list[Action]) -> None:
        if not channel:
            return self._close(out, codes.BAD_FRAME)
        reply = self._channels.pop(channel, None)
        if reply is not None:
            out.append(LeaveChannel(channel))
            if self._reading is not None and self._reading.channel == channel:
                self._give_up(self._reading, out)
            self._give_up(reply, out)
        out.append(Send(self.codec.reply(id, self.codec.unsubscribed())))

    def _give_up(self, reply: PendingReply, out: list[Action]) -> None:
        refusal = codes.INTERNAL._replace(message="unsubscribed meanwhile")
        payload = self.answer(reply, self.codec.error(refusal))
        if payload is not None:
            out.append(Send(payload))

    def _history(self, id: int, command: History, out: list[Action]) -> None:
        since = command.since
        if not command.channel:
            self._close(out, codes.BAD_FRAME)
        elif not self._joined(command.channel):
            self._error(id, codes.NOT_SUBSCRIBED, out)
        elif command.reverse and since is not None and not since.offset:
            self._error(id, codes.bad_request("nothing comes before offset 0"), out)
        elif self._reading is not None:
            self._error(id, codes.TOO_MANY_REQUESTS, out)
        else:
            self._reading = PendingReply(id, command.channel)
            position = Position(since.epoch, since.offset) if since is not None else None
            out.append(ReadHistory(self._reading, position, command.limit, command.reverse))

    def _publish(self, id: int, command: Publish, out: list[Action]) -> None:
        if not command.channel:
            self._close(out, codes.BAD_FRAME)
        elif (reply := self._track(id, command.channel, out)) is not None:
            out.append(PublishMessage(reply, bytes(command.data)))

    def _call(self, id: int, command: Rpc, out: list[Action]) -> None:
        reply = self._track(id, "", out)
        if reply is not None:
            out.append(CallMethod(reply, command.method, bytes(command.data)))

    def _joined(self, channel: str) -> bool:
        reply = self._channels.get(channel)
        return reply is not None and not reply.open

    def _track(self, id: int, channel: str, out: list[Action]) -> PendingReply | None:
        """Add a reply to those that are pending, unless there are too many."""
        if len(self._pending) >= MAX_PENDING:
            self._error(id, codes.TOO_MANY_REQUESTS, out)
            return None
        reply = PendingReply(id, channel)
        self._pending.add(reply)
        return reply

    def _error(self, id: int, refusal: Refusal, out: list[Action]) -> None:
        out.append(Send(self.codec.reply(id, self.codec.error(refusal))))

    def _close(self, out: list[Action], ending: Ending) -> None:
        self.end()
        out.append(CloseConnection(ending))
