from __future__ import annotations

import pytest

from distributary.gateway.request_fields import suggestion


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("valeu", ("key", "value"), 'did you mean "value"? accepted: key, value'),
        ("KEY", ("key", "value"), 'did you mean "key"? accepted: key, value'),
        ("elephant", ("key", "value"), "accepted: key, value"),
        ("x", (), "none are accepted"),
    ],
)
def test_suggestion_lists_nearest_name_first(name: str, known: tuple[str, ...], expected: str) -> None:
    assert suggestion(name, known) == expected
