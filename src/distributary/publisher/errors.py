"""Errors of permission in the words of the wire, and what a subscriber's query becomes under its grants."""

from __future__ import annotations

from dataclasses import replace

from distributary.auth import Grant, Held, told
from distributary.auth.limiter import Limiter
from distributary.auth.usage_counts import Share
from distributary.errors import (
    AccessError,
    DistributaryError,
    Forbidden,
    LimitExceeded,
    StoreUnavailable,
    TooManyRequests,
)
from distributary.model.query import Query
from distributary.model.query_plan import is_expensive
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending, Refusal, Refused
from distributary.publisher.hub.channel_query import Asked


def answer(error: DistributaryError, *, connected: bool = False) -> Refusal | Ending:
    """Say how an error of a gate or a grant is told: as an answer to the command, or by the end of all."""
    if isinstance(error, LimitExceeded):
        return Refusal(codes.LIMIT_EXCEEDED.code, error.message)
    if isinstance(error, TooManyRequests):
        return Refusal(codes.TOO_MANY_REQUESTS.code, error.message, True)
    said = told(error, connected=connected)
    if said.close:
        return Ending(said.code, said.message)
    if isinstance(error, Forbidden):
        return codes.denied(error.message)
    return Refusal(said.code, said.message, said.temporary)


def refused(error: DistributaryError) -> Refused:
    """Say how an error is told where it ends no more than one command."""
    said = answer(error)
    if isinstance(said, Ending):
        return Refused(codes.denied(said.reason))
    return Refused(said)


async def counted(limiter: Limiter, grant: Grant, query: Query, address: str) -> list[Share]:
    """Count a query as its user's; gives what to give back when it ends. Raises Refused (106, 100).

    The user's own share is the first.
    """
    shares = limiter.query(grant, address, expensive=is_expensive(query)) if grant.user else []
    try:
        await limiter.usage.take(shares)
    except (LimitExceeded, StoreUnavailable) as error:
        raise refused(error) from None
    return shares


def narrowed(asked: Asked, held: Held) -> Asked:
    """Give what is served in place of what was asked for: which rows, and which fields of them.

    A query that is known by its id alone stays; the hub checks it once it has read it. Raises Refused, and
    BadQuery when the filters together are too much.
    """
    fields = held.fields(asked.view, asked.fields)
    try:
        if asked.query is None:
            held.view(asked.view)
            return replace(asked, fields=fields)
        query = held.narrow(asked.query)
    except AccessError as error:
        raise refused(error) from None
    return replace(asked, query=query, query_id=query.id, fields=fields)
