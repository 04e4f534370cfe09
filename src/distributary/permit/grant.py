"""What somebody may do: a plain value, made from a token's claims or from an API key's settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from distributary.errors import BadQuery, Forbidden, TokenRefused
from distributary.model.query import Query
from distributary.permit.tokens import refuse

CLAIMS = ("views", "rows", "limits", "publish", "monitor", "admin")
"""The names that are ours, in a token and under ``[permit.keys]``."""

MAX_NAMES = 1000
MAX_USER = 256

_PATTERN = re.compile(r"[a-z0-9_*-]{1,63}")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of something one may have; None is what the configuration allows everybody.

    ``channels`` of one connection, ``queries`` of one user at a time, ``rate`` of commands a second.
    """

    channels: int | None = None
    queries: int | None = None
    rate: int | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What one user may do.

    ``views`` and ``publish`` (feeds to publish to) are names or patterns with ``*``. ``rows`` pairs such a
    pattern with the filter that every query of a view that it fits is narrowed by. Times are ms since the
    epoch; ``expires_at`` None: never; ``issued_at`` None: nobody said. ``monitor`` may read status and
    metrics of the whole stack; ``admin`` may change views and revoke users, and monitor. ``revocable`` is
    whether revoking the user ends it. ``channel`` is the one channel that it is for, '' when it is for all.
    """

    user: str
    expires_at: int | None = None
    issued_at: int | None = None
    views: tuple[str, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    limits: Limits = field(default_factory=Limits)
    publish: tuple[str, ...] = ()
    monitor: bool = False
    admin: bool = False
    revocable: bool = True
    channel: str = ""

    def sees(self, name: str) -> bool:
        """Say whether it allows a view."""
        return _fits(name, self.views)

    def view(self, name: str) -> None:
        """Raise Forbidden unless it allows the view; whether there is one of that name is not told."""
        if not self.sees(name):
            raise Forbidden(
                f'{self._named} may not read the view "{name[:80]}"', hint="ask for a token that names it"
            )

    def feed(self, name: str) -> None:
        """Raise Forbidden unless it allows to publish to the feed."""
        if not _fits(name, self.publish):
            raise Forbidden(
                f'{self._named} may not publish to the feed "{name[:80]}"',
                hint="ask for a token whose publish names it",
            )

    def filters(self, view: str) -> tuple[str, ...]:
        """List the filters that queries of a view are narrowed by."""
        return tuple(where for pattern, where in self.rows if fnmatchcase(view, pattern))

    def narrow(self, query: Query) -> Query:
        """Give the query that is served in place of the one asked for.

        It asks for no row that the grant does not allow. Raises Forbidden for its view, or BadQuery when the
        two filters together are too much.
        """
        self.view(query.view)
        for where in self.filters(query.view):
            query = query.narrowed(where)
        return query

    def covers(self, query: Query) -> bool:
        """Say whether a query that was registered before asks for no more than is allowed.

        True where narrowing it changes nothing; so a channel or a subscription that another user made is of
        use only to those with the same filter.
        """
        try:
            return self.narrow(query).text == query.text
        except (Forbidden, BadQuery):
            return False

    def expired(self, now: int, leeway: float = 0.0) -> bool:
        """Say whether its time is over at ``now`` (ms), with a grace in seconds."""
        return self.expires_at is not None and now >= self.expires_at + leeway * 1000

    def revoked(self, before: int | None) -> bool:
        """Say whether revoking its user at ``before`` (ms, None: never) ended it.

        Tokens tell their time in whole seconds; of two things in one second the safer is taken, and a token
        that does not tell its time is as old as can be.
        """
        if before is None or not self.revocable:
            return False
        return self.issued_at is None or self.issued_at < before

    @property
    def _named(self) -> str:
        return f'the user "{self.user}"'


OPEN = Grant(user="", views=("*",), publish=("*",), monitor=True, admin=True, revocable=False)
"""What everybody may do where permission is off."""


def of_token(claims: Mapping[str, Any], *, claim: str = "", default_views: str = "none") -> Grant:
    """Read the claims of a verified token; raises TokenRefused when any of it cannot be read.

    ``claim`` and ``default_views`` are the settings of these names.
    """
    user = claims.get("sub")
    if not isinstance(user, str) or not user or len(user) > MAX_USER or not user.isprintable():
        raise _unclear("sub", f"a text of 1 to {MAX_USER} characters that names the user")
    ours = claims.get(claim, {}) if claim else claims
    if not isinstance(ours, dict):
        raise _unclear(claim, "an object")
    channel = claims.get("channel", "")
    if not isinstance(channel, str):
        raise _unclear("channel", "the name of the one channel that the token is for")
    grant = of_claims(
        user,
        ours,
        default_views=default_views,
        expires_at=_ms(claims.get("exp")),
        issued_at=_ms(claims.get("iat")),
    )
    return replace(grant, channel=channel)


def of_claims(
    user: str,
    claims: Mapping[str, Any],
    *,
    default_views: str = "none",
    expires_at: int | None = None,
    issued_at: int | None = None,
    revocable: bool = True,
) -> Grant:
    """Read what is allowed (`CLAIMS`); raises TokenRefused (claims, rows)."""
    usual = ("*",) if default_views == "all" else ()
    views = usual if claims.get("views") is None else _patterns(claims["views"], "views")
    publish = claims.get("publish")
    feeds = ("*",) if publish is True else () if publish in (None, False) else _patterns(publish, "publish")
    return Grant(
        user=user,
        expires_at=expires_at,
        issued_at=issued_at,
        views=views,
        rows=_rows(claims.get("rows"), views),
        limits=_limits(claims.get("limits")),
        publish=feeds,
        monitor=_flag(claims, "monitor"),
        admin=_flag(claims, "admin"),
        revocable=revocable,
    )


def _rows(value: Any, views: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Read the filters; one that is empty, cannot be read or fits no view would be an open door."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = {"*": value}
    elif not isinstance(value, dict) or len(value) > MAX_NAMES:
        raise _unclear("rows", "a filter, or an object of filters by view")
    else:
        for pattern in _patterns(list(value), "rows"):
            if not any(fnmatchcase(view, pattern) or fnmatchcase(pattern, view) for view in views):
                raise refuse("rows", f'the rows of "{pattern}" are filtered, but that view is not allowed')
    for pattern, where in value.items():
        if not isinstance(where, str) or not where.strip():
            raise refuse("rows", f'the filter of rows for "{pattern}" is empty or no text')
        try:
            Query.parse("rows", where)
        except BadQuery as error:
            raise refuse("rows", f'the filter of rows for "{pattern}" cannot be read', error.hint) from None
    return tuple(sorted(value.items()))


def _patterns(value: Any, name: str) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or len(found) > MAX_NAMES:
        raise _unclear(name, f"a list of at most {MAX_NAMES} names or patterns")
    for one in found:
        if not isinstance(one, str) or not _PATTERN.fullmatch(one):
            raise _unclear(name, "names, or patterns such as odds-*")
    return tuple(found)


def _limits(value: Any) -> Limits:
    if value is None:
        return Limits()
    names = Limits.__slots__
    good = isinstance(value, dict) and all(
        name in names and isinstance(number, int) and not isinstance(number, bool) and number >= 0
        for name, number in value.items()
    )
    if not good:
        raise _unclear("limits", f"an object of whole numbers for {', '.join(names)}")
    return Limits(**value)


def _flag(claims: Mapping[str, Any], name: str) -> bool:
    value = claims.get(name, False)
    if not isinstance(value, bool):
        raise _unclear(name, "true or false")
    return value


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _ms(seconds: Any) -> int | None:
    return None if seconds is None else int(seconds * 1000)


def _unclear(name: str, wanted: str) -> TokenRefused:
    return refuse("claims", f'"{name}" cannot be read', f"it must be {wanted}")
