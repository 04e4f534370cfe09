"""What callbacks raise, kept until the call that ran them is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")


class Raised:
    """Keeps the first exception of the callbacks that it guards.

    confluent_kafka loses an exception that comes out of a callback which has called the client itself, as one
    that finds out where to begin does: a Ctrl-C at that moment would be forgotten.
    """

    def __init__(self) -> None:
        self._first: BaseException | None = None

    def guard(self, callback: Callable[P, None]) -> Callable[P, None]:
        """A callback that raises nothing."""

        def guarded(*words: P.args, **named: P.kwargs) -> None:
            try:
                callback(*words, **named)
            except BaseException as error:
                self._first = self._first or error

        return guarded

    def again(self) -> None:
        """Raise what was kept, once."""
        error, self._first = self._first, None
        if error is not None:
            raise error
