"""Why a store refuses a call."""

from __future__ import annotations

from collections.abc import Sequence

from distributary.errors import BadQuery, LimitExceeded
from distributary.store.store_types import QueryLimits, RegistryChange


class Fenced(Exception):
    """A newer writer owns this partition, or the store has gone back. Stop, or open again."""


class BuildGone(Fenced):
    """The build does not exist any more."""


class NotOwner(Exception):
    """A row of this group belongs to another partition: the view must be re-keyed."""

    def __init__(self, key: str, owner: int) -> None:
        super().__init__(f"row {key!r} is owned by partition {owner}")
        self.key = key
        self.owner = owner


class Behind(Exception):
    """The registry has changed: match these queries too and write again. ``changes`` None: read it whole."""

    def __init__(self, version: int, changes: Sequence[RegistryChange] | None) -> None:
        super().__init__(f"the registry is at version {version}")
        self.version = version
        self.changes = changes


class Suspect(Exception):
    """The keys of the build contradict each other (a torn write): rebuild it."""


class TopicReplaced(Exception):
    """The feed's topic is not the one that the build was made from (R8): rebuild it."""


def id_taken(query_id: str) -> BadQuery:
    """Return the error for a query whose id is that of a different query: it would get the other's rows."""
    return BadQuery(f"another query has the id {query_id[:40]}", hint="change the filter slightly")


def registry_full(view: str, limits: QueryLimits, *, expensive: bool) -> LimitExceeded:
    """Return the error for one query too many."""
    if expensive:
        limit, kind = limits.expensive_queries, " that no index supports"
    else:
        limit, kind = limits.queries, ""
    return LimitExceeded(
        f'limit exceeded: {limit:,} different queries of the view "{view}"{kind}',
        hint="filter by equality or by range of a field" if expensive else "try again later",
    )
