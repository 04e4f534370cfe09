"""Who is behind a connection, and what that lets it do: admission, refresh, and the end of a grant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from distributary.errors import DistributaryError, TokenRefused
from distributary.permit import OPEN, Grant, Held
from distributary.permit.tokens import refuse
from distributary.publish.access import refusals
from distributary.publish.access.door import Door
from distributary.publish.connection.actions import Action, Admit, Close, Refresh
from distributary.publish.connection.rate import Rate
from distributary.publish.wire import codes
from distributary.publish.wire.codes import Ending, Refusal

if TYPE_CHECKING:
    from distributary.publish.connection.connection import Connection

SHOWN = ("Authorization", "X-API-Key")
"""Headers of the handshake by which a client may say who it is."""


class Visitor:
    """Implements ``Holder`` for a connection; ``grant`` is what it may do, from its admission on."""

    def __init__(self, connection: Connection, door: Door, headers: Mapping[str, str]) -> None:
        self.grant: Grant = OPEN
        self.door = door
        self._connection = connection
        self._headers = {name: headers[name] for name in SHOWN if name in headers} if door.gate.on else {}

    async def admit(self, asked: Admit) -> list[Action]:
        """Find out who it is; what the connection is to do then. The commands' own come before headers."""
        session, settings = self._connection.session, self._connection.settings
        gate = self.door.gate
        try:
            if asked.token:
                grant = await gate.by_token(asked.token)
            elif asked.api_key:
                grant = gate.by_key(asked.api_key)
            else:
                grant = await gate.by_headers(self._headers)
        except DistributaryError as error:
            self._connection.stats.refused_access += 1
            said = refusals.answer(error)
            return session.turned_away(said) if isinstance(said, Refusal) else [Close(said)]
        self._headers = {}
        if session.closed:
            return []
        self._become(grant)
        channels, limit = self.channels, grant.limits.rate
        rate = settings.max_rate if limit is None else limit
        return session.admitted(gate.ttl(grant), max_channels=channels, rate=Rate(rate, rate + channels))

    @property
    def channels(self) -> int:
        """How many channels the connection may hold."""
        limit = self.grant.limits.channels
        return self._connection.settings.max_channels if limit is None else limit

    async def refresh(self, asked: Refresh) -> Refusal | Ending | None:
        """Go on by another token of the same user; says how it is refused, or None when it is not."""
        try:
            grant = await self.door.gate.by_token(asked.token)
            if grant.user != self.grant.user:
                raise refuse("claims", "the token is another user's")
        except DistributaryError as error:
            self._connection.stats.refused_access += 1
            return refusals.answer(error, connected=True)
        if not self._connection.session.closed:
            self._become(grant)
            # The rate stays: a new one would forget what was used of it.
            self._connection.session.max_channels = self.channels
        return None

    async def held(self, token: str, channel: str) -> Held:
        """Say what a subscription is served under; raises AccessError when its own token does not count.

        ``token`` '' is none. It can allow no more than the connection may, and must be of the same user.
        """
        if not token or not self.door.gate.on:
            return Held((self.grant,))
        grant = await self.door.gate.by_token(token, channel=channel)
        if grant.user != self.grant.user:
            raise refuse("claims", "the token is another user's")
        return Held((self.grant, grant))

    def expel(self, error: TokenRefused) -> None:
        """Close the connection: its grant is over."""
        said = refusals.answer(error, connected=True)
        self._connection.end(said if isinstance(said, Ending) else codes.EXPIRED)

    def leave(self) -> None:
        """Note that the connection is gone."""
        self.door.roll.leave(self.grant, self)

    def _become(self, grant: Grant) -> None:
        self.door.roll.leave(self.grant, self)
        self.grant = grant
        self.door.roll.enter(grant, self)
