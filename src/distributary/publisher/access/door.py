"""What the WebSocket and the HTTP side share of permission: the gate, the roll, the limits, the audit log."""

from __future__ import annotations

from distributary.auth import Authenticator
from distributary.auth.audit import Audit
from distributary.auth.limiter import Limiter
from distributary.config import Config
from distributary.publisher.access_control import Roll
from distributary.store.contract import ReaderStore

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
        self.audit = Audit.of("publisher", config)
