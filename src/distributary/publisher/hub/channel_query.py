"""What a subscriber asks for: a view and either the query itself or the id of a registered one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from distributary.errors import BadQuery
from distributary.model.channel_name import REGISTERED, decode_channel, decode_registered
from distributary.model.field_mask import Fields, parse_fields
from distributary.model.order import order_of
from distributary.model.query import Query


@dataclass(frozen=True, slots=True)
class Asked:
    """A view's query; ``query`` is None when only the id is known, ``query_id`` '' when not even that.

    ``fields`` are those wanted of its rows, None for all.
    """

    view: str
    query: Query | None
    query_id: str
    fields: Fields | None = None


def parse(channel: str) -> Asked:
    """Read a channel's name. Raises BadQuery."""
    if channel.startswith(REGISTERED):
        found = decode_registered(channel)
        if found is None:
            raise BadQuery(f"the channel {channel[:80]!r} is not of the form q:VIEW:ID")
        return Asked(found[0], None, found[1], chosen(found[2]))
    asked = decode_channel(channel)
    wheres = [asked.where] if asked.where is not None else []
    return of(asked.view, wheres, asked.keys or [], asked.fields, asked.order, asked.limit)


def chosen(fields: str | None) -> Fields | None:
    """Read a list of fields, where there is one. Raises BadQuery, which names the character."""
    return None if fields is None else parse_fields(fields)


def of(
    view: str,
    wheres: Iterable[str],
    keys: Iterable[str],
    fields: str | None = None,
    order: str | None = None,
    limit: str | None = None,
) -> Asked:
    """Make a query of decoded parameters: at most one filter, or keys. Raises BadQuery."""
    filters, wanted = list(wheres), list(keys)
    if len(filters) > 1:
        raise BadQuery("a query has one filter", hint="join the conditions with and")
    if filters and wanted:
        raise BadQuery("a query has keys or a filter, not both", hint="leave one out")
    query = Query.of_keys(view, wanted) if wanted else Query.parse(view, filters[0] if filters else None)
    query = query.ordered(order_of(order, limit))
    return Asked(view, query, query.id, chosen(fields))
