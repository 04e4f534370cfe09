from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from distributary.config import Control, Publisher
from distributary.errors import HostRefused, OriginRefused
from distributary.httpd.cors import OriginPolicy, origin_allowed

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
def test_origin_of_the_own_host_is_allowed(origin: str | None) -> None:
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
def test_other_origin_is_refused(origin: str) -> None:
    assert not origin_allowed(origin, "own.example.com:8000", LISTED)


def test_asterisk_allows_every_origin() -> None:
    assert origin_allowed("https://evil.example", "own.example.com", ["*"])
    assert origin_allowed("null", "own.example.com", ["*"])


@pytest.mark.parametrize("page", ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:5173"])
def test_the_names_of_the_own_machine_are_one_host(page: str) -> None:
    assert origin_allowed(page, "localhost:8000", [])
    assert not origin_allowed(page, "own.example.com", [])


label = st.text("abcdefgh", min_size=1, max_size=5)


@given(st.lists(label, min_size=1, max_size=3), st.lists(label, min_size=1, max_size=3))
def test_wildcard_matches_only_hosts_below_its_domain(page: list[str], domain: list[str]) -> None:
    host, below = ".".join(page), ".".join(domain)
    got = origin_allowed(f"https://{host}", "own.example.com", [f"https://*.{below}"])
    assert got == (len(page) > len(domain) and page[-len(domain) :] == domain)


@given(st.text(), st.text(), st.lists(st.text()))
def test_any_strings_are_decided(origin: str, host: str, origins: list[str]) -> None:
    origin_allowed(origin, host, origins)


OURS = Control(host="127.0.0.1", hosts=("stream.example.com",), origins=("https://app.example.com",))
CROSS = {"Sec-Fetch-Site": "cross-site"}


def served(headers: dict[str, str], server: Control | Publisher = OURS) -> bool:
    try:
        OriginPolicy("control", server).check(CIMultiDict(headers))
    except (HostRefused, OriginRefused):
        return False
    return True


@pytest.mark.parametrize(
    "host",
    ["localhost:8080", "127.0.0.1", "[::1]:8080", "LOCALHOST", "a.localhost", "stream.example.com", ""],
)
def test_own_host_names_are_accepted(host: str) -> None:
    assert served({"Host": host})


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "example.com",
        "evil@localhost",
        "[",
    ],
)
def test_name_of_somebody_else_is_refused_on_loopback(host: str) -> None:
    """So that a page whose domain came to mean this machine is not of our own origin."""
    for origin in ({}, {"Origin": f"http://{host}"}):
        with pytest.raises(HostRefused, match="not a host name of this server") as caught:
            OriginPolicy("control", OURS).check(CIMultiDict({"Host": host, **origin}))
        assert "control.hosts" in caught.value.hint


def test_server_on_the_network_may_be_called_by_any_name() -> None:
    assert served({"Host": "other.example"}, Control(host="0.0.0.0"))


def test_advertised_name_is_the_servers_own() -> None:
    server = Publisher(advertised_url="wss://live.example.com/ws")
    assert served({"Host": "live.example.com"}, server)
    assert not served({"Host": "other.example.com"}, server)


@pytest.mark.parametrize(
    ("headers", "good"),
    [
        ({"Origin": "https://app.example.com"}, True),
        ({"Origin": "https://app.example.com", **CROSS}, True),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"}, True),
        (CROSS, False),
        ({**CROSS, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, False),
        ({**CROSS, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, False),
        ({**CROSS, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
    ],
)
def test_pages_of_other_sites_are_refused_unless_they_are_listed(headers: dict[str, str], good: bool) -> None:
    assert served({"Host": "localhost:8080", **headers}) is good
