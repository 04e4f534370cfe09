"""The numbers a subscriber is told, in one place; clients act on their ranges.

Error codes answer one command; with ``temporary`` the client tries again by itself. Unsubscribe codes from
2500 on make the client subscribe again, lower ones do not. Close codes 3500 to 3999 mean "do not come back",
others mean "come back".
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
    """The answer to a command that was not done."""

    code: int
    message: str
    temporary: bool = False


class Ending(NamedTuple):
    """Why a connection or a subscription is over."""

    code: int
    reason: str


class Refused(Exception):
    """A join or a read was refused; ``refusal`` is what the subscriber is told."""

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
BUSY = Refusal(111, "too many requests: the first rows of others are being sent; try again", True)
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
"""Every ending a publisher closes a connection with."""


def building(reason: str) -> Refusal:
    """Say that a view has no rows to serve yet, and why."""
    return Refusal(BUILDING.code, f"the view is being built: {reason}" if reason else BUILDING.message, True)


def denied(why: str) -> Refusal:
    """Say what is not permitted."""
    return Refusal(PERMISSION_DENIED.code, f"permission denied: {why}")


def limited(what: str) -> Refusal:
    """Say of what there may not be more."""
    return Refusal(LIMIT_EXCEEDED.code, f"{LIMIT_EXCEEDED.message}: {what}")


def unwritten(why: str) -> Refusal:
    """Say why a message was not acknowledged; the client may try again."""
    return Refusal(INTERNAL.code, f"{INTERNAL.message}: {why}", True)


def unknown(what: str) -> Refusal:
    """Say which view, query or subscription is not there."""
    return Refusal(UNKNOWN_CHANNEL.code, f"unknown channel: {what}")


def too_many_rows(rows: int, most: int) -> Refusal:
    """Say that a query has more rows than are kept for an order or a pace."""
    why = f"the query has {rows:,} rows, and {most:,} are kept for an order or a pace; narrow its filter"
    return Refusal(LIMIT_EXCEEDED.code, f"{LIMIT_EXCEEDED.message}: {why}")


def not_available(what: str) -> Refusal:
    """Say what is not served."""
    return Refusal(NOT_AVAILABLE.code, f"{NOT_AVAILABLE.message}: {what}")


def bad_request(why: str) -> Refusal:
    """Say what is wrong with a request that may be corrected."""
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
    """Say how an error is told where it ends no more than one command."""
    found = protocol_error(error)
    if isinstance(found, Ending):
        return Refused(denied(found.reason))
    return Refused(found)
