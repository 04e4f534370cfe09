"""What a user may do: a plain value, created from a token's claims or an API key's settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from fnmatch import fnmatchcase

from distributary.errors import Forbidden
from distributary.model.field_mask import FieldMask
from distributary.model.filter import Path

API_KEY_PREFIX = "key:"
"""The prefix of the users that API keys stand for."""

_STACK_TOKEN_HINT = "send the stack's own token, which is in the file `token` of its data folder"


class Operator(IntEnum):
    """The rights of those who operate a stack; each level includes those before it."""

    NONE = 0
    READ = 1
    """Status, metrics, definitions, and what exists in Kafka and the registry; no records, no rows."""
    OPERATE = 2
    """End subscriptions, revoke users, set compatibility, delete schemas."""
    ADMIN = 3
    """Everything, including functions in views."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one user; None is the limit of the configuration.

    ``channels`` of a connection and its ``rate`` of commands per second; ``queries``, ``connections`` and
    ``consumers`` of the user at a time, and its ``requests`` and ms of processor time (``cpu_ms``) per
    second.
    """

    channels: int | None = None
    queries: int | None = None
    rate: int | None = None
    connections: int | None = None
    consumers: int | None = None
    requests: int | None = None
    cpu_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What one user may do.

    ``views``, ``define`` (views to define, without functions), ``publish`` (feeds, over WebSocket),
    ``produce`` and ``consume`` (topics, over HTTP), ``groups`` (consumer groups), ``subjects`` (whose schemas
    may be read) and ``register`` (subjects to register schemas under) are names or patterns with ``*``.
    ``rows`` pairs a pattern of views with the filter that narrows every query of them, ``columns`` with the
    only fields of them that are visible, and that queries may filter and order by. Times are ms since the
    epoch; ``expires_at`` None: never; ``issued_at`` None: unknown. ``id`` is the token's own (its jti).
    ``revocable`` is whether revoking the user ends it. ``channel`` is the only channel that it is valid for,
    "" if it is valid for all.
    """

    user: str
    expires_at: int | None = None
    issued_at: int | None = None
    id: str = ""
    views: tuple[str, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, FieldMask], ...] = ()
    limits: Limits = field(default_factory=Limits)
    publish: tuple[str, ...] = ()
    produce: tuple[str, ...] = ()
    consume: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    register: tuple[str, ...] = ()
    define: tuple[str, ...] = ()
    operator: Operator = Operator.NONE
    revocable: bool = True
    channel: str = ""

    def require_operator(self, level: Operator) -> None:
        """Raise Forbidden unless its user has this level of operator rights."""
        if self.operator < level:
            name = level.name.lower()
            raise Forbidden(
                f"{self._subject} lacks operator rights: {name}",
                hint=f'request a token with operator = "{name}"' if self.user else _STACK_TOKEN_HINT,
            )

    def may_read(self, name: str) -> bool:
        """True if it allows a view."""
        return matches_any(name, self.views)

    def require_view(self, name: str) -> None:
        """Raise Forbidden unless it allows the view, whether a view of that name exists or not."""
        if not self.may_read(name):
            raise Forbidden(
                f'{self._subject} may not read the view "{name[:80]}"', hint="request a token that names it"
            )

    def require_define(self, name: str) -> None:
        """Raise Forbidden unless its user may define or remove the view."""
        if self.operator < Operator.ADMIN and not matches_any(name, self.define):
            raise self._forbidden(f'define the view "{name[:80]}"', "define")

    def require_publish(self, name: str) -> None:
        """Raise Forbidden unless its user may publish to the feed."""
        if not matches_any(name, self.publish):
            raise self._forbidden(f'publish to the feed "{name[:80]}"', "publish")

    def require_produce(self, topic: str) -> None:
        """Raise Forbidden unless its user may write to a topic."""
        if self.operator < Operator.ADMIN and not _matches_topic(topic, self.produce):
            raise self._forbidden(f'produce to the topic "{topic[:80]}"', "produce")

    def require_consume(self, topic: str) -> None:
        """Raise Forbidden unless its user may read the records of a topic."""
        if self.operator < Operator.ADMIN and not _matches_topic(topic, self.consume):
            raise self._forbidden(f'consume the topic "{topic[:80]}"', "consume")

    def may_describe(self, topic: str) -> bool:
        """True if its user may know of a topic: it may produce or consume it, or has operator rights."""
        return self.operator >= Operator.READ or _matches_topic(topic, (*self.produce, *self.consume))

    def require_group(self, name: str) -> None:
        """Raise Forbidden unless its user may join a consumer group.

        By default these are the groups that are named after the user: a program that joins the group of
        another takes records away from it.
        """
        own = self.groups or (_literal(self.user), f"{_literal(self.user)}.*")
        if self.operator < Operator.ADMIN and not matches_any(name, own):
            hint = "request a token whose groups name it"
            if not self.groups:
                hint = f'call it "{self.user}", or "{self.user}.NAME", or {hint}'
            raise Forbidden(f'{self._subject} may not join the group "{name[:80]}"', hint=hint)

    def may_read_subject(self, name: str) -> bool:
        """True if its user may read the schemas of a subject, for example of a topic that it may use."""
        if self.operator >= Operator.READ or matches_any(name, (*self.subjects, *self.register)):
            return True
        topic, _, part = name.rpartition("-")
        return part in ("key", "value") and _matches_topic(topic, (*self.produce, *self.consume))

    def require_register(self, subject: str) -> None:
        """Raise Forbidden unless its user may register schemas under a subject."""
        if self.operator < Operator.ADMIN and not matches_any(subject, self.register):
            raise self._forbidden(f'register schemas under "{subject[:80]}"', "register")

    def row_filters(self, view: str) -> tuple[str, ...]:
        """List the filters that narrow the queries of a view."""
        return tuple(where for pattern, where in self.rows if fnmatchcase(view, pattern))

    def visible_fields(self, view: str) -> FieldMask | None:
        """Return the fields of a view that its user may see; None: all of them."""
        found: FieldMask | None = None
        for pattern, fields in self.columns:
            if fnmatchcase(view, pattern):
                found = fields if found is None else found.within(fields)
        return found

    def require_fields(self, view: str, paths: Iterable[Path]) -> None:
        """Raise Forbidden unless its user may filter and order the rows of a view by these fields."""
        visible = self.visible_fields(view)
        if visible is None:
            return
        for path in paths:
            if not visible.has(path):
                raise Forbidden(
                    f'{self._subject} may not use the field "{".".join(path)[:80]}" of "{view[:80]}"',
                    hint="leave it out, or request a token whose columns name it",
                )

    def is_expired(self, now: int, leeway: float = 0.0) -> bool:
        """True if it has expired at ``now`` (ms), with a leeway in seconds."""
        return self.expires_at is not None and now >= self.expires_at + leeway * 1000

    def is_revoked(self, before: int | None) -> bool:
        """True if revoking its user at ``before`` (ms, None: never) ended it.

        Tokens have their time in whole seconds; of two events in the same second the safer order is assumed,
        and a token without a time counts as older than any revocation.
        """
        if before is None or not self.revocable:
            return False
        return self.issued_at is None or self.issued_at < before

    @property
    def _subject(self) -> str:
        return f'the user "{self.user}"' if self.user else "a caller without the stack's token"

    def _forbidden(self, what: str, claim: str) -> Forbidden:
        hint = f"request a token whose {claim} names it" if self.user else _STACK_TOKEN_HINT
        return Forbidden(f"{self._subject} may not {what}", hint=hint)


OPEN = Grant(
    user="",
    views=("*",),
    publish=("*",),
    produce=("*",),
    consume=("*",),
    groups=("*",),
    register=("*",),
    operator=Operator.READ,
    revocable=False,
)
"""What every program of this machine may do if authorization is off: use the stack, but not change it."""

STACK = Grant(user="distributary", views=("*",), publish=("*",), operator=Operator.ADMIN, revocable=False)
"""What the stack's own token allows: everything."""


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """True if a name is one of these, or matches one with ``*`` in it."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _matches_topic(topic: str, patterns: Iterable[str]) -> bool:
    """As `matches_any`, but an internal topic, which starts with an underscore, must be named in full."""
    if topic.startswith("_"):
        return topic in patterns
    return matches_any(topic, patterns)


def _literal(name: str) -> str:
    """Write a name as a pattern that matches only this name."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
