from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from distributary.config import Control
from distributary.httpd.connection_limits import Connections


def tally(**settings: Any) -> Connections:
    return Connections(Control(**settings))


def forwarded(*lines: str) -> CIMultiDict[str]:
    """Write the header as proxies do, which may leave a client's own line above theirs."""
    return CIMultiDict(("x-forwarded-for", line) for line in lines)


def test_connections_over_the_total_are_refused_until_one_leaves() -> None:
    connections = tally(max_connections=2)
    first = connections.enter("192.0.2.1")
    assert first is not None
    assert connections.enter("192.0.2.2") is not None
    assert connections.enter("192.0.2.3") is None
    assert connections.refused == {"total": 1}
    connections.leave(first)
    assert connections.enter("192.0.2.3") is not None
    assert connections.open == 2


def test_connections_of_one_address_are_bounded_and_others_are_not_harmed() -> None:
    connections = tally(max_connections_per_address=2)
    held = [connections.enter("192.0.2.1") for _ in range(2)]
    assert connections.enter("192.0.2.1") is None
    assert connections.refused == {"address": 1}
    assert connections.open == 2
    assert connections.enter("192.0.2.2") is not None
    connections.leave(held[0] or "")
    assert connections.enter("192.0.2.1") is not None


def test_ipv6_addresses_of_one_network_are_one_client() -> None:
    connections = tally(max_connections_per_address=1)
    assert connections.enter("2001:db8:0:1::1") is not None
    assert connections.enter("2001:db8:0:1:ffff::9") is None
    assert connections.enter("2001:db8:0:2::1") is not None


def test_ipv4_addresses_mapped_to_ipv6_are_themselves() -> None:
    connections = tally(max_connections_per_address=1)
    assert connections.enter("::ffff:192.0.2.1") is not None
    assert connections.enter("192.0.2.1") is None
    assert connections.enter("::ffff:192.0.2.2") is not None


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1"])
def test_loopback_addresses_are_exempt_unless_told_otherwise(address: str) -> None:
    connections = tally(max_connections_per_address=1)
    assert [connections.enter(address) for _ in range(3)] == ["", "", ""]
    strict = Connections(Control(max_connections_per_address=1), exempt_loopback=False)
    assert strict.enter(address)
    assert strict.enter(address) is None


def test_forwarded_addresses_do_not_count_without_a_trusted_proxy() -> None:
    connections = tally(max_connections_per_address=1)
    headers = forwarded("203.0.113.9")
    assert connections.client_address("192.0.2.1", headers) == "192.0.2.1"
    assert connections.begin("192.0.2.1", headers) == ""
    assert connections.begin("192.0.2.1", headers) == ""


@pytest.mark.parametrize(
    ("lines", "client"),
    [
        (["203.0.113.9"], "203.0.113.9"),
        (["6.6.6.6, 203.0.113.9"], "203.0.113.9"),  # the left one was sent by the client itself
        (["203.0.113.9, 10.0.0.8"], "203.0.113.9"),
        (["203.0.113.9:4711"], "203.0.113.9:4711"),
        (["[2001:db8::1]:4711, 10.0.0.8"], "[2001:db8::1]:4711"),
        (["6.6.6.6", "203.0.113.9"], "203.0.113.9"),  # as HAProxy adds its own
        (["6.6.6.6", "203.0.113.9, 10.0.0.8"], "203.0.113.9"),
        (["nonsense"], "10.0.0.7"),
        (["6.6.6.6, nonsense"], "10.0.0.7"),
        ([""], "10.0.0.7"),
        ([], "10.0.0.7"),
        (["10.0.0.9"], "10.0.0.9"),
    ],
)
def test_trusted_proxy_says_who_the_client_is(lines: list[str], client: str) -> None:
    connections = tally(trusted_proxies=("10.0.0.0/8",))
    assert connections.client_address("10.0.0.7", forwarded(*lines)) == client


def test_clients_behind_a_proxy_are_limited_by_requests_in_flight() -> None:
    connections = tally(trusted_proxies=("127.0.0.1/32",), max_connections_per_address=1)
    assert [connections.enter("127.0.0.1") for _ in range(3)] == ["", "", ""]
    first = connections.begin("127.0.0.1", forwarded("203.0.113.9"))
    assert first
    assert connections.begin("127.0.0.1", forwarded("203.0.113.9:99")) is None
    assert connections.begin("127.0.0.1", forwarded("203.0.113.8"))
    connections.end(first)
    assert connections.begin("127.0.0.1", forwarded("203.0.113.9"))


@given(st.lists(st.tuples(st.sampled_from(["192.0.2.1", "192.0.2.2", "127.0.0.1"]), st.booleans())))
def test_closed_connection_makes_room_for_another(events: list[tuple[str, bool]]) -> None:
    connections = tally(max_connections=3, max_connections_per_address=2)
    held: list[str] = []
    for address, leaves in events:
        if leaves and held:
            connections.leave(held.pop())
        elif not leaves and (client := connections.enter(address)) is not None:
            held.append(client)
        assert connections.open == len(held) <= 3
    for client in held:
        connections.leave(client)
    assert connections.open == 0
    assert all(connections.enter(address) is not None for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2"))
