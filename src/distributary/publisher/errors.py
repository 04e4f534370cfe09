"""Errors of permission in the words of the wire, and what a subscriber's query becomes under its grants."""

from __future__ import annotations

from dataclasses import replace

from distributary.auth import Grant, GrantSet
from distributary.auth.limiter import Limiter
from distributary.auth.usage_counts import Share
from distributary.errors import (
    AccessError,
    CredentialsMissing,
    DistributaryError,
    Forbidden,
    LimitExceeded,
    StoreUnavailable,
    TokenExpired,
    TokenRefused,
    TooManyRequests,
)
from distributary.model.query import Query
from distributary.model.query_params import ChannelQuery
from distributary.model.query_plan import is_expensive
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending, Refusal, Refused


def answer(error: DistributaryError, *, connected: bool = False) -> Refusal | Ending:
    """Turn an error of access control into a reply to the command, or into the end of the connection.

    ``connected`` is for a client whose connection was accepted before. The code decides what the client does
    next: it gets a new token when its own expired (109, or 3005 once connected), retries when a check could
    not be made (100), and does not reconnect when its token is missing or invalid (3500).
    """
    match error:
        case LimitExceeded():
            return Refusal(codes.LIMIT_EXCEEDED.code, error.message)
        case TooManyRequests():
            return Refusal(codes.TOO_MANY_REQUESTS.code, error.message, True)
        case TokenExpired():
            return codes.EXPIRED if connected else codes.TOKEN_EXPIRED
        case Forbidden():
            return codes.denied(error.message)
        case DistributaryError(retry=True):
            return codes.INTERNAL
        case CredentialsMissing():
            return Ending(codes.INVALID_TOKEN.code, "a token or an API key is needed")
        case TokenRefused(reason="revoked"):
            return Ending(codes.INVALID_TOKEN.code, "token revoked")
        case TokenRefused():
            return Ending(codes.INVALID_TOKEN.code, f"invalid token: {error.reason}")
    return codes.INVALID_TOKEN


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


def narrowed(asked: ChannelQuery, held: GrantSet) -> ChannelQuery:
    """Give what is served in place of what was asked for: which rows, and which fields of them.

    A query that is known by its id alone stays; the hub checks it once it has read it. Raises Refused, and
    BadQuery when the filters together are too much.
    """
    fields = held.visible_fields(asked.view, asked.fields)
    try:
        if asked.query is None:
            held.require_view(asked.view)
            return replace(asked, fields=fields)
        query = held.narrow(asked.query)
    except AccessError as error:
        raise refused(error) from None
    return replace(asked, query=query, query_id=query.id, fields=fields)
