"""The grants that apply to one subscription: that of its connection, and that of its own token."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from distributary.auth.grant import OPEN, Grant, Operator
from distributary.errors import BadQuery, Forbidden
from distributary.model.field_mask import FieldMask
from distributary.model.filter import Path
from distributary.model.position import Position
from distributary.model.query import Query

_SEPARATOR = "~"
_RANDOM = 8


@dataclass(frozen=True, slots=True)
class GrantSet:
    """One or several grants, which allow what all of them allow. The user is that of the first."""

    grants: tuple[Grant, ...] = (OPEN,)

    @property
    def user(self) -> str:
        """The user; "" if authorization is off."""
        return self.grants[0].user

    def require_view(self, name: str) -> None:
        """Raise Forbidden unless all grants allow the view."""
        for grant in self.grants:
            grant.require_view(name)

    def narrow(self, query: Query) -> Query:
        """Return the query that is served in place of the requested one: with no row that is not allowed.

        Raises Forbidden for its view, or for a field that it filters or orders by; or BadQuery if the filters
        together are too large.
        """
        self._check(query, query.looks_at())
        for where in self._filters(query.view):
            query = query.narrowed(where)
        return query

    def covers(self, query: Query) -> bool:
        """True if a query that was registered before has no more rows than are allowed.

        That is if narrowing it changes nothing; so a channel or a subscription of another user is usable only
        by those with the same filter, who may see the fields that the rest of the query reads.
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

    def visible_fields(self, view: str, requested: FieldMask | None) -> FieldMask | None:
        """Return those of the requested fields that the user may see; None: all fields."""
        for grant in self.grants:
            visible = grant.visible_fields(view)
            if visible is not None:
                requested = visible if requested is None else requested.within(visible)
        return requested

    def allows_same_rows(self, other: GrantSet) -> bool:
        """True if another set allows the same rows and fields, by identical claims."""
        return [(one.views, one.rows, one.columns) for one in self.grants] == [
            (one.views, one.rows, one.columns) for one in other.grants
        ]

    def has_row_filter(self, view: str) -> bool:
        """True if some rows of a view are hidden from the user."""
        return bool(self._filters(view))

    def owns(self, subscription: str) -> bool:
        """True if a subscription was created for this user; an admin may use any."""
        admin = self.grants[0].operator >= Operator.ADMIN
        return not self.user or admin or _is_owner(self.user, subscription)

    def visible_epoch(self, view: str, epoch: str) -> str:
        """Return the epoch as the user sees it.

        A position is valid only for the rows and columns that it was sent with. It must not be resumed from
        under another filter, so the filter is part of the epoch.
        """
        visibility = self._visibility_id(view)
        return f"{epoch}{_SEPARATOR}{visibility}" if visibility else epoch

    def visible_position(self, view: str, position: Position) -> Position:
        """Return a position as the user sees it."""
        return Position(self.visible_epoch(view, position.epoch), position.seq)

    def store_position(self, view: str, visible: Position) -> Position:
        """Turn a position that the user was sent into the view's own; one of another filter gets no epoch."""
        visibility = self._visibility_id(view)
        if not visibility:
            return visible
        epoch, _, suffix = visible.epoch.rpartition(_SEPARATOR)
        return Position(epoch if suffix == visibility else "", visible.seq)

    def _check(self, query: Query, paths: Iterable[Path]) -> None:
        for grant in self.grants:
            grant.require_view(query.view)
            grant.require_fields(query.view, paths)

    def _visibility_id(self, view: str) -> str:
        visible = self.visible_fields(view, None)
        return _visibility_id(view, self._filters(view), visible.text if visible is not None else "")

    def _filters(self, view: str) -> tuple[str, ...]:
        return tuple(where for grant in self.grants for where in grant.row_filters(view))


@lru_cache(4096)
def _visibility_id(view: str, filters: tuple[str, ...], columns: str) -> str:
    """Identify the visible rows and columns of a view, however they were written; "" for all of it."""
    query = Query(view)
    for where in filters:
        query = query.narrowed(where)
    if query.filter is None and not columns:
        return ""
    return hashlib.sha256(f"{query.id}\n{columns}".encode()).hexdigest()[:8]


EVERYTHING = GrantSet()
"""The grants of every caller if authorization is off."""


def owned_id(user: str) -> str:
    """Create the id of a user's subscription: a UUID that can be verified to be this user's.

    Half of it is random, half a hash of that and the user, so the owner need not be stored.
    """
    if not user:
        return str(uuid.uuid4())
    return _id(user, secrets.token_bytes(_RANDOM))


def _is_owner(user: str, subscription: str) -> bool:
    try:
        given = uuid.UUID(subscription)
    except ValueError:
        return False
    return str(given) == _id(user, given.bytes[:_RANDOM])


def _id(user: str, random: bytes) -> str:
    bits = bytearray(random)
    bits[6] = bits[6] & 0x0F | 0x80  # version 8: a format of one's own (RFC 9562)
    bits += hashlib.sha256(bytes(bits) + user.encode()).digest()[: 16 - _RANDOM]
    bits[8] = bits[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(bits)))
