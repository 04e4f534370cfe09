"""Who may do what: tokens, API keys, and the grant that each of them stands for.

A server creates one `Authenticator`, asks it for the `Grant` of every caller, and then asks the grant whether
this view may be read and which query is served in place of the requested one.
"""

from distributary.auth.addresses import check_exposure
from distributary.auth.authenticator import Authenticator
from distributary.auth.grant import OPEN, STACK, Grant, Limits, Operator
from distributary.auth.grant_set import EVERYTHING, GrantSet, owned_id

__all__ = [
    "EVERYTHING",
    "OPEN",
    "STACK",
    "Authenticator",
    "Grant",
    "GrantSet",
    "Limits",
    "Operator",
    "check_exposure",
    "owned_id",
]
