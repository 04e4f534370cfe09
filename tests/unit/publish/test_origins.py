"""Which pages may connect."""

from __future__ import annotations

import pytest

from distributary.publish.origins import allowed


@pytest.mark.parametrize(
    ("origin", "host", "origins", "may"),
    [
        (None, "h:1", (), True),
        ("http://h:2", "h:1", (), True),
        ("http://localhost:3", "127.0.0.1:1", (), True),
        ("http://[::1]:3", "localhost:1", (), True),
        ("http://H", "h", (), True),
        ("http://other", "h:1", (), False),
        ("http://h.evil", "h", (), False),
        ("null", "h", (), False),
        ("", "h", (), False),
        ("http://[bad", "h", (), False),
        ("http://localhost", "public.example", (), False),
        ("https://app", "h", ("https://app",), True),
        ("https://app:8443", "h", ("https://app",), False),
        ("https://any", "h", ("*",), True),
    ],
)
def test_allowed(origin: str | None, host: str, origins: tuple[str, ...], may: bool) -> None:
    assert allowed(origin, host, origins) is may
