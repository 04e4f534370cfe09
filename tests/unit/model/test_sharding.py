"""Which server stores a view."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.model.sharding import identity, shard_of

ADDRESSES = st.lists(st.integers(1, 50), min_size=1, max_size=6, unique=True).map(
    lambda numbers: [f"redis://store-{n}:6379/0" for n in numbers]
)
VIEWS = st.text("abcdefgh-_", min_size=1, max_size=12)


@given(ADDRESSES, VIEWS, st.randoms())
def test_shard_does_not_depend_on_the_order_of_the_list(
    addresses: list[str], view: str, random: object
) -> None:
    mixed = list(addresses)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert shard_of(view, mixed) == shard_of(view, addresses)


@given(ADDRESSES, VIEWS)
def test_added_server_only_takes_views(addresses: list[str], view: str) -> None:
    added = "redis://another:6379/0"
    assert shard_of(view, [*addresses, added]) in (added, shard_of(view, addresses))


def test_views_are_spread_evenly() -> None:
    addresses = [f"redis://store-{n}:6379/0" for n in range(4)]
    found = Counter(shard_of(f"view-{n}", addresses) for n in range(4_000))
    assert all(800 < found[address] < 1_200 for address in addresses), found


def test_shard_of_a_view_is_the_same_in_every_release() -> None:
    addresses = ["redis://a:6379/0", "redis://b:6379/0", "redis://c:6379/0"]
    assert [shard_of(view, addresses)[8] for view in ("odds", "bets", "matches", "players")] == list("ccba")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("redis://h", "redis://h:6379/0"),
        ("redis://:secret@h:6379/0", "redis://user:other@H:6379"),
        ("redis://h:6379/2", "rediss://h:6379?db=2&ssl_cert_reqs=none"),
        ("unix:///run/s.sock", "unix://user:word@/run/s.sock?db=0"),
    ],
)
def test_password_or_tls_does_not_move_a_view(one: str, other: str) -> None:
    assert identity(one) == identity(other)


def test_different_servers_and_databases_have_different_identities() -> None:
    addresses = ["redis://h", "redis://h:6380", "redis://g", "redis://h/1", "unix:///h", "unix:///h?db=1"]
    assert len({identity(address) for address in addresses}) == len(addresses)
