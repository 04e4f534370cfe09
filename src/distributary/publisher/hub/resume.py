"""When is a resume true? (R17) Pure."""

from __future__ import annotations

from typing import NamedTuple

from distributary.model.position import Position
from distributary.store.store_types import QueryState


class Recover(NamedTuple):
    """What the subscriber missed is exactly the query's part of the log after ``after``."""

    after: int


class Anew(NamedTuple):
    """Something between may be missing, or the count is another: the state must be read anew."""

    reason: str


def decide(client: Position, state: QueryState) -> Recover | Anew:
    """Compare where a client stands with what the store knows of its query.

    A query that had no change since the client's position is resumed even when the log no longer reaches
    back that far; what may come after the state was read is then what it missed.
    """
    if client.epoch != state.epoch:
        return Anew("another epoch")
    if client.seq > state.seq:
        return Anew("a position ahead of the view")
    if client.seq < state.since:
        return Anew("a position before the query was known")
    if client.seq >= state.floor:
        return Recover(client.seq)
    if state.last <= client.seq:
        return Recover(state.seq)
    return Anew("the log does not reach back that far")
