"""Who is here by which grant, so that the end of a grant ends what it let in."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from distributary.auth import Authenticator, Grant
from distributary.errors import StoreUnavailable, TokenRefused

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
            ended = await self._gate.ended(grants)
        except StoreUnavailable:
            ended = self._gate.expired(grants)
        for grant, error in ended:
            for holder in list(self._here.get(grant, ())):
                holder.expel(error)
