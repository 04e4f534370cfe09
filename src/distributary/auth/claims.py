"""From the claims of a token, or the settings of an API key, to a `Grant`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from distributary.auth.grant import API_KEY_PREFIX, Grant, Limits, Operator
from distributary.auth.jwt_checks import refuse
from distributary.errors import BadQuery, TokenRefused
from distributary.model.field_mask import FieldMask, parse_field_mask
from distributary.model.query import Query

MAX_NAMES = 1000
MAX_USER = 256
MAX_ID = 256

_VIEWS = re.compile(r"[a-z0-9_*-]{1,63}")
_TOPICS = re.compile(r"[A-Za-z0-9._*-]{1,249}")
_ANY = re.compile(r"[^\x00-\x1f\x7f]{1,255}")
"""Names of groups and subjects are any printable strings."""

PATTERNS: Mapping[str, re.Pattern[str]] = {
    "views": _VIEWS,
    "publish": _VIEWS,
    "define": _VIEWS,
    "produce": _TOPICS,
    "consume": _TOPICS,
    "groups": _ANY,
    "subjects": _ANY,
    "register": _ANY,
}
"""The claims that are lists of names, and what such a name may look like."""

CLAIMS = (*PATTERNS, "rows", "columns", "limits", "operator")
"""The claims that are specific to Distributary, in a token and under ``[auth.keys]``."""


def grant_of_token(claims: Mapping[str, Any], *, claim: str = "", default_views: str = "none") -> Grant:
    """Parse the claims of a verified token; raises TokenRefused if any of them is invalid.

    ``claim`` and ``default_views`` are the settings of these names.
    """
    user = claims.get("sub")
    if not isinstance(user, str) or not user or len(user) > MAX_USER or not user.isprintable():
        raise _invalid("sub", f"a string of 1 to {MAX_USER} characters: the name of the user")
    if user.startswith(API_KEY_PREFIX):
        raise _invalid("sub", f"the name of a user; {API_KEY_PREFIX} is the prefix of API keys")
    own = claims.get(claim, {}) if claim else claims
    if not isinstance(own, dict):
        raise _invalid(claim, "an object")
    channel, id = claims.get("channel", ""), claims.get("jti", "")
    if not isinstance(channel, str):
        raise _invalid("channel", "the name of the one channel that the token is for")
    if not isinstance(id, str) or len(id) > MAX_ID:
        raise _invalid("jti", f"a string of at most {MAX_ID} characters")
    grant = grant_of_claims(user, own, default_views=default_views)
    return replace(
        grant, expires_at=_ms(claims.get("exp")), issued_at=_ms(claims.get("iat")), channel=channel, id=id
    )


def grant_of_claims(user: str, claims: Mapping[str, Any], *, default_views: str = "none") -> Grant:
    """Parse what is allowed (`CLAIMS`); raises TokenRefused (claims, rows)."""
    patterns: dict[str, Any] = {name: _patterns(claims.get(name), name) for name in PATTERNS}
    if claims.get("views") is None and default_views == "all":
        patterns["views"] = ("*",)
    return Grant(
        user=user,
        rows=_rows(claims.get("rows"), patterns["views"]),
        columns=_columns(claims.get("columns"), patterns["views"]),
        limits=_limits(claims.get("limits")),
        operator=_operator(claims.get("operator")),
        **patterns,
    )


def _rows(value: Any, views: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Parse the row filters; to ignore one that is empty, invalid or for no view would be unsafe."""
    by_view = {"*": value} if isinstance(value, str) else _by_view(value, "rows", "filters", views)
    for pattern, where in by_view.items():
        if not isinstance(where, str) or not where.strip():
            raise refuse("rows", f'the row filter for "{pattern}" must be a string that is not empty')
        try:
            Query.parse("rows", where)
        except BadQuery as error:
            raise refuse("rows", f'the row filter for "{pattern}" is invalid', error.hint) from None
    return tuple(sorted(by_view.items()))


def _columns(value: Any, views: Sequence[str]) -> tuple[tuple[str, FieldMask], ...]:
    """Parse which fields of views are visible."""
    whole = isinstance(value, list | str)
    by_view = {"*": value} if whole else _by_view(value, "columns", "lists of fields", views)
    return tuple((pattern, _fields(pattern, one)) for pattern, one in sorted(by_view.items()))


def _fields(pattern: str, value: Any) -> FieldMask:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
        raise _invalid("columns", f'a list of fields for "{pattern}", such as ["price", "score.home"]')
    try:
        return parse_field_mask(",".join(names))
    except BadQuery as error:
        raise refuse("claims", f'the columns of "{pattern}" are invalid', error.message) from None


def _by_view(value: Any, name: str, what: str, views: Sequence[str]) -> dict[str, Any]:
    """Parse an object by view; ``true`` means all of a view, and is left out of the result.

    A view that was forgotten would be unrestricted, so every allowed view must be named.
    """
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAX_NAMES or not all(map(_VIEWS.fullmatch, value)):
        raise _invalid(name, f"an object of {what} by view, or by pattern such as odds-*")
    reason = "rows" if name == "rows" else "claims"
    for pattern in value:
        if not any(fnmatchcase(view, pattern) or fnmatchcase(pattern, view) for view in views):
            raise refuse(reason, f'{name} has "{pattern}", but that view is not allowed')
    for view in views:
        if not any(fnmatchcase(view, pattern) for pattern in value):
            raise refuse(
                reason,
                f'{name} lacks the view "{view}"',
                f'add it to {name}; "{view}": true allows all of it',
            )
    return {pattern: one for pattern, one in value.items() if one is not True}


def _patterns(value: Any, name: str) -> tuple[str, ...]:
    if value is None or value is False:
        return ()
    found = ["*"] if value is True else [value] if isinstance(value, str) else value
    if not isinstance(found, list) or len(found) > MAX_NAMES:
        raise _invalid(name, f"a list of at most {MAX_NAMES} names or patterns")
    for one in found:
        if not isinstance(one, str) or not PATTERNS[name].fullmatch(one):
            raise _invalid(name, "names, or patterns such as odds-*")
    # Only * is a wildcard; a bracket or question mark in a name is literal.
    return tuple("".join(f"[{char}]" if char in "?[" else char for char in one) for one in found)


def _limits(value: Any) -> Limits:
    if value is None:
        return Limits()
    names = Limits.__slots__
    good = isinstance(value, dict) and all(
        name in names and isinstance(number, int) and not isinstance(number, bool) and number >= 0
        for name, number in value.items()
    )
    if not good:
        raise _invalid("limits", f"an object of whole numbers for {', '.join(names)}")
    return Limits(**value)


def _operator(value: Any) -> Operator:
    levels = {level.name.lower(): level for level in Operator if level}
    if value is None or value is False:
        return Operator.NONE
    if not isinstance(value, str) or value not in levels:
        raise _invalid("operator", f"one of {', '.join(levels)}")
    return levels[value]


def _ms(seconds: Any) -> int | None:
    return None if seconds is None else int(seconds * 1000)


def _invalid(name: str, expected: str) -> TokenRefused:
    return refuse("claims", f'"{name}" is invalid', f"it must be {expected}")
