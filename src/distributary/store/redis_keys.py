"""The names of Redis keys. All keys of a view share one hash tag."""

from __future__ import annotations

from distributary.model.build import Build

VIEWS = "d:views"
HEARTBEATS = "d:heartbeats"
STORE = "d:store"
REVOKED = "d:revoked"
RESERVED, SPENT = "d:reserved:", "d:spent:"
"""Prefixes of limits that are counted by name: what processes have reserved, and budgets that refill."""


class ViewKeys:
    """Keys of a view: its builds' names, the registry and the subscriptions."""

    def __init__(self, view: str) -> None:
        self.prefix = f"d:{{{view}}}:"
        self.view = self.prefix + "view"
        self.ctl = self.prefix + "ctl"
        self.texts = self.prefix + "q:texts"
        self.numbers = self.prefix + "q:numbers"
        self.references = self.prefix + "q:references"
        self.steps = self.prefix + "q:steps"
        self.expiries = self.prefix + "s:expiries"
        self.subscriptions = self.prefix + "s:subscriptions"
        self.expensive = self.prefix + "q:expensive"

    @property
    def registry(self) -> list[str]:
        """The keys that scripts of the registry use, in their order."""
        return [
            self.view,
            self.texts,
            self.numbers,
            self.references,
            self.steps,
            self.expiries,
            self.subscriptions,
            self.expensive,
        ]


class BuildKeys:
    """Keys of one build."""

    def __init__(self, build: Build) -> None:
        prefix = f"d:{{{build.view}}}:{build.id}:"
        self.meta = prefix + "meta"
        self.rows = prefix + "rows"
        self.log = prefix + "log"
        self.last = prefix + "last"
        self.since = prefix + "since"
        self.index = prefix + "index"
        self.checkpoints = prefix + "checkpoints"
        self.expiries = prefix + "exp:"

    def expiry(self, partition: int) -> str:
        """Return the key with the expiry of each row of a partition."""
        return f"{self.expiries}{partition}"

    @property
    def fixed(self) -> list[str]:
        """Every key except those of partitions, the meta first."""
        return [self.meta, self.rows, self.log, self.last, self.since, self.index, self.checkpoints]
