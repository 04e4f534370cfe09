"""Who may do what: tokens, API keys, and the grant that each of them stands for.

A server makes one `Gate`, asks it for the `Grant` of every caller, and then asks the grant: may this view be
read, and which query is served in place of the one asked for. `told` says how a refusal is told to a
subscriber.
"""

from distributary.permit.exposure import check_exposure
from distributary.permit.gate import Gate
from distributary.permit.grant import OPEN, STACK, Grant, Limits, Operator
from distributary.permit.held import EVERYTHING, Held, owned_id
from distributary.permit.needs import Need, challenge, demand
from distributary.permit.pages import PageRules
from distributary.permit.told import Told, told

__all__ = [
    "EVERYTHING",
    "OPEN",
    "STACK",
    "Gate",
    "Grant",
    "Held",
    "Limits",
    "Need",
    "Operator",
    "PageRules",
    "Told",
    "challenge",
    "check_exposure",
    "demand",
    "owned_id",
    "told",
]
