"""The codes of the client protocol, in one place; clients act on their ranges.

Error codes are replies to one command; with ``temporary`` the client tries again by itself. Unsubscribe codes
from 2500 on make the client subscribe again, lower ones do not. Close codes 3500 to 3999 mean "do not
reconnect", others mean "reconnect".
"""

from __future__ import annotations

from typing import NamedTuple

from distributary.errors import (
    CredentialsMissing,
    DistributaryError,
    Forbidden,
    LimitExceeded,
    TokenExpired,
    TokenRefused,
    TooManyRequests,
)


class Refusal(NamedTuple):
    """The error that a command is replied with."""

    code: int
    message: str
    temporary: bool = False


class Ending(NamedTuple):
    """Why a connection or a subscription has ended."""

    code: int
    reason: str


class Refused(Exception):
    """A join or a read was refused; ``refusal`` is the subscriber's reply."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


INTERNAL = Refusal(100, "internal server error", True)
UNKNOWN_CHANNEL = Refusal(102, "unknown channel")
NOT_SUBSCRIBED = Refusal(103, "permission denied: subscribe to the channel first")
PERMISSION_DENIED = Refusal(103, "permission denied")
TOKEN_EXPIRED = Refusal(109, "token expired")
METHOD_NOT_FOUND = Refusal(104, "method not found")
ALREADY_SUBSCRIBED = Refusal(105, "already subscribed")
LIMIT_EXCEEDED = Refusal(106, "limit exceeded")
BAD_REQUEST = Refusal(107, "bad request")
NOT_AVAILABLE = Refusal(108, "not available")
TOO_MANY_REQUESTS = Refusal(111, "too many requests", True)
BUSY = Refusal(111, "too many requests: other snapshots are being sent; try again", True)
UNRECOVERABLE = Refusal(112, "unrecoverable position")
BUILDING = Refusal(1100, "the view is being built; try again", True)

VIEW_DELETED = Ending(2000, "view deleted")
NOT_ALLOWED = Ending(2001, "not allowed any more")
ENDED = Ending(2002, "subscription ended")
INSUFFICIENT = Ending(2500, "insufficient state")
SUBSCRIPTION_EXPIRED = Ending(2501, "subscription expired")
ALLOWED_ROWS_CHANGED = Ending(2502, "allowed rows changed")

SHUTDOWN = Ending(3001, "shutdown")
EXPIRED = Ending(3005, "connection expired")
SLOW = Ending(3008, "slow")
NO_PONG = Ending(3012, "no pong")
FLOOD = Ending(3013, "too many requests")
INVALID_TOKEN = Ending(3500, "invalid token")
BAD_FRAME = Ending(3501, "bad request")
STALE = Ending(3502, "stale")

CLOSINGS = (SHUTDOWN, EXPIRED, SLOW, NO_PONG, FLOOD, INVALID_TOKEN, BAD_FRAME, STALE)
"""All endings with which a publisher closes connections."""


def building(reason: str) -> Refusal:
    """A view has no rows to serve yet."""
    return Refusal(BUILDING.code, f"the view is being built: {reason}" if reason else BUILDING.message, True)


def denied(why: str) -> Refusal:
    """Something is not permitted."""
    return Refusal(PERMISSION_DENIED.code, f"permission denied: {why}")


def limited(what: str) -> Refusal:
    """There may not be more of something."""
    return Refusal(LIMIT_EXCEEDED.code, f"{LIMIT_EXCEEDED.message}: {what}")


def unwritten(why: str) -> Refusal:
    """A message was not acknowledged; the client may try again."""
    return Refusal(INTERNAL.code, f"{INTERNAL.message}: {why}", True)


def unknown(what: str) -> Refusal:
    """A view, query or subscription does not exist."""
    return Refusal(UNKNOWN_CHANNEL.code, f"unknown channel: {what}")


def too_many_rows(rows: int, most: int) -> Refusal:
    """A query has more rows than may be materialized."""
    why = f"the query has {rows:,} rows; at most {most:,} are supported with an order or conflation"
    return Refusal(LIMIT_EXCEEDED.code, f"{LIMIT_EXCEEDED.message}: {why}")


def not_available(what: str) -> Refusal:
    """Something is not supported."""
    return Refusal(NOT_AVAILABLE.code, f"{NOT_AVAILABLE.message}: {what}")


def bad_request(why: str) -> Refusal:
    """A request is invalid."""
    return Refusal(BAD_REQUEST.code, f"bad request: {why}")


def protocol_error(error: DistributaryError, *, connected: bool = False) -> Refusal | Ending:
    """Turn an error of access control into a reply to the command, or into the end of the connection.

    ``connected`` is for a client whose connection was accepted before. The code decides what the client does
    next: it gets a new token when its own expired (109, or 3005 once connected), retries when a check could
    not be made (100), and does not reconnect when its token is missing or invalid (3500).
    """
    match error:
        case LimitExceeded():
            return Refusal(LIMIT_EXCEEDED.code, error.message)
        case TooManyRequests():
            return Refusal(TOO_MANY_REQUESTS.code, error.message, True)
        case TokenExpired():
            return EXPIRED if connected else TOKEN_EXPIRED
        case Forbidden():
            return denied(error.message)
        case DistributaryError(retry=True):
            return INTERNAL
        case CredentialsMissing():
            return Ending(INVALID_TOKEN.code, "a token or an API key is needed")
        case TokenRefused(reason="revoked"):
            return Ending(INVALID_TOKEN.code, "token revoked")
        case TokenRefused():
            return Ending(INVALID_TOKEN.code, f"invalid token: {error.reason}")
    return INVALID_TOKEN


def to_refused(error: DistributaryError) -> Refused:
    """Turn an error into one that ends no more than one command."""
    found = protocol_error(error)
    if isinstance(found, Ending):
        return Refused(denied(found.reason))
    return Refused(found)
