"""Which sessions are here by which grant, and what their grants let them have."""

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
from distributary.errors import (
    AccessError,
    LimitExceeded,
    StoreUnavailable,
    TokenRefused,
)
from distributary.model.query import Query
from distributary.model.query_params import ChannelQuery
from distributary.model.query_plan import is_expensive
from distributary.publisher.codec.codes import to_refused
from distributary.store.contract import ReaderStore

log = logging.getLogger(__name__)


class Holder(Protocol):
    """What a grant let in: a connection, a subscription with a token of its own, or a stream."""

    def expel(self, error: TokenRefused) -> None:
        """End, since the grant did. Does not block."""


class Roll:
    """All holders by their grants, looked through at an interval.

    A store that does not answer keeps nobody longer than its time; who was revoked is then learned when it
    answers again.
    """

    def __init__(self, gate: Authenticator, *, every: float) -> None:
        self._gate = gate
        self._every = every
        self._here: dict[Grant, dict[Holder, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._here.values()))

    def enter(self, grant: Grant, holder: Holder) -> None:
        """Note a holder; one whose grant cannot end is not looked after."""
        if grant.expires_at is not None or grant.revocable:
            self._here.setdefault(grant, {})[holder] = None

    def leave(self, grant: Grant, holder: Holder) -> None:
        """Forget a holder; it may be unknown."""
        holders = self._here.get(grant, {})
        holders.pop(holder, None)
        if not holders:
            self._here.pop(grant, None)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.look()
            except Exception as error:
                log.warning("who may stay cannot be told (%s)", error or type(error).__name__)

    async def look(self) -> None:
        """End what grants let in that no longer count."""
        grants = list(self._here)
        try:
            ended = await self._gate.find_ended(grants)
        except StoreUnavailable:
            ended = self._gate.find_expired(grants)
        for grant, error in ended:
            for holder in list(self._here.get(grant, ())):
                holder.expel(error)


OFTEN, SELDOM = 0.1, 1.0
"""Bounds of the time between two looks at the roll, in seconds."""


class Door:
    """One for a process. Raises ConfigError when the keys of ``[auth]`` cannot be used."""

    def __init__(self, config: Config, store: ReaderStore) -> None:
        self.gate = Authenticator(config, store.revoked)
        every = min(SELDOM, max(OFTEN, config.auth.revocation_delay))
        self.roll = Roll(self.gate, every=every)
        self.limits = config.limits
        self.limiter = Limiter(config, store)
        self.audit = AuditLog.of("publisher", config)


async def counted(limiter: Limiter, grant: Grant, query: Query, address: str) -> list[Reservation]:
    """Count a query as its user's; gives what to give back when it ends. Raises Refused (106, 100).

    The user's own share is the first.
    """
    shares = limiter.query_reservations(grant, address, expensive=is_expensive(query)) if grant.user else []
    try:
        await limiter.reservations.take(shares)
    except (LimitExceeded, StoreUnavailable) as error:
        raise to_refused(error) from None
    return shares


def narrowed(asked: ChannelQuery, held: GrantSet) -> ChannelQuery:
    """Give what is served in place of what was asked for: which rows, and which fields of them.

    A query that is known by its id alone stays; the hub checks it once it has read it. Raises Refused, and
    BadQuery when the filters together are too much.
    """
    fields = held.visible_fields(asked.view, asked.fields)
    try:
        if asked.query is None:
            held.require_view(asked.view)
            return replace(asked, fields=fields)
        query = held.narrow(asked.query)
    except AccessError as error:
        raise to_refused(error) from None
    return replace(asked, query=query, query_id=query.id, fields=fields)
