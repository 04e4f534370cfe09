"""Access control of a publisher: which sessions are here by which grant, and what grants let them have."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Protocol

from distributary.auth import Authenticator, Grant, GrantSet
from distributary.auth.audit import AuditLog
from distributary.auth.limiter import Limiter
from distributary.auth.reservations import Reservation
from distributary.config import Config
from distributary.errors import AccessError, LimitExceeded, StoreUnavailable, TokenRefused
from distributary.model.query import Query
from distributary.model.query_params import ChannelQuery
from distributary.model.query_plan import is_expensive
from distributary.publisher.codec.codes import to_refused
from distributary.store.contract import ReaderStore

log = logging.getLogger(__name__)

MIN_INTERVAL, MAX_INTERVAL = 0.1, 1.0
"""Limits of the time between two checks of all grants, in seconds."""


class GrantHolder(Protocol):
    """What a grant let in: a connection, a subscription with a token of its own, or a stream."""

    def revoke(self, error: TokenRefused) -> None:
        """End, since the grant has expired or was revoked. Does not block."""


class SessionRegistry:
    """All holders of grants, checked at an interval: when a grant ends, what it let in ends, too.

    While the store does not respond, only expired grants are ended; revoked ones are when it responds again.
    """

    def __init__(self, authenticator: Authenticator, *, interval: float) -> None:
        self._authenticator = authenticator
        self._interval = interval
        self._holders: dict[Grant, dict[GrantHolder, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._holders.values()))

    def add(self, grant: Grant, holder: GrantHolder) -> None:
        """Add a holder, unless its grant can never end."""
        if grant.expires_at is not None or grant.revocable:
            self._holders.setdefault(grant, {})[holder] = None

    def remove(self, grant: Grant, holder: GrantHolder) -> None:
        """Remove a holder, if it is there."""
        holders = self._holders.get(grant, {})
        holders.pop(holder, None)
        if not holders:
            self._holders.pop(grant, None)

    async def run(self) -> None:
        """Check at the interval until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.check()
            except Exception as error:
                log.warning(
                    "could not check for expired or revoked grants: %s", error or type(error).__name__
                )

    async def check(self) -> None:
        """End what was let in by grants that have expired or were revoked."""
        grants = list(self._holders)
        try:
            ended = await self._authenticator.find_ended(grants)
        except StoreUnavailable:
            ended = self._authenticator.find_expired(grants)
        for grant, error in ended:
            for holder in list(self._holders.get(grant, ())):
                holder.revoke(error)


class AccessControl:
    """Shared by WebSockets and HTTP streams. Raises ConfigError when the keys of ``[auth]`` are invalid."""

    def __init__(self, config: Config, store: ReaderStore) -> None:
        self.authenticator = Authenticator(config, store.revoked)
        interval = min(MAX_INTERVAL, max(MIN_INTERVAL, config.auth.revocation_delay))
        self.sessions = SessionRegistry(self.authenticator, interval=interval)
        self.limits = config.limits
        self.limiter = Limiter(config, store)
        self.audit = AuditLog.of("publisher", config)


async def count_query(limiter: Limiter, grant: Grant, query: Query, address: str) -> list[Reservation]:
    """Count a query as its user's; returns what to give back when it ends. Raises Refused (106, 100).

    The user's own share is the first.
    """
    reservations = (
        limiter.query_reservations(grant, address, expensive=is_expensive(query)) if grant.user else []
    )
    try:
        await limiter.reservations.take(reservations)
    except (LimitExceeded, StoreUnavailable) as error:
        raise to_refused(error) from None
    return reservations


def narrowed(query: ChannelQuery, grants: GrantSet) -> ChannelQuery:
    """Return what is served in place of a requested query: which rows, and which fields of them.

    A query of which only the id is known stays; the hub checks it once it has read it. Raises Refused, and
    BadQuery when the filters together are too much.
    """
    fields = grants.visible_fields(query.view, query.fields)
    try:
        if query.query is None:
            grants.require_view(query.view)
            return replace(query, fields=fields)
        found = grants.narrow(query.query)
    except AccessError as error:
        raise to_refused(error) from None
    return replace(query, query=found, query_id=found.id, fields=fields)
