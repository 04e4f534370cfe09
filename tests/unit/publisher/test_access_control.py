from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from tests.support.fake_view import until
from tests.support.signed_tokens import NOW, SECRET

from distributary.auth import OPEN, Authenticator, Grant
from distributary.config import Auth, Config
from distributary.errors import TokenRefused
from distributary.publisher.access_control import SessionRegistry

MS = int(NOW * 1000)
ANN = Grant("ann", issued_at=MS, expires_at=MS + 60_000)
BOB = Grant("bob", issued_at=MS, expires_at=MS + 600_000)
KEY = Grant("key:a", revocable=False)


class Guest:
    """A holder that leaves when it is revoked."""

    def __init__(self, registry: SessionRegistry, grant: Grant) -> None:
        self.reasons: list[str] = []
        self.registry, self.grant = registry, grant
        registry.add(grant, self)

    def revoke(self, error: TokenRefused) -> None:
        self.reasons.append(error.reason)
        self.registry.remove(self.grant, self)


class Case:
    def __init__(self) -> None:
        self.now = NOW
        self.down = False
        self.revoked: dict[str, int] = {}
        auth = Auth(hmac_secret=SECRET, leeway=10.0, revocation_delay=0.0)
        self.registry = SessionRegistry(
            Authenticator(Config(auth=auth), self._read, clock=lambda: self.now), interval=0.001
        )

    async def _read(self, users: Sequence[str]) -> dict[str, int]:
        if self.down:
            raise RedisConnectionError("gone")
        return {user: self.revoked[user] for user in users if user in self.revoked}


async def test_sessions_end_with_their_grant() -> None:
    case = Case()
    first, second, other = Guest(case.registry, ANN), Guest(case.registry, ANN), Guest(case.registry, BOB)
    case.now += 69
    await case.registry.check()
    assert not first.reasons
    case.now += 1
    await case.registry.check()
    await case.registry.check()
    assert (first.reasons, second.reasons, other.reasons) == (["expired"], ["expired"], [])
    case.revoked["bob"] = MS + 1
    await case.registry.check()
    assert other.reasons == ["revoked"]
    assert len(case.registry) == 0


async def test_expired_sessions_end_while_the_store_is_down() -> None:
    case = Case()
    over, stays = Guest(case.registry, ANN), Guest(case.registry, BOB)
    case.down, case.now = True, NOW + 70
    await case.registry.check()
    assert (over.reasons, stays.reasons) == (["expired"], [])
    case.down, case.revoked = False, {"bob": MS + 1}
    await case.registry.check()
    assert stays.reasons == ["revoked"]


async def test_sessions_that_left_or_cannot_end_are_not_tracked() -> None:
    case = Case()
    for grant in (OPEN, KEY):
        Guest(case.registry, grant)
    assert len(case.registry) == 0
    guest = Guest(case.registry, ANN)
    case.registry.remove(ANN, guest)
    case.registry.remove(ANN, guest)
    case.now += 1000
    await case.registry.check()
    assert not guest.reasons


async def test_checks_go_on_after_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    case = Case()
    guest = Guest(case.registry, ANN)
    broken = True

    def revoke(error: TokenRefused) -> None:
        if broken:
            raise RuntimeError("no")
        Guest.revoke(guest, error)

    guest.revoke = revoke  # type: ignore[method-assign]
    case.now += 1000
    running = asyncio.create_task(case.registry.run())
    await until(lambda: caplog.records)
    broken = False
    await until(lambda: guest.reasons == ["expired"])
    running.cancel()
