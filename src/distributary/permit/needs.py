"""What an HTTP address may need, and how a caller that lacks it is told."""

from __future__ import annotations

from enum import Enum

from distributary.errors import AccessError, CredentialsMissing, Forbidden, TokenRefused
from distributary.permit.grant import Grant


class Need(Enum):
    """What a caller must have for an address."""

    OPEN = "nothing: it says nothing of the views"
    USER = "any token or key; the handler looks which views it sees"
    VIEW = "a grant that sees the view of the address"
    ROWS = "the same, and the handler narrows the query"
    MONITOR = "monitor, or admin"
    ADMIN = "admin"


def demand(grant: Grant, need: Need, view: str | None) -> None:
    """Raise Forbidden unless a grant has what an address needs; ``view`` is the one that it names."""
    if need in (Need.VIEW, Need.ROWS) and view is not None:
        grant.view(view)
    elif need is Need.ADMIN and not grant.admin:
        raise Forbidden(f'the user "{grant.user}" is no admin', hint="ask for a token with admin = true")
    elif need is Need.MONITOR and not (grant.monitor or grant.admin):
        raise Forbidden(
            f'the user "{grant.user}" may not monitor', hint="ask for a token with monitor = true"
        )


def challenge(error: AccessError) -> str:
    """Write the header that says why a caller was refused (RFC 6750)."""
    said = 'Bearer realm="distributary"'
    if isinstance(error, CredentialsMissing):
        return said
    code = "invalid_token" if isinstance(error, TokenRefused) else "insufficient_scope"
    reason = f', error_description="{error.reason}"' if isinstance(error, TokenRefused) else ""
    return f'{said}, error="{code}"{reason}'
