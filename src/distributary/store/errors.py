"""Why the store refuses a call."""

from __future__ import annotations

from collections.abc import Sequence

from distributary.errors import BadQuery, LimitExceeded
from distributary.store.store_types import Caps, RegistryChange


class Fenced(Exception):
    """Somebody newer writes this partition, or the store is not where we were. Stop or open again."""


class BuildGone(Fenced):
    """There is no such build any more."""


class NotOwner(Exception):
    """A row of this group belongs to another partition: the view must be re-keyed."""

    def __init__(self, key: str, owner: int) -> None:
        super().__init__(f"row {key!r} is owned by partition {owner}")
        self.key = key
        self.owner = owner


class Behind(Exception):
    """The registry moved on: match these too and write again. ``changes`` None: read it whole."""

    def __init__(self, version: int, changes: Sequence[RegistryChange] | None) -> None:
        super().__init__(f"the registry is at version {version}")
        self.version = version
        self.changes = changes


class Suspect(Exception):
    """The build's keys contradict each other (a torn write): rebuild it."""


class TopicReplaced(Exception):
    """The feed's topic is not the one this build was made from (R8): rebuild it."""


def id_taken(query_id: str) -> BadQuery:
    """Make the error of a query whose id is that of another: its rows would be the other's."""
    return BadQuery(f"another query has the id {query_id[:40]}", hint="change the filter a little")


def registry_full(view: str, caps: Caps, *, expensive: bool) -> LimitExceeded:
    """Make the error of a query too many."""
    if expensive:
        most, kind = caps.expensive_queries, " that no index can help"
    else:
        most, kind = caps.queries, ""
    return LimitExceeded(
        f'limit exceeded: {most:,} different queries of the view "{view}"{kind}',
        hint="filter by equality or by range of a field, as others do" if expensive else "try again later",
    )
