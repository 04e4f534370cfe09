"""What callbacks raise comes later, once."""

from __future__ import annotations

import pytest

from distributary.client.callback_errors import Raised


def test_the_first_is_raised_again_once() -> None:
    raised = Raised()
    heard: list[int] = []

    def callback(n: int) -> None:
        heard.append(n)
        if n:
            raise KeyboardInterrupt(n)

    guarded = raised.guard(callback)
    for n in (0, 1, 2):
        guarded(n)
    assert heard == [0, 1, 2]
    with pytest.raises(KeyboardInterrupt, match="1"):
        raised.again()
    raised.again()
