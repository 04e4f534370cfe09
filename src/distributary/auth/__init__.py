"""Who may do what: tokens, API keys, and the grant that each of them stands for.

A server makes one `Gate`, asks it for the `Grant` of every caller, and then asks the grant: may this view be
read, and which query is served in place of the one asked for. `told` says how a refusal is told to a
subscriber.
"""

from distributary.auth.authenticator import Gate
from distributary.auth.bind_check import check_exposure
from distributary.auth.grant import OPEN, STACK, Grant, Limits, Operator
from distributary.auth.grant_set import EVERYTHING, Held, owned_id
from distributary.auth.told import Told, told

__all__ = [
    "EVERYTHING",
    "OPEN",
    "STACK",
    "Gate",
    "Grant",
    "Held",
    "Limits",
    "Operator",
    "Told",
    "check_exposure",
    "owned_id",
    "told",
]
