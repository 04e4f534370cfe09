"""What a refused subscriber is told over the Centrifuge protocol, so that its client does the right thing."""

from __future__ import annotations

from typing import NamedTuple

from distributary.errors import CredentialsMissing, DistributaryError, Forbidden, TokenExpired, TokenRefused


class Told(NamedTuple):
    """A number of the protocol: ``close`` ends the connection, else it answers the one command.

    ``temporary`` makes a client try the same again.
    """

    code: int
    message: str
    close: bool = False
    temporary: bool = False


TOKEN_EXPIRED = Told(109, "token expired")
"""The client gets another token and comes back."""
PERMISSION_DENIED = Told(103, "permission denied")
UNAVAILABLE = Told(100, "internal server error", temporary=True)
INVALID_TOKEN = Told(3500, "invalid token", close=True)
"""The client does not come back."""
EXPIRED = Told(3005, "connection expired", close=True)
"""A connection outlived its token; the client comes back with another."""


def told(error: DistributaryError, *, connected: bool = False) -> Told:
    """Say how an error of a `Gate` or a `Grant` is told; ``connected`` is for one that was let in before.

    A token is missing or wrong for good: 3500. It is expired: 109, or 3005 for a connection that is open. A
    view or feed is not allowed: 103. What could not be asked (keys, the store) may be tried again: 100.
    """
    if isinstance(error, TokenExpired):
        return EXPIRED if connected else TOKEN_EXPIRED
    if isinstance(error, Forbidden):
        return PERMISSION_DENIED
    if error.retry:
        return UNAVAILABLE
    if isinstance(error, CredentialsMissing):
        return INVALID_TOKEN._replace(message="a token or an API key is needed")
    if isinstance(error, TokenRefused):
        revoked = error.reason == "revoked"
        return INVALID_TOKEN._replace(
            message="token revoked" if revoked else f"invalid token: {error.reason}"
        )
    return INVALID_TOKEN
