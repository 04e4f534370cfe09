"""What the WebSocket and the HTTP side share of permission: the gate, the roll, and the quota."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distributary.config import Config
from distributary.permit import Gate, Grant
from distributary.publish.access.quota import Quota
from distributary.publish.access.roll import Holder, Roll
from distributary.store.base import ReaderStore

OFTEN, SELDOM = 0.1, 1.0
"""Bounds of the time between two looks at the roll, in seconds."""


class Door:
    """One for a process. Raises ConfigError when the keys of ``[permit]`` cannot be used."""

    def __init__(self, config: Config, store: ReaderStore) -> None:
        self.gate = Gate(config, store.revoked)
        every = min(SELDOM, max(OFTEN, config.permit.revoked_ttl))
        self.roll = Roll(self.gate, every=every)
        self.quota = Quota()

    @contextmanager
    def staying(self, grant: Grant, holder: Holder) -> Iterator[None]:
        """Count a holder of one query while it is here, and end it with its grant. Raises Refused (106)."""
        self.quota.take(grant)
        self.roll.enter(grant, holder)
        try:
            yield
        finally:
            self.roll.leave(grant, holder)
            self.quota.give(grant)
