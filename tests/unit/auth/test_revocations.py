from __future__ import annotations

from collections.abc import Sequence

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from distributary.auth import revocations
from distributary.auth.revocations import Revocations
from distributary.errors import StoreUnavailable


class Store:
    def __init__(self, ttl: float = 1.0) -> None:
        self.now = 100.0
        self.moments: dict[str, int] = {}
        self.asked: list[Sequence[str]] = []
        self.fault: Exception | None = None
        self.revocations = Revocations(self.revoked, ttl=ttl, clock=lambda: self.now)

    async def revoked(self, users: Sequence[str]) -> dict[str, int]:
        self.asked.append(users)
        if self.fault:
            raise self.fault
        return {user: self.moments[user] for user in users if user in self.moments}


async def test_revocation_is_cached_for_its_ttl() -> None:
    store = Store()
    assert await store.revocations.revoked_at("ann") is None
    store.moments["ann"] = 5
    store.now += 0.9
    assert await store.revocations.revoked_at("ann") is None
    store.now += 0.1
    assert await store.revocations.revoked_at("ann") == 5
    assert store.asked == [["ann"], ["ann"]]


async def test_revocations_are_read_each_time_without_a_ttl() -> None:
    store = Store(ttl=0)
    await store.revocations.revoked_at("ann")
    store.moments["ann"] = 5
    assert await store.revocations.revoked_at("ann") == 5


@pytest.mark.parametrize("fault", [RedisConnectionError("gone"), OSError("gone"), TimeoutError()])
async def test_store_that_is_down_raises_instead_of_not_revoked(fault: Exception) -> None:
    store = Store()
    store.fault = fault
    with pytest.raises(StoreUnavailable):
        await store.revocations.revoked_at("ann")
    store.fault = None
    store.moments["ann"] = 5
    assert await store.revocations.revoked_at("ann") == 5


async def test_cache_of_revocations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revocations, "MAX_USERS", 3)
    store = Store()
    for user in "abcd":
        await store.revocations.revoked_at(user)
    for user in "bcd":
        await store.revocations.revoked_at(user)
    assert len(store.asked) == 4
    await store.revocations.revoked_at("a")
    assert len(store.asked) == 5


async def test_many_names_are_read_at_once_without_the_cache() -> None:
    store = Store()
    await store.revocations.revoked_at("ann")
    store.moments["ann"] = 5
    assert await store.revocations.read(["ann", "bob"]) == {"ann": 5}
