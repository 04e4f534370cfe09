from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.permit.origins import origin_allowed

LISTED = ["https://app.example.com", "https://*.games.example.com", "http://*.local.example.com:8080"]


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "https://app.example.com",
        "https://app.example.com:443",
        "https://APP.example.com",
        "https://a.games.example.com",
        "https://a.b.games.example.com",
        "http://x.local.example.com:8080",
        "http://own.example.com:3000",
        "https://own.example.com",
    ],
)
def test_allowed(origin: str | None) -> None:
    assert origin_allowed(origin, "own.example.com:8000", LISTED)


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://app.example.com",
        "https://app.example.com:8443",
        "https://app.example.com.evil.example",
        "https://evil.example/https://app.example.com",
        "https://app.example.com@evil.example",
        "https://evilapp.example.com",
        "https://games.example.com",
        "https://.games.example.com",
        "https://evilgames.example.com",
        "https://games.example.com.evil.example",
        "http://a.games.example.com",
        "http://x.local.example.com",
        "https://own.example.com.evil.example",
        "https://own.example.com:port",
        "https://[::1",
        "//own.example.com/path",
    ],
)
def test_refused(origin: str) -> None:
    assert not origin_allowed(origin, "own.example.com:8000", LISTED)


def test_everybody() -> None:
    assert origin_allowed("https://evil.example", "own.example.com", ["*"])
    assert origin_allowed("null", "own.example.com", ["*"])


@pytest.mark.parametrize("page", ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:5173"])
def test_the_names_of_the_own_machine_are_one_host(page: str) -> None:
    assert origin_allowed(page, "localhost:8000", [])
    assert not origin_allowed(page, "own.example.com", [])


label = st.text("abcdefgh", min_size=1, max_size=5)


@given(st.lists(label, min_size=1, max_size=3), st.lists(label, min_size=1, max_size=3))
def test_a_wildcard_is_for_hosts_below_its_domain_only(page: list[str], domain: list[str]) -> None:
    host, below = ".".join(page), ".".join(domain)
    got = origin_allowed(f"https://{host}", "own.example.com", [f"https://*.{below}"])
    assert got == (len(page) > len(domain) and page[-len(domain) :] == domain)


@given(st.text(), st.text(), st.lists(st.text()))
def test_any_texts_give_an_answer(origin: str, host: str, origins: list[str]) -> None:
    origin_allowed(origin, host, origins)
