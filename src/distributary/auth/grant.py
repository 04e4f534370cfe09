"""What somebody may do: a plain value, made from a token's claims or from an API key's settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from fnmatch import fnmatchcase

from distributary.errors import Forbidden
from distributary.model.field_mask import Fields
from distributary.model.filter import Path

OF_KEYS = "key:"
"""How the users begin that API keys stand for."""

_SHOW_TOKEN = "show the stack's own token: it is in the file `token` of its data folder"


class Operator(IntEnum):
    """How far somebody may go who looks after a stack; each level includes those before it."""

    NONE = 0
    READ = 1
    """Status, metrics, definitions, and what there is in Kafka and the registry; no records, no rows."""
    OPERATE = 2
    """End subscriptions, revoke users, set compatibility, delete schemas."""
    ADMIN = 3
    """Everything, functions in views included."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of something one may have; None is what the configuration allows everybody.

    ``channels`` of one connection and its ``rate`` of commands a second; ``queries``, ``connections`` and
    ``consumers`` of the user at a time, and its ``requests`` and ms of processor time (``cpu_ms``) in a
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
    ``produce`` and ``consume`` (topics, over HTTP), ``groups`` (consumer groups), ``subjects`` (to read
    schemas of) and ``register`` (subjects to register schemas under) are names or patterns with ``*``.
    ``rows`` pairs a pattern of views with the filter that every query of them is narrowed by, ``columns``
    with the only fields of them that are shown, filtered and ordered by. Times are ms since the epoch;
    ``expires_at`` None: never; ``issued_at`` None: nobody said. ``id`` is the token's own (its jti).
    ``revocable`` is whether revoking the user ends it. ``channel`` is the one channel that it is for, ''
    when it is for all.
    """

    user: str
    expires_at: int | None = None
    issued_at: int | None = None
    id: str = ""
    views: tuple[str, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, Fields], ...] = ()
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
        """Raise Forbidden unless its user may go as far as an operator of this level."""
        if self.operator < level:
            name = level.name.lower()
            raise Forbidden(
                f"{self._named} lacks operator rights: {name}",
                hint=f'ask for a token with operator = "{name}"' if self.user else _SHOW_TOKEN,
            )

    def may_read(self, name: str) -> bool:
        """Say whether it allows a view."""
        return fits(name, self.views)

    def require_view(self, name: str) -> None:
        """Raise Forbidden unless it allows the view; whether there is one of that name is not told."""
        if not self.may_read(name):
            raise Forbidden(
                f'{self._named} may not read the view "{name[:80]}"', hint="ask for a token that names it"
            )

    def require_define(self, name: str) -> None:
        """Raise Forbidden unless its user may define the view, or remove it."""
        if self.operator < Operator.ADMIN and not fits(name, self.define):
            raise self._forbidden(f'define the view "{name[:80]}"', "define")

    def require_publish(self, name: str) -> None:
        """Raise Forbidden unless it allows to publish to the feed."""
        if not fits(name, self.publish):
            raise self._forbidden(f'publish to the feed "{name[:80]}"', "publish")

    def require_produce(self, topic: str) -> None:
        """Raise Forbidden unless its user may write to a topic."""
        if self.operator < Operator.ADMIN and not _fits_topic(topic, self.produce):
            raise self._forbidden(f'produce to the topic "{topic[:80]}"', "produce")

    def require_consume(self, topic: str) -> None:
        """Raise Forbidden unless its user may read the records of a topic."""
        if self.operator < Operator.ADMIN and not _fits_topic(topic, self.consume):
            raise self._forbidden(f'consume the topic "{topic[:80]}"', "consume")

    def may_describe(self, topic: str) -> bool:
        """Say whether its user may learn of a topic: whoever uses it, or reads the status of the stack."""
        return self.operator >= Operator.READ or _fits_topic(topic, (*self.produce, *self.consume))

    def require_group(self, name: str) -> None:
        """Raise Forbidden unless its user may join a consumer group.

        Where nobody said which, those that are named after the user: whoever joins the group of another
        program takes records away from it.
        """
        own = self.groups or (_literal(self.user), f"{_literal(self.user)}.*")
        if self.operator < Operator.ADMIN and not fits(name, own):
            hint = "ask for a token whose groups name it"
            if not self.groups:
                hint = f'call it "{self.user}", or "{self.user}.NAME", or {hint}'
            raise Forbidden(f'{self._named} may not join the group "{name[:80]}"', hint=hint)

    def may_read_subject(self, name: str) -> bool:
        """Say whether its user may read the schemas of a subject; whoever uses a topic may read its own."""
        if self.operator >= Operator.READ or fits(name, (*self.subjects, *self.register)):
            return True
        topic, _, part = name.rpartition("-")
        return part in ("key", "value") and _fits_topic(topic, (*self.produce, *self.consume))

    def require_register(self, subject: str) -> None:
        """Raise Forbidden unless its user may register schemas under a subject."""
        if self.operator < Operator.ADMIN and not fits(subject, self.register):
            raise self._forbidden(f'register schemas under "{subject[:80]}"', "register")

    def row_filters(self, view: str) -> tuple[str, ...]:
        """List the filters that queries of a view are narrowed by."""
        return tuple(where for pattern, where in self.rows if fnmatchcase(view, pattern))

    def visible_fields(self, view: str) -> Fields | None:
        """Give the fields of a view that its user may see; None: all of them."""
        found: Fields | None = None
        for pattern, fields in self.columns:
            if fnmatchcase(view, pattern):
                found = fields if found is None else found.within(fields)
        return found

    def require_fields(self, view: str, paths: Iterable[Path]) -> None:
        """Raise Forbidden unless its user may filter and order the rows of a view by these fields."""
        shown = self.visible_fields(view)
        if shown is None:
            return
        for path in paths:
            if not shown.has(path):
                raise Forbidden(
                    f'{self._named} may not use the field "{".".join(path)[:80]}" of "{view[:80]}"',
                    hint="leave it out, or ask for a token whose columns name it",
                )

    def is_expired(self, now: int, leeway: float = 0.0) -> bool:
        """Say whether its time is over at ``now`` (ms), with a grace in seconds."""
        return self.expires_at is not None and now >= self.expires_at + leeway * 1000

    def is_revoked(self, before: int | None) -> bool:
        """Say whether revoking its user at ``before`` (ms, None: never) ended it.

        Tokens tell their time in whole seconds; of two things in one second the safer is taken, and a token
        that does not tell its time is as old as can be.
        """
        if before is None or not self.revocable:
            return False
        return self.issued_at is None or self.issued_at < before

    @property
    def _named(self) -> str:
        return f'the user "{self.user}"' if self.user else "a caller without the stack's token"

    def _forbidden(self, what: str, claim: str) -> Forbidden:
        hint = f"ask for a token whose {claim} names it" if self.user else _SHOW_TOKEN
        return Forbidden(f"{self._named} may not {what}", hint=hint)


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
"""What every program of this machine may do where permission is off: use the stack, and not change it."""

STACK = Grant(user="distributary", views=("*",), publish=("*",), operator=Operator.ADMIN, revocable=False)
"""What the stack's own token stands for: everything."""


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Say whether a name is one of these, or like one with ``*`` in it."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _fits_topic(topic: str, patterns: Iterable[str]) -> bool:
    """As `fits`, but what begins with an underscore is Kafka's or a tool's own, and must be named in full."""
    if topic.startswith("_"):
        return topic in patterns
    return fits(topic, patterns)


def _literal(name: str) -> str:
    """Write a name as a pattern that only it fits."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
