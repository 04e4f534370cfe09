"""What an HTTP address may need, and how a caller that lacks it is told."""

from __future__ import annotations

from enum import Enum

from distributary.auth.grant import Grant, Operator
from distributary.errors import AccessError, CredentialsMissing, TokenRefused


class Need(Enum):
    """What a caller must have for an address."""

    OPEN = "nothing: it says nothing of the views"
    USER = "any token or key; the handler looks which views it sees"
    VIEW = "a grant that sees the view of the address"
    ROWS = "the same, and the handler narrows the query"
    DEFINE = "`define` that names the view, or operator rights: admin"
    READ = "operator rights: read"
    OPERATE = "operator rights: operate"
    ADMIN = "operator rights: admin"


_LEVELS = {Need.READ: Operator.READ, Need.OPERATE: Operator.OPERATE, Need.ADMIN: Operator.ADMIN}


def demand(grant: Grant, need: Need, view: str | None) -> None:
    """Raise Forbidden unless a grant has what an address needs; ``view`` is the one that it names."""
    if need in _LEVELS:
        grant.require_operator(_LEVELS[need])
    elif view is not None and need is Need.DEFINE:
        grant.require_define(view)
    elif view is not None and need in (Need.VIEW, Need.ROWS):
        grant.require_view(view)


def challenge(error: AccessError) -> str:
    """Write the header that says why a caller was refused (RFC 6750)."""
    said = 'Bearer realm="distributary"'
    if isinstance(error, CredentialsMissing):
        return said
    code = "invalid_token" if isinstance(error, TokenRefused) else "insufficient_scope"
    reason = f', error_description="{error.reason}"' if isinstance(error, TokenRefused) else ""
    return f'{said}, error="{code}"{reason}'
