"""Who may do what: tokens, API keys, and the grant that each of them stands for.

A server makes one `Gate`, asks it for the `Grant` of every caller, and then asks the grant: may this view be
read, and which query is served in place of the one asked for. `told` says how a refusal is told to a
subscriber.
"""

from distributary.permit.exposure import check_exposure
from distributary.permit.gate import Gate
from distributary.permit.grant import OPEN, Grant, Limits
from distributary.permit.origins import origin_allowed
from distributary.permit.told import Told, told

__all__ = ["OPEN", "Gate", "Grant", "Limits", "Told", "check_exposure", "origin_allowed", "told"]
