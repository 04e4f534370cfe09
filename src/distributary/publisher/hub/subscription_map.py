"""Who is here, by subscription. Nearly always one connection has one; several may share it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class Subscribed(Protocol):
    """What is kept here."""

    subscription: str


M = TypeVar("M", bound=Subscribed)


class Members(Generic[M]):
    """A place for each; what more than one costs is paid only where there is more than one."""

    def __init__(self) -> None:
        self._first: dict[str, M] = {}
        self._more: dict[str, list[M]] = {}

    def add(self, member: M) -> None:
        """Take a member in; again: nothing."""
        first = self._first.setdefault(member.subscription, member)
        if first is not member:
            more = self._more.setdefault(member.subscription, [])
            if not any(one is member for one in more):
                more.append(member)

    def discard(self, member: M) -> None:
        """Forget a member, if it is here."""
        id = member.subscription
        more = self._more.get(id, [])
        if self._first.get(id) is member:
            if more:
                self._first[id] = more.pop(0)
            else:
                del self._first[id]
        else:
            more[:] = [one for one in more if one is not member]
        if not more:
            self._more.pop(id, None)

    def of(self, id: str) -> tuple[M, ...]:
        """All that have a subscription."""
        first = self._first.get(id)
        return () if first is None else (first, *self._more.get(id, ()))

    def ids(self) -> list[str]:
        """The subscriptions, each once."""
        return list(self._first)

    def __iter__(self) -> Iterator[M]:
        """Give each that is here now; they may leave meanwhile."""
        return iter([*self._first.values(), *(one for more in self._more.values() for one in more)])

    def __contains__(self, member: M) -> bool:
        return any(one is member for one in self.of(member.subscription))

    def __len__(self) -> int:
        return len(self._first) + sum(map(len, self._more.values()))
