"""How a process ended, in words."""

from __future__ import annotations

import signal


def describe_exit(code: int) -> str:
    """Say an exit code in words; a negative one is a signal."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
