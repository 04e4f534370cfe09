"""What a query costs those who match it: how many of its kind a view may have."""

from __future__ import annotations

from distributary.config.limits_section import Limits
from distributary.model.query import Query
from distributary.model.query_plan import is_expensive
from distributary.store.contract import Caps


def caps_of(limits: Limits, query: Query) -> Caps:
    """Say how many queries a view may have by the time this one comes."""
    return Caps(limits.queries_per_view, limits.expensive_queries_per_view, is_expensive(query))
