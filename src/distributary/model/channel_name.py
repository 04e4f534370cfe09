"""Channel names: how a subscriber identifies a query.

A *registered* channel is ``q:<view>:<query id>`` and comes from the control
API. A *one-step* channel is the query itself: ``odds`` (the whole view),
``odds?where=sport%20%3D%20'football'`` or ``odds?keys=a,b`` (``key=a&key=b``
means the same). Values are percent-encoded; ``+`` is a space, as in forms.
Both kinds may choose fields of the rows: ``odds?fields=price,score.home``,
``q:odds:ID?fields=price``.
``order=price%20desc&limit=10`` limits it to the first rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote_plus

from distributary.errors import BadQuery

OPTIONS = ("where", "keys", "key", "fields", "order", "limit")
"""The options of the name of a one-step channel."""
REGISTERED = "q:"


class ChannelName(NamedTuple):
    """The query of a one-step channel: at most one of ``where`` and ``keys`` is set."""

    view: str
    where: str | None
    keys: list[str] | None
    fields: str | None = None
    order: str | None = None
    limit: str | None = None


def encode_channel(
    view: str,
    where: str | None = None,
    keys: Iterable[str] | None = None,
    fields: str | None = None,
    *,
    order: str | None = None,
    limit: int | None = None,
) -> str:
    """Return the name of the one-step channel of a query; ``decode_channel`` is the inverse.

    Raises BadQuery if both ``where`` and ``keys`` are given, or ``keys`` is empty.
    """
    name = _encode_query(view, where, keys)
    if order is not None:
        name += f"{'&' if '?' in name else '?'}order={quote(order, safe=_READABLE)}"
    if limit is not None:
        name += f"{'&' if '?' in name else '?'}limit={limit}"
    return with_fields(name, fields)


def with_fields(name: str, fields: str | None) -> str:
    """Add a list of fields to the name of a channel, of either kind."""
    if fields is None:
        return name
    return f"{name}{'&' if '?' in name else '?'}fields={quote(fields, safe=_READABLE)}"


def _encode_query(view: str, where: str | None, keys: Iterable[str] | None) -> str:
    name = quote(view, safe="")
    if keys is not None:
        if where is not None:
            raise _both()
        wanted = list(keys)
        if not wanted:
            raise BadQuery("a list of keys must contain at least one key")
        # The empty key has its own form, so that a missing value in keys= is an error.
        parts = ["keys=" + ",".join(quote(key, safe="") for key in wanted if key)] if any(wanted) else []
        return f"{name}?{'&'.join(parts + ['key='] * ('' in wanted))}"
    return name if where is None else f"{name}?where={quote(where, safe=_READABLE)}"


def decode_channel(name: str) -> ChannelName:
    """Parse the name of a one-step channel. Raises BadQuery."""
    if name.startswith(REGISTERED):
        raise BadQuery(f"{name!r} is a registered channel, not a query")
    head, mark, tail = name.partition("?")
    view = _text(head, name)
    if not view:
        raise BadQuery(f"the channel {name!r} has no view", hint=_HINT)
    where: str | None = None
    keys: list[str] | None = None
    fields: str | None = None
    only: dict[str, str] = {}
    for part in tail.split("&") if mark and tail else ():
        field, equals, value = part.partition("=")
        if not equals or field not in OPTIONS:
            raise BadQuery(f"the channel {name!r} has an unknown option {part!r}", hint=_HINT)
        if field in ("order", "limit"):
            if field in only:
                raise BadQuery(f"the channel {name!r} has {field} twice", hint="use it once")
            only[field] = _text(value, name)
        elif field == "where":
            if where is not None:
                raise BadQuery(f"the channel {name!r} has two filters", hint="join the conditions with and")
            where = _text(value, name)
        elif field == "fields":
            fields = _fields(fields, value, name)
        elif field == "key":
            keys = [*(keys or ()), _text(value, name)]
        else:
            wanted = value.split(",")
            if "" in wanted:
                raise BadQuery(f"the channel {name!r} has an empty key", hint="write keys=a,b")
            keys = [*(keys or ()), *(_text(key, name) for key in wanted)]
    if where is not None and keys is not None:
        raise _both()
    return ChannelName(view, where, keys, fields, **only)


def decode_registered(name: str) -> tuple[str, str, str | None] | None:
    """Return view, query id and fields of a registered channel; None if the name is not of this kind.

    Raises BadQuery for an invalid option.
    """
    if not name.startswith(REGISTERED):
        return None
    head, mark, tail = name[len(REGISTERED) :].partition("?")
    view, colon, query = head.rpartition(":")
    if not (colon and view and query):
        return None
    fields: str | None = None
    for part in tail.split("&") if mark and tail else ():
        option, equals, value = part.partition("=")
        if not equals or option != "fields":
            hint = "only fields can be added: q:VIEW:ID?fields=A,B"
            raise BadQuery(f"the channel {name!r} has an unknown option {part!r}", hint=hint)
        fields = _fields(fields, value, name)
    return view, query, fields


_READABLE = "'()*,!~"
_HINT = (
    "use VIEW, VIEW?where=FILTER or VIEW?keys=A,B, optionally with order=FIELD&limit=N and fields=A,B.C, "
    "percent-encoded"
)


def _fields(before: str | None, value: str, name: str) -> str:
    if before is not None:
        raise BadQuery(f"the channel {name!r} has two lists of fields", hint="join them with a comma")
    return _text(value, name)


def _text(part: str, name: str) -> str:
    try:
        return unquote_plus(part, errors="strict")
    except UnicodeDecodeError:
        raise BadQuery(f"the channel {name!r} is not percent-encoded UTF-8", hint=_HINT) from None


def _both() -> BadQuery:
    return BadQuery("a query has keys or a filter, not both", hint="remove one of them")
