"""What one subscription is served under: the grant of its connection, and that of its own token."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from distributary.auth.grant import OPEN, Grant, Operator
from distributary.errors import BadQuery, Forbidden
from distributary.model.field_mask import Fields
from distributary.model.filter import Path
from distributary.model.position import Position
from distributary.model.query import Query

_SEPARATOR = "~"
_RANDOM = 8


@dataclass(frozen=True, slots=True)
class GrantSet:
    """One grant or several; only what all of them allow is allowed. The first says who the user is."""

    grants: tuple[Grant, ...] = (OPEN,)

    @property
    def user(self) -> str:
        """Who it is; '' where permission is off."""
        return self.grants[0].user

    def require_view(self, name: str) -> None:
        """Raise Forbidden unless all allow the view."""
        for grant in self.grants:
            grant.require_view(name)

    def narrow(self, query: Query) -> Query:
        """Give the query that is served in place of the one asked for: no row in it that is not allowed.

        Raises Forbidden for its view, or for a field that it is filtered or ordered by; or BadQuery when the
        filters together are too much.
        """
        self._check(query, query.looks_at())
        for where in self._filters(query.view):
            query = query.narrowed(where)
        return query

    def covers(self, query: Query) -> bool:
        """Say whether a query that was registered before asks for no more than is allowed.

        True where narrowing it changes nothing; so a channel or a subscription that another user made is of
        use only to those with the same filter, and who may see the fields that the rest of it looks at.
        """
        try:
            own = Query(query.view)
            narrow = query
            for where in self._filters(query.view):
                own, narrow = own.narrowed(where), narrow.narrowed(where)
            self._check(query, query.looks_at(own.terms))
        except (Forbidden, BadQuery):
            return False
        return narrow.text == query.text

    def visible_fields(self, view: str, wanted: Fields | None) -> Fields | None:
        """Give those of the wanted fields that the user may see; None: all fields."""
        for grant in self.grants:
            shown = grant.visible_fields(view)
            if shown is not None:
                wanted = shown if wanted is None else wanted.within(shown)
        return wanted

    def allows_same_rows(self, other: GrantSet) -> bool:
        """Say whether the same may be read under another, by the same words."""
        return [(one.views, one.rows, one.columns) for one in self.grants] == [
            (one.views, one.rows, one.columns) for one in other.grants
        ]

    def has_row_filter(self, view: str) -> bool:
        """Say whether some rows of a view are kept from the user."""
        return bool(self._filters(view))

    def owns(self, subscription: str) -> bool:
        """Say whether a subscription was made for this user; an admin may use any."""
        admin = self.grants[0].operator >= Operator.ADMIN
        return not self.user or admin or _whose(self.user, subscription)

    def visible_epoch(self, view: str, epoch: str) -> str:
        """Give the epoch as the user is told it.

        A position counts only for the rows and columns that it was told of. One that was told under another
        filter must not be resumed from, so the filter is part of it.
        """
        lens = self._lens(view)
        return f"{epoch}{_SEPARATOR}{lens}" if lens else epoch

    def visible_position(self, view: str, position: Position) -> Position:
        """Give a position as the user is told it: with the epoch of its row filter and columns."""
        return Position(self.visible_epoch(view, position.epoch), position.seq)

    def store_position(self, view: str, told: Position) -> Position:
        """Turn a position that the user was told into the view's own; another filter's is of no epoch."""
        lens = self._lens(view)
        if not lens:
            return told
        epoch, _, under = told.epoch.rpartition(_SEPARATOR)
        return Position(epoch if under == lens else "", told.seq)

    def _check(self, query: Query, paths: Iterable[Path]) -> None:
        for grant in self.grants:
            grant.require_view(query.view)
            grant.require_fields(query.view, paths)

    def _lens(self, view: str) -> str:
        shown = self.visible_fields(view, None)
        return _lens(view, self._filters(view), shown.text if shown is not None else "")

    def _filters(self, view: str) -> tuple[str, ...]:
        return tuple(where for grant in self.grants for where in grant.row_filters(view))


@lru_cache(4096)
def _lens(view: str, filters: tuple[str, ...], columns: str) -> str:
    """Name what rows and columns of a view are shown, however it was written; '' for all of it."""
    whole = Query(view)
    for where in filters:
        whole = whole.narrowed(where)
    if whole.filter is None and not columns:
        return ""
    return hashlib.sha256(f"{whole.id}\n{columns}".encode()).hexdigest()[:8]


EVERYTHING = GrantSet()
"""Where permission is off."""


def owned_id(user: str) -> str:
    """Make the id of a user's subscription: a UUID that can be told to be this user's, and nobody else's.

    Half of it is random, half a hash of that and the user, so nobody has to keep who made it.
    """
    if not user:
        return str(uuid.uuid4())
    return _id(user, secrets.token_bytes(_RANDOM))


def _whose(user: str, subscription: str) -> bool:
    try:
        given = uuid.UUID(subscription)
    except ValueError:
        return False
    return str(given) == _id(user, given.bytes[:_RANDOM])


def _id(user: str, random: bytes) -> str:
    bits = bytearray(random)
    bits[6] = bits[6] & 0x0F | 0x80  # version 8: what is in it is our own business (RFC 9562)
    bits += hashlib.sha256(bytes(bits) + user.encode()).digest()[: 16 - _RANDOM]
    bits[8] = bits[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(bits)))
