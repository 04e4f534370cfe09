"""The Centrifuge protocol of one connection: frames in, actions out. No sockets, no clock.

Promises: a command with an id is answered at most once; nothing is answered after a ``Close``; a channel is
held at most once; at most one history read is under way. The caller carries out the actions in their order
and reports back with ``answer``, ``refuse`` and ``left``.
"""

from __future__ import annotations

from dataclasses import dataclass

from distributary.model.position import Position
from distributary.publish import codes, frames
from distributary.publish.codes import Ending, Refusal
from distributary.publish.commands import REJECT_UNRECOVERED, Command, Subscribe, decode, subscription_of
from distributary.publish.commands import History as HistoryCommand

MAX_NAME = 16_384


@dataclass(slots=True, eq=False)
class Ticket:
    """A command whose answer is still to come."""

    id: int
    channel: str
    open: bool = True


@dataclass(slots=True, frozen=True)
class Send:
    """Send this payload."""

    payload: bytes


@dataclass(slots=True, frozen=True)
class Join:
    """Subscribe to a channel, resuming after ``position`` if it is there.

    ``reject``: answer with error 112 rather than with the state anew. ``subscription`` is the id that the
    control API gave, '' when the channel's name says everything.
    """

    ticket: Ticket
    position: Position | None
    reject: bool
    subscription: str


@dataclass(slots=True, frozen=True)
class Leave:
    """Give up a channel, joined or still joining."""

    channel: str


@dataclass(slots=True, frozen=True)
class History:
    """Read publications of a joined channel after a position (None: from the oldest)."""

    ticket: Ticket
    since: Position | None
    limit: int


@dataclass(slots=True, frozen=True)
class Close:
    """Close the connection; nothing follows."""

    ending: Ending


Action = Send | Join | Leave | History | Close


class Session:
    """One connection's state: connected or not, its channels, what is still to be answered."""

    def __init__(self, client: str, *, version: str, ping: int, max_channels: int) -> None:
        self.client = client
        self.connected = False
        self.closed = False
        self._version = version
        self._ping = ping
        self._max_channels = max_channels
        self._channels: dict[str, Ticket] = {}
        self._reading: Ticket | None = None
        self._awaiting_pong = False

    @property
    def channels(self) -> int:
        """How many channels are held, joined or joining."""
        return len(self._channels)

    def receive(self, frame: bytes) -> list[Action]:
        """Take one message of the client: one command a line."""
        out: list[Action] = []
        if self.closed:
            return out
        lines = [line for line in frame.split(b"\n") if line.strip()]
        if not lines:
            self._close(out, codes.BAD_FRAME)
        for line in lines:
            command = decode(line)
            if command is None:
                self._close(out, codes.BAD_FRAME)
            else:
                self._take(command, out)
            if out and isinstance(out[-1], Close):
                break
        return out

    def ping(self) -> Action:
        """Say what to do at ping time: send one, or close since the last was not answered."""
        out: list[Action] = []
        if self._awaiting_pong:
            self._close(out, codes.NO_PONG)
            return out[0]
        self._awaiting_pong = True
        return Send(b"{}")

    def answer(self, ticket: Ticket, body: bytes) -> bytes | None:
        """Answer a ticket; None when its answer is not wanted any more."""
        if not ticket.open or self.closed:
            return None
        ticket.open = False
        if self._reading is ticket:
            self._reading = None
        return frames.reply(ticket.id, body)

    def refuse(self, ticket: Ticket, refusal: Refusal) -> bytes | None:
        """Answer a ticket with an error; a channel that was being joined is free again."""
        payload = self.answer(ticket, frames.error(refusal))
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

    def _close(self, out: list[Action], ending: Ending) -> None:
        self.end()
        out.append(Close(ending))

    def _take(self, command: Command, out: list[Action]) -> None:
        if command.connect is not None:
            if self.connected or not command.id:
                return self._close(out, codes.BAD_FRAME)
            self.connected = True
            body = frames.connected(self.client, self._version, self._ping)
            out.append(Send(frames.reply(command.id, body)))
        elif not self.connected:
            self._close(out, codes.BAD_FRAME)
        elif command.send is not None:
            return
        elif not command.id:
            if command == Command():
                self._awaiting_pong = False
            else:
                self._close(out, codes.BAD_FRAME)
        elif command.subscribe is not None:
            self._subscribe(command.id, command.subscribe, out)
        elif command.unsubscribe is not None:
            self._unsubscribe(command.id, command.unsubscribe.channel, out)
        elif command.history is not None:
            self._history(command.id, command.history, out)
        elif any(
            asked is not None
            for asked in (
                command.publish,
                command.presence,
                command.presence_stats,
                command.rpc,
                command.refresh,
                command.sub_refresh,
            )
        ):
            self._error(command.id, codes.NOT_AVAILABLE, out)
        else:
            self._close(out, codes.BAD_FRAME)

    def _subscribe(self, id: int, asked: Subscribe, out: list[Action]) -> None:
        subscription = subscription_of(asked.data)
        if not asked.channel:
            self._close(out, codes.BAD_FRAME)
        elif len(asked.channel) > MAX_NAME:
            self._error(id, codes.bad_request(f"a channel's name has at most {MAX_NAME} characters"), out)
        elif subscription is None:
            self._error(id, codes.bad_request('data is {"subscription": ID} or nothing'), out)
        elif asked.channel in self._channels:
            self._error(id, codes.ALREADY_SUBSCRIBED, out)
        elif len(self._channels) >= self._max_channels:
            self._error(id, codes.LIMIT_EXCEEDED, out)
        else:
            ticket = self._channels[asked.channel] = Ticket(id, asked.channel)
            position = Position(asked.epoch, asked.offset) if asked.recover else None
            out.append(Join(ticket, position, bool(asked.flag & REJECT_UNRECOVERED), subscription))

    def _unsubscribe(self, id: int, channel: str, out: list[Action]) -> None:
        if not channel:
            return self._close(out, codes.BAD_FRAME)
        ticket = self._channels.pop(channel, None)
        if ticket is not None:
            out.append(Leave(channel))
            if self._reading is not None and self._reading.channel == channel:
                self._give_up(self._reading, out)
            self._give_up(ticket, out)
        out.append(Send(frames.reply(id, b'"unsubscribe":{}')))

    def _give_up(self, ticket: Ticket, out: list[Action]) -> None:
        payload = self.answer(ticket, frames.error(codes.INTERNAL._replace(message="unsubscribed meanwhile")))
        if payload is not None:
            out.append(Send(payload))

    def _history(self, id: int, asked: HistoryCommand, out: list[Action]) -> None:
        held = self._channels.get(asked.channel)
        if not asked.channel:
            self._close(out, codes.BAD_FRAME)
        elif held is None or held.open:
            self._error(id, codes.NOT_SUBSCRIBED, out)
        elif asked.reverse:
            self._error(id, codes.NOT_AVAILABLE._replace(message="history backwards is not available"), out)
        elif self._reading is not None:
            self._error(id, codes.TOO_MANY_REQUESTS, out)
        else:
            self._reading = Ticket(id, asked.channel)
            since = Position(asked.since.epoch, asked.since.offset) if asked.since is not None else None
            out.append(History(self._reading, since, asked.limit))

    def _error(self, id: int, refusal: Refusal, out: list[Action]) -> None:
        out.append(Send(frames.reply(id, frames.error(refusal))))
