"""How much one user has at a time, over all connections and streams of this process. Pure."""

from __future__ import annotations

from collections import Counter

from distributary.permit import Grant
from distributary.publish.wire import codes
from distributary.publish.wire.codes import Refused


class Quota:
    """Counts the queries that users hold here. Each publisher process counts for itself."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    def take(self, grant: Grant) -> None:
        """Note one query more; raises Refused (106) beyond the grant's limit."""
        most = grant.limits.queries
        if most is not None and self._held[grant.user] >= most:
            raise Refused(codes.limited(f"{most} queries of one user at a time"))
        self._held[grant.user] += 1

    def give(self, grant: Grant) -> None:
        """Note one query less."""
        self._held[grant.user] -= 1
        if not self._held[grant.user]:
            del self._held[grant.user]

    def of(self, user: str) -> int:
        """Say how many a user holds."""
        return self._held.get(user, 0)
