from __future__ import annotations

import pytest

from distributary.gateway.request_fields import instead


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("valeu", ("key", "value"), 'did you mean "value"? it takes key, value'),
        ("KEY", ("key", "value"), 'did you mean "key"? it takes key, value'),
        ("elephant", ("key", "value"), "it takes key, value"),
        ("x", (), "it takes none"),
    ],
)
def test_nearest_name_comes_first(name: str, known: tuple[str, ...], said: str) -> None:
    assert instead(name, known) == said
