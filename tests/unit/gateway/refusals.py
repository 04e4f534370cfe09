from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distributary.errors import GatewayError


def refusal(call: Callable[..., Any], *args: Any) -> int | None:
    """The number that a call is refused with; None when it is not."""
    try:
        call(*args)
    except GatewayError as error:
        return error.number
    return None
