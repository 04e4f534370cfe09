"""Who is behind a connection, and what that lets it do: admission, refresh, and the end of a grant."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from distributary.auth import OPEN, Grant, GrantSet
from distributary.auth.jwt_checks import refuse
from distributary.auth.metering import CONNECT, metered
from distributary.auth.reservations import Reservation
from distributary.errors import DistributaryError, TokenRefused
from distributary.publisher.access_control import Door
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending, Refusal, protocol_error
from distributary.publisher.websocket.flow_control import Rate
from distributary.publisher.websocket.session_actions import Action, Admit, Close, Refresh

if TYPE_CHECKING:
    from distributary.publisher.websocket.websocket_connection import Connection

SHOWN = ("Authorization", "X-API-Key")
"""Headers of the handshake by which a client may say who it is."""


class Visitor:
    """Implements ``Holder`` for a connection; ``grant`` is what it may do, from its admission on."""

    def __init__(self, connection: Connection, door: Door, headers: Mapping[str, str]) -> None:
        self.grant: Grant = OPEN
        self._unpaid = 0.0
        self._taken: list[Reservation] = []
        self.door = door
        self._connection = connection
        self._headers = {name: headers[name] for name in SHOWN if name in headers}

    async def admit(self, asked: Admit) -> list[Action]:
        """Find out who it is; what the connection is to do then. The commands' own come before headers."""
        session, settings = self._connection.session, self._connection.settings
        gate = self.door.gate
        try:
            await self.door.limiter.count_arrival(self._connection.address)
            if asked.token:
                grant = await gate.by_token(asked.token)
            elif asked.api_key:
                grant = await gate.by_key(asked.api_key)
            else:
                grant = await gate.by_headers(self._headers)
            shares = self._shares(grant)
            self.door.limiter.charge(grant, CONNECT + self._unpaid)
            await self.door.limiter.count_request(grant)
            await self.door.limiter.reservations.take(shares)
        except DistributaryError as error:
            self._refused("connect", error)
            said = protocol_error(error)
            return session.turned_away(said) if isinstance(said, Refusal) else [Close(said)]
        self._headers = {}
        if session.closed:
            self.door.limiter.reservations.release(shares)
            return []
        self._taken = shares
        self._become(grant)
        channels, limit = self.channels, grant.limits.rate
        rate = settings.max_command_rate if limit is None else limit
        return session.admitted(
            gate.seconds_left(grant), max_channels=channels, rate=Rate(rate, rate + channels)
        )

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
            self._refused("refresh", error)
            return protocol_error(error, connected=True)
        if not self._connection.session.closed:
            self._become(grant)
            # The rate stays: a new one would forget what was used of it.
            self._connection.session.max_channels = self.channels
        return None

    async def held(self, token: str, channel: str) -> GrantSet:
        """Say what a subscription is served under; raises AccessError when its own token does not count.

        ``token`` '' is none. It can allow no more than the connection may, and must be of the same user.
        """
        if not token or not self.door.gate.on:
            return GrantSet((self.grant,))
        grant = await self.door.gate.by_token(token, channel=channel)
        if grant.user != self.grant.user:
            raise refuse("claims", "the token is another user's")
        return GrantSet((self.grant, grant))

    def expel(self, error: TokenRefused) -> None:
        """Close the connection: its grant is over."""
        said = protocol_error(error, connected=True)
        self._connection.end(said if isinstance(said, Ending) else codes.EXPIRED)

    def leave(self) -> None:
        """Note that the connection is gone."""
        self.door.roll.leave(self.grant, self)
        self.door.limiter.reservations.release(self._taken)
        self._taken = []

    async def spend(self, size: int = 0) -> None:
        """Count a command that costs something, and its bytes, as the user's. Raises Refused (111)."""
        try:
            await self.door.limiter.count_arrival(self._connection.address, size)
            await self.door.limiter.count_request(self.grant, size)
        except DistributaryError as error:
            raise codes.to_refused(error) from None

    def charge(self, seconds: float) -> None:
        """Count processor time as the user's; a connection whose user owes too much is not read from."""
        if self.grant is OPEN:
            self._unpaid += seconds  # it is not known whose
            return
        self.door.limiter.charge(self.grant, seconds)
        if self.door.limiter.is_in_debt(self.grant):
            self._connection.pause_reading()

    async def settle(self) -> None:
        """Wait until the user owes no processor time."""
        with contextlib.suppress(DistributaryError):  # the store is away: what comes next says so
            await self.door.limiter.wait_until_paid(self.grant)

    def metered(self) -> AbstractContextManager[None]:
        """Charge to the user what tasks cost that are started in a block."""
        return nullcontext() if self.grant is OPEN else metered(self.charge)

    def _shares(self, grant: Grant) -> list[Reservation]:
        return self.door.limiter.connection_reservations(grant, self._connection.address)

    def refused(self, action: str, target: str, reason: str) -> None:
        """Count a refusal, and write it down."""
        self._connection.stats.refused_access += 1
        user, address = self.grant.user, self._connection.address
        self.door.audit.write(action, "refused", user=user, address=address, target=target, reason=reason)

    def _refused(self, action: str, error: DistributaryError) -> None:
        self.refused(action, "", getattr(error, "reason", "") or error.code)

    def _become(self, grant: Grant) -> None:
        self.door.roll.leave(self.grant, self)
        self.grant = grant
        self.door.roll.enter(grant, self)
