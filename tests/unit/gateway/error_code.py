from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distributary.errors import GatewayError


def error_code(call: Callable[..., Any], *args: Any) -> int | None:
    """Return the error code that a call raises; None if it succeeds."""
    try:
        call(*args)
    except GatewayError as error:
        return error.error_code
    return None
