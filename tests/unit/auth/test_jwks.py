from __future__ import annotations

import asyncio
import logging

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.signed_tokens import ec_key, jwk, jwks

from distributary.auth.jwks import MAX_BYTES, RETRY, KeySet, fetch
from distributary.config import Auth
from distributary.errors import KeysUnavailable


class Address:
    """What answers a fetch, and how often it was asked."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.text: bytes | Exception = jwks(jwk(ec_key(), "a"))
        self.asked = 0
        self.keys = KeySet(self.fetch, ttl=600, refetch=30, clock=lambda: self.now)

    async def fetch(self) -> bytes:
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self.text, Exception):
            raise self.text
        return self.text

    async def kids(self) -> list[str | None]:
        return [key.kid for key in await self.keys.keys()]


async def test_keys_are_fetched_once_and_again_when_their_time_is_over() -> None:
    address = Address()
    assert await address.kids() == ["a"]
    address.text = jwks(jwk(ec_key(), "b"))
    address.now += 599
    assert (await address.kids(), address.asked) == (["a"], 1)
    address.now += 1
    assert (await address.kids(), address.asked) == (["b"], 2)


async def test_all_who_wait_share_one_fetch() -> None:
    address = Address()
    assert await asyncio.gather(*(address.kids() for _ in range(20))) == [["a"]] * 20
    assert address.asked == 1


async def test_one_who_goes_away_does_not_end_the_fetch_of_the_others() -> None:
    address = Address()
    first, second = asyncio.create_task(address.kids()), asyncio.create_task(address.kids())
    await asyncio.sleep(0)
    first.cancel()
    assert await second == ["a"]


@pytest.mark.parametrize("answer", [OSError("refused"), TimeoutError(), b"<html>", b'{"keys": 7}'])
async def test_old_keys_are_kept_while_the_address_does_not_answer(
    answer: bytes | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    address = Address()
    await address.kids()
    address.text = answer
    address.now += 600
    with caplog.at_level(logging.WARNING):
        assert await address.kids() == ["a"]
    assert "the old ones are kept" in caplog.text
    assert (await address.kids(), address.asked) == (["a"], 2), "not asked again at once"
    address.now += 30
    assert (await address.kids(), address.asked) == (["a"], 3)


async def test_old_keys_do_not_count_for_ever() -> None:
    """One of them may have been withdrawn, and whoever keeps the address from answering would keep it."""
    address = Address()
    address.keys = KeySet(address.fetch, ttl=600, refetch=30, max_age=3_600, clock=lambda: address.now)
    await address.kids()
    address.text = OSError("refused")
    address.now += 3_599
    assert await address.kids() == ["a"]
    address.now += 1
    with pytest.raises(KeysUnavailable, match="for too long"):
        await address.kids()
    address.text = jwks(jwk(ec_key(), "b"))
    address.now += 30
    assert await address.kids() == ["b"]


async def test_without_any_keys_it_is_an_error_that_may_pass() -> None:
    address = Address()
    good, address.text = address.text, OSError("refused")
    for _ in range(3):
        with pytest.raises(KeysUnavailable) as caught:
            await address.kids()
        assert caught.value.retry
    assert address.asked == 1
    address.text = good
    address.now += RETRY
    assert await address.kids() == ["a"]


async def test_unknown_keys_cause_a_fetch_now_and_then_only() -> None:
    address = Address()
    await address.kids()
    assert not await address.keys.newer(), "it was fetched just now"
    address.text = jwks(jwk(ec_key(), "b"))
    address.now += 30
    assert await address.keys.newer()
    assert await address.kids() == ["b"]
    for _ in range(100):
        assert not await address.keys.newer()
    assert address.asked == 2


async def test_an_empty_set_takes_the_place_of_the_old_one() -> None:
    """Somebody took all keys back: that is an answer, and not the same as none."""
    address = Address()
    await address.kids()
    address.text = jwks()
    address.now += 600
    assert await address.kids() == []


async def test_a_fetch_over_http() -> None:
    async def good(request: web.Request) -> web.Response:
        return web.Response(body=jwks(jwk(ec_key(), "a")))

    async def large(request: web.Request) -> web.Response:
        return web.Response(body=b" " * (MAX_BYTES + 1))

    async def elsewhere(request: web.Request) -> web.Response:
        raise web.HTTPFound("/good")

    async def slow(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    app = web.Application()
    app.add_routes(
        [web.get("/good", good), web.get("/large", large), web.get("/302", elsewhere), web.get("/slow", slow)]
    )
    async with TestServer(app) as server:
        keys = KeySet.of(Auth(jwks_url=str(server.make_url("/good"))))
        assert [key.kid for key in await keys.keys()] == ["a"]
        for path, said in (("/large", "bytes"), ("/302", "HTTP 302"), ("/none", "HTTP 404")):
            with pytest.raises(ValueError, match=said):
                await fetch(str(server.make_url(path)), 10)
        with pytest.raises(TimeoutError):
            await fetch(str(server.make_url("/slow")), 0.1)


async def test_the_log_does_not_show_the_address(caplog: pytest.LogCaptureFixture) -> None:
    keys = KeySet.of(Auth(jwks_url="http://user:hunter2@127.0.0.1:9/keys", jwks_timeout=2.0))
    with caplog.at_level(logging.DEBUG), pytest.raises(KeysUnavailable) as caught:
        await keys.keys()
    assert "cannot be fetched" in caplog.text
    assert "hunter2" not in caplog.text + str(caught.value)
