"""From the parameters of a request to a query: a channel's name, the parameters of a URL, a JSON body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from multidict import MultiMapping

from distributary.errors import BadQuery, BadRequest
from distributary.model.channel_name import REGISTERED, decode_channel, decode_registered, encode_channel
from distributary.model.field_mask import FieldMask, parse_field_mask
from distributary.model.order import order_of
from distributary.model.query import Query


@dataclass(frozen=True, slots=True)
class ChannelQuery:
    """A view and either the query itself or the id of a registered one.

    ``query`` is None when only the id is known, ``query_id`` is '' when not even that (a subscription knows
    it). ``fields`` are the requested fields of the rows, None for all.
    """

    view: str
    query: Query | None
    query_id: str
    fields: FieldMask | None = None


def parse_channel(channel: str) -> ChannelQuery:
    """Read a channel's name. Raises BadQuery."""
    if channel.startswith(REGISTERED):
        found = decode_registered(channel)
        if found is None:
            raise BadQuery(f"the channel {channel[:80]!r} must be of the form q:VIEW:ID")
        return ChannelQuery(found[0], None, found[1], optional_fields(found[2]))
    decoded = decode_channel(channel)
    wheres = [decoded.where] if decoded.where is not None else []
    return channel_query(
        decoded.view, wheres, decoded.keys or [], decoded.fields, decoded.order, decoded.limit
    )


def optional_fields(text: str | None) -> FieldMask | None:
    """Parse a list of fields, if there is one. Raises BadQuery with the position of the error."""
    return None if text is None else parse_field_mask(text)


def channel_query(
    view: str,
    wheres: Iterable[str],
    keys: Iterable[str],
    fields: str | None = None,
    order: str | None = None,
    limit: str | None = None,
) -> ChannelQuery:
    """Build a query from decoded parameters: at most one filter, or keys. Raises BadQuery."""
    filters, wanted = list(wheres), list(keys)
    if len(filters) > 1:
        raise BadQuery("a query has one filter", hint="join the conditions with and")
    if filters and wanted:
        raise BadQuery("a query has keys or a filter, not both", hint="leave one out")
    query = Query.of_keys(view, wanted) if wanted else Query.parse(view, filters[0] if filters else None)
    query = query.ordered(order_of(order, limit))
    return ChannelQuery(view, query, query.id, optional_fields(fields))


# --- URLs -------------------------------------------------------------------------------------------------


def url_keys(parameters: MultiMapping[str]) -> list[str]:
    """Return the keys of ``key=a&key=b`` and of ``keys=a,b``."""
    lists = [text.split(",") for text in parameters.getall("keys", [])]
    return [*parameters.getall("key", []), *(key for keys in lists for key in keys)]


def single(
    parameters: MultiMapping[str], name: str, error: type[BadQuery | BadRequest] = BadQuery
) -> str | None:
    """Return a parameter that may be given once; None without it. Raises ``error``."""
    found = parameters.getall(name, [])
    if len(found) > 1:
        raise error(f"{name} is given {len(found)} times", hint="give it once")
    return found[0] if found else None


# --- JSON bodies ------------------------------------------------------------------------------------------


def json_type_name(value: Any) -> str:
    """Name the JSON type of a value, for messages."""
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), "a number")


def body_query(body: Mapping[str, Any]) -> Query:
    """Read the query of a JSON body. Raises BadRequest or BadQuery."""
    order, limit = body.get("order"), body.get("limit")
    if order is not None and not isinstance(order, str):
        raise BadRequest(f'"order" is {json_type_name(order)}', hint='write it as a string: "price desc"')
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
        raise BadRequest(f'"limit" is {json_type_name(limit)}', hint="give a number of rows")
    return _unordered(body).ordered(order_of(order, limit))


def _unordered(body: Mapping[str, Any]) -> Query:
    view, where, keys = body.get("view"), body.get("where"), body.get("keys")
    if not isinstance(view, str):
        problem = f'"view" is {json_type_name(view)}' if "view" in body else '"view" is missing'
        raise BadRequest(problem, hint="name a view")
    if where is not None and keys is not None:
        raise BadRequest('a query has "where" or "keys", not both', hint="leave one out")
    if where is not None and not isinstance(where, str):
        hint = 'write it as a string: "price > 1.5 and …"'
        raise BadRequest(f'"where" is {json_type_name(where)}', hint=hint)
    if keys is None:
        return Query.parse(view, where)
    if not isinstance(keys, list):
        raise BadRequest(f'"keys" is {json_type_name(keys)}', hint="give an array of row keys")
    for at, key in enumerate(keys):
        if not isinstance(key, str):
            raise BadRequest(f'"keys"[{at}] is {json_type_name(key)}', hint="row keys are strings")
    return Query.of_keys(view, keys)


def body_fields(body: Mapping[str, Any]) -> str | None:
    """Read which fields a JSON body requests, as a channel's name has them. Raises BadRequest or BadQuery."""
    fields = body.get("fields")
    if isinstance(fields, list) and all(isinstance(one, str) for one in fields):
        fields = ",".join(fields)
    if fields is None:
        return None
    if not isinstance(fields, str):
        hint = 'write it as a string: "price,score.home"'
        raise BadRequest(f'"fields" is {json_type_name(fields)}', hint=hint)
    parse_field_mask(fields)
    return fields


def event_channel(payload: Mapping[str, Any]) -> str:
    """Return the channel that an event's payload names, or that its view and query make.

    Raises BadRequest or BadQuery.
    """
    channel, view = payload.get("channel"), payload.get("view")
    if bool(channel) == bool(view):
        raise BadRequest("subscribe needs a channel or a view, and not both")
    query = [name for name in ("where", "keys", "fields") if name in payload]
    if channel:
        if query:
            raise BadRequest(f"{query[0]} goes with a view", hint="a channel's name contains its query")
        return str(channel)
    keys, fields = _strings("keys", payload.get("keys")), _strings("fields", payload.get("fields"))
    return encode_channel(str(view), payload.get("where"), keys, None if fields is None else ",".join(fields))


def _strings(name: str, value: Any) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadRequest(f"{name} must be a list of strings")
    return value
