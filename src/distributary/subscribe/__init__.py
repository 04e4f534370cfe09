"""Stage 6: the Python subscriber, asynchronous (client.py) and synchronous (sync.py).

This package can be called: ``distributary.subscribe("odds")`` is ``distributary.subscribe.client.subscribe``.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributary.subscribe.client import Changes


class _Callable(ModuleType):
    # Python binds the name distributary.subscribe to this package as soon as any part of it is imported,
    # so that a function of that name would be there at some times and not at others.
    def __call__(self, *args: Any, **kwargs: Any) -> Changes:
        from distributary.subscribe.client import subscribe

        return subscribe(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
