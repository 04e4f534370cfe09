"""The Centrifuge protocol of one connection: frames in, actions out. No sockets, no clock.

Promises: a command with an id is answered at most once; nothing is answered after a ``Close``; a channel is
held at most once; what is under way at the same time is bounded. The caller carries out the actions in
their order and reports back with ``answer``, ``refuse`` and ``left``. How commands are read and answers are
written is the business of the connection's ``Wire``.
"""

from __future__ import annotations

import msgspec

from distributary.errors import BadQuery
from distributary.model.position import Position
from distributary.publisher.codec import client_commands as asked_for
from distributary.publisher.codec import codes
from distributary.publisher.codec.client_commands import (
    REJECT_UNRECOVERED,
    Command,
    api_key_of,
    read_data,
    start_of,
    unserved,
)
from distributary.publisher.codec.codec import Wire
from distributary.publisher.codec.codes import Ending, Refusal
from distributary.publisher.codec.json_codec import JSON
from distributary.publisher.hub.conflation import read_pace
from distributary.publisher.websocket.flow_control import Rate
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

MAX_NAME = 16_384
MAX_PENDING = 32
"""Publishes, calls and refreshes that may wait for their answers at the same time."""


class Session:
    """One connection's state: connected or not, its channels, what is still to be answered.

    With ``asks`` a client is connected only when ``admitted`` says so; what it sends meanwhile waits.
    """

    def __init__(
        self,
        client: str,
        *,
        version: str,
        ping: int,
        max_channels: int,
        wire: Wire = JSON,
        rate: Rate | None = None,
        asks: bool = False,
    ) -> None:
        self.client = client
        self.wire = wire
        self.connected = False
        self.closed = False
        self._version = version
        self._ping = ping
        self.max_channels = max_channels
        self._rate = rate
        self._asks = asks
        self._admission: Ticket | None = None
        self._waiting: list[Command] = []
        self._channels: dict[str, Ticket] = {}
        self._reading: Ticket | None = None
        self._pending: set[Ticket] = set()
        self._awaiting_pong = False

    @property
    def channels(self) -> int:
        """How many channels are held, joined or joining."""
        return len(self._channels)

    @property
    def pending(self) -> int:
        """How many publishes, calls and refreshes wait for their answers."""
        return len(self._pending)

    def receive(self, frame: bytes, now: float = 0.0) -> list[Action]:
        """Take one message of the client; ``now`` is a clock in seconds, for the rate."""
        out: list[Action] = []
        if self.closed:
            return out
        for command in self.wire.decode(frame):
            verdict = self._rate.take(now) if self._rate is not None else "yes"
            if command is None:
                self._close(out, codes.BAD_FRAME)
            elif verdict == "yes":
                self._take(command, out)
            elif verdict == "enough":
                self._close(out, codes.FLOOD)
            elif command.id:
                self._error(command.id, codes.TOO_MANY_REQUESTS, out)
            if out and isinstance(out[-1], Close):
                break
        return out

    def admitted(self, ttl: int, *, max_channels: int, rate: Rate | None) -> list[Action]:
        """Connect the client that was asked about, for ``ttl`` seconds (0: no end), within its own limits."""
        out: list[Action] = []
        ticket, self._admission = self._admission, None
        if ticket is None or self.closed:
            return out
        self.max_channels = max_channels
        self._rate = rate
        self._connect(ticket.id, ttl, out)
        waiting, self._waiting = self._waiting, []
        for command in waiting:
            self._take(command, out)
            if isinstance(out[-1], Close):
                break
        return out

    def turned_away(self, refusal: Refusal) -> list[Action]:
        """Refuse the client that was asked about; it may show something else."""
        out: list[Action] = []
        ticket, self._admission = self._admission, None
        self._waiting = []
        if ticket is not None and not self.closed:
            self._error(ticket.id, refusal, out)
        return out

    def refreshed(self, ticket: Ticket, ttl: int) -> bytes | None:
        """Answer a refresh, of a channel or of the connection."""
        if ticket.channel:
            return self.answer(ticket, self.wire.sub_refreshed(ttl))
        return self.answer(ticket, self.wire.refreshed(self.client, self._version, ttl))

    def ping(self) -> Action:
        """Say what to do at ping time: send one, or close since the last was not answered."""
        out: list[Action] = []
        if self._awaiting_pong:
            self._close(out, codes.NO_PONG)
            return out[0]
        self._awaiting_pong = True
        return Send(self.wire.ping)

    def answer(self, ticket: Ticket, body: bytes) -> bytes | None:
        """Answer a ticket; None when its answer is not wanted any more."""
        self._pending.discard(ticket)
        if self._reading is ticket:
            self._reading = None
        if not ticket.open or self.closed:
            return None
        ticket.open = False
        return self.wire.reply(ticket.id, body)

    def refuse(self, ticket: Ticket, refusal: Refusal) -> bytes | None:
        """Answer a ticket with an error; a channel that was being joined is free again."""
        payload = self.answer(ticket, self.wire.error(refusal))
        if self._channels.get(ticket.channel) is ticket:
            del self._channels[ticket.channel]
        return payload

    def left(self, channel: str) -> None:
        """Note that the server ended a channel: the client may subscribe to it again."""
        self._channels.pop(channel, None)

    def end(self) -> None:
        """Note that the connection is over."""
        self.closed = True
        self._channels.clear()
        self._pending.clear()
        self._waiting.clear()

    def _close(self, out: list[Action], ending: Ending) -> None:
        self.end()
        out.append(Close(ending))

    def _take(self, command: Command, out: list[Action]) -> None:
        if command.connect is not None:
            self._greeted(command, command.connect, out)
        elif self._admission is not None:
            if len(self._waiting) >= self.max_channels + MAX_PENDING:
                return self._close(out, codes.FLOOD)
            self._waiting.append(command)
        elif not self.connected:
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
        elif any(asked is not None for asked in (command.ping, command.presence, command.presence_stats)):
            self._error(command.id, codes.NOT_AVAILABLE, out)
        else:
            self._close(out, codes.BAD_FRAME)

    def _greeted(self, command: Command, asked: asked_for.Connect, out: list[Action]) -> None:
        if self.connected or self._admission is not None or not command.id:
            self._close(out, codes.BAD_FRAME)
        elif what := unserved(command):
            self._error(command.id, codes.not_available(what), out)
        elif self._asks:
            self._admission = Ticket(command.id, "")
            out.append(Admit(self._admission, asked.token, api_key_of(asked.data)))
        else:
            self._connect(command.id, 0, out)

    def _connect(self, id: int, ttl: int, out: list[Action]) -> None:
        self.connected = True
        body = self.wire.connected(self.client, self._version, self._ping, ttl)
        out.append(Send(self.wire.reply(id, body)))

    def _refresh(self, id: int, channel: str, token: str, out: list[Action]) -> None:
        ticket = self._pend(id, channel, out)
        if ticket is None:
            return
        if self._asks:
            out.append(Refresh(ticket, token))
        elif (payload := self.refreshed(ticket, 0)) is not None:
            out.append(Send(payload))

    def _sub_refresh(self, id: int, asked: asked_for.SubRefresh, out: list[Action]) -> None:
        held = self._channels.get(asked.channel)
        if not asked.channel:
            self._close(out, codes.BAD_FRAME)
        elif held is None or held.open:
            self._error(id, codes.NOT_SUBSCRIBED, out)
        else:
            self._refresh(id, asked.channel, asked.token, out)

    def _subscribe(self, id: int, asked: asked_for.Subscribe, out: list[Action]) -> None:
        data, pace, wrong = read_data(asked.data), None, ""
        if data is not None:
            try:
                pace = read_pace(msgspec.structs.asdict(data))
            except BadQuery as error:
                wrong = str(error)
        if not asked.channel:
            self._close(out, codes.BAD_FRAME)
        elif len(asked.channel) > MAX_NAME:
            self._error(id, codes.bad_request(f"a channel's name has at most {MAX_NAME} characters"), out)
        elif data is None:
            what = '{"subscription": ID}, {"from": POSITION OR TIME}, options, or nothing'
            self._error(id, codes.bad_request(f"data is {what}"), out)
        elif wrong:
            self._error(id, codes.bad_request(wrong), out)
        elif asked.channel in self._channels:
            self._error(id, codes.ALREADY_SUBSCRIBED, out)
        elif len(self._channels) >= self.max_channels:
            self._error(id, codes.LIMIT_EXCEEDED, out)
        else:
            try:
                since = start_of(data)
            except BadQuery as error:
                return self._error(id, codes.bad_request(str(error)), out)
            ticket = self._channels[asked.channel] = Ticket(id, asked.channel)
            position = Position(asked.epoch, asked.offset) if asked.recover else None
            reject = bool(asked.flag & REJECT_UNRECOVERED)
            out.append(Join(ticket, position, reject, data.subscription, since, pace, asked.token))

    def _unsubscribe(self, id: int, channel: str, out: list[Action]) -> None:
        if not channel:
            return self._close(out, codes.BAD_FRAME)
        ticket = self._channels.pop(channel, None)
        if ticket is not None:
            out.append(Leave(channel))
            if self._reading is not None and self._reading.channel == channel:
                self._give_up(self._reading, out)
            self._give_up(ticket, out)
        out.append(Send(self.wire.reply(id, self.wire.unsubscribed())))

    def _give_up(self, ticket: Ticket, out: list[Action]) -> None:
        refusal = codes.INTERNAL._replace(message="unsubscribed meanwhile")
        payload = self.answer(ticket, self.wire.error(refusal))
        if payload is not None:
            out.append(Send(payload))

    def _history(self, id: int, asked: asked_for.History, out: list[Action]) -> None:
        held = self._channels.get(asked.channel)
        if not asked.channel:
            self._close(out, codes.BAD_FRAME)
        elif held is None or held.open:
            self._error(id, codes.NOT_SUBSCRIBED, out)
        elif asked.reverse and asked.since is not None and not asked.since.offset:
            self._error(id, codes.bad_request("nothing comes before offset 0"), out)
        elif self._reading is not None:
            self._error(id, codes.TOO_MANY_REQUESTS, out)
        else:
            self._reading = Ticket(id, asked.channel)
            since = Position(asked.since.epoch, asked.since.offset) if asked.since is not None else None
            out.append(History(self._reading, since, asked.limit, asked.reverse))

    def _publish(self, id: int, asked: asked_for.Publish, out: list[Action]) -> None:
        if not asked.channel:
            self._close(out, codes.BAD_FRAME)
        elif (ticket := self._pend(id, asked.channel, out)) is not None:
            out.append(Publish(ticket, bytes(asked.data)))

    def _call(self, id: int, asked: asked_for.Rpc, out: list[Action]) -> None:
        ticket = self._pend(id, "", out)
        if ticket is not None:
            out.append(Call(ticket, asked.method, bytes(asked.data)))

    def _pend(self, id: int, channel: str, out: list[Action]) -> Ticket | None:
        if len(self._pending) >= MAX_PENDING:
            self._error(id, codes.TOO_MANY_REQUESTS, out)
            return None
        ticket = Ticket(id, channel)
        self._pending.add(ticket)
        return ticket

    def _error(self, id: int, refusal: Refusal, out: list[Action]) -> None:
        out.append(Send(self.wire.reply(id, self.wire.error(refusal))))
