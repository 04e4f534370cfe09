"""Who is behind a WebSocket connection and what it may do: connect, refresh, and the end of its grant."""

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
from distributary.publisher.access_control import AccessControl
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending, Refusal, protocol_error
from distributary.publisher.websocket.flow_control import CommandRate
from distributary.publisher.websocket.session_actions import (
    Action,
    Authenticate,
    CloseConnection,
    RefreshToken,
)

if TYPE_CHECKING:
    from distributary.publisher.websocket.websocket_connection import Connection

CREDENTIALS = ("Authorization", "X-API-Key")
"""Headers of the handshake with which a client may authenticate."""


class ConnectionAuth:
    """Implements ``GrantHolder`` for a connection."""

    def __init__(self, connection: Connection, access: AccessControl, headers: Mapping[str, str]) -> None:
        self.access = access
        # What the connection may do, once it is authenticated.
        self.grant: Grant = OPEN
        self._connection = connection
        # The credentials of the handshake, until the client is authenticated.
        self._headers = {name: headers[name] for name in CREDENTIALS if name in headers}
        # Processor time that was used before the user was known.
        self._uncharged = 0.0
        # What the connection counts as, of its user's and its address's.
        self._reservations: list[Reservation] = []

    async def authenticate(self, action: Authenticate) -> list[Action]:
        """Authenticate the client; return what is done next. Credentials of the command precede headers."""
        session, settings = self._connection.session, self._connection.settings
        authenticator, limiter = self.access.authenticator, self.access.limiter
        try:
            await limiter.count_arrival(self._connection.address)
            if action.token:
                grant = await authenticator.by_token(action.token)
            elif action.api_key:
                grant = await authenticator.by_key(action.api_key)
            else:
                grant = await authenticator.by_headers(self._headers)
            reservations = limiter.connection_reservations(grant, self._connection.address)
            limiter.charge(grant, CONNECT + self._uncharged)
            await limiter.count_request(grant)
            await limiter.reservations.take(reservations)
        except DistributaryError as error:
            self._audit_error("connect", error)
            reply = protocol_error(error)
            return session.reject_connect(reply) if isinstance(reply, Refusal) else [CloseConnection(reply)]
        self._headers = {}
        if session.closed:
            limiter.reservations.release(reservations)
            return []
        self._reservations = reservations
        self._set_grant(grant)
        channels, limit = self.max_channels, grant.limits.rate
        per_second = settings.max_command_rate if limit is None else limit
        rate = CommandRate(per_second, per_second + channels)
        return session.accept_connect(authenticator.seconds_left(grant), max_channels=channels, rate=rate)

    @property
    def max_channels(self) -> int:
        """How many channels the connection may subscribe to."""
        limit = self.grant.limits.channels
        return self._connection.settings.max_channels if limit is None else limit

    async def refresh(self, action: RefreshToken) -> Refusal | Ending | None:
        """Replace the token by another one of the same user; returns how it was refused, or None."""
        try:
            grant = await self.access.authenticator.by_token(action.token)
            if grant.user != self.grant.user:
                raise refuse("claims", "the token is another user's")
        except DistributaryError as error:
            self._audit_error("refresh", error)
            return protocol_error(error, connected=True)
        if not self._connection.session.closed:
            self._set_grant(grant)
            # The rate stays: a new one would forget what was used of it.
            self._connection.session.max_channels = self.max_channels
        return None

    async def grants(self, token: str, channel: str) -> GrantSet:
        """Return the grants that a subscription is served under; raises AccessError for an invalid token.

        ``token`` is the channel's own, '' for none. It can allow no more than the connection may, and must be
        of the same user.
        """
        if not token or not self.access.authenticator.on:
            return GrantSet((self.grant,))
        grant = await self.access.authenticator.by_token(token, channel=channel)
        if grant.user != self.grant.user:
            raise refuse("claims", "the token is another user's")
        return GrantSet((self.grant, grant))

    def revoke(self, error: TokenRefused) -> None:
        """Close the connection: its grant has expired or was revoked."""
        reply = protocol_error(error, connected=True)
        self._connection.end(reply if isinstance(reply, Ending) else codes.EXPIRED)

    def leave(self) -> None:
        """Release what the connection counts as."""
        self.access.sessions.remove(self.grant, self)
        self.access.limiter.reservations.release(self._reservations)
        self._reservations = []

    async def spend(self, size: int = 0) -> None:
        """Count a command that costs something, and its bytes, as the user's. Raises Refused (111)."""
        try:
            await self.access.limiter.count_arrival(self._connection.address, size)
            await self.access.limiter.count_request(self.grant, size)
        except DistributaryError as error:
            raise codes.to_refused(error) from None

    def charge(self, seconds: float) -> None:
        """Count processor time as the user's; a connection whose user owes too much is not read from."""
        if self.grant is OPEN:
            self._uncharged += seconds  # the user is not known yet
            return
        self.access.limiter.charge(self.grant, seconds)
        if self.access.limiter.is_in_debt(self.grant):
            self._connection.pause_reading()

    async def wait_until_paid(self) -> None:
        """Wait until the user owes no processor time."""
        with contextlib.suppress(DistributaryError):  # the store is away: the next command reports it
            await self.access.limiter.wait_until_paid(self.grant)

    def metered(self) -> AbstractContextManager[None]:
        """Charge to the user what tasks cost that are started in a block."""
        return nullcontext() if self.grant is OPEN else metered(self.charge)

    def audit_refused(self, action: str, target: str, reason: str) -> None:
        """Count a refusal, and write it to the audit log."""
        self._connection.stats.refused_access += 1
        user, address = self.grant.user, self._connection.address
        self.access.audit.write(action, "refused", user=user, address=address, target=target, reason=reason)

    def _audit_error(self, action: str, error: DistributaryError) -> None:
        self.audit_refused(action, "", getattr(error, "reason", "") or error.code)

    def _set_grant(self, grant: Grant) -> None:
        self.access.sessions.remove(self.grant, self)
        self.grant = grant
        self.access.sessions.add(grant, self)
