"""The readers that hardly read, against a real publisher."""

from __future__ import annotations

import asyncio

import pytest
from bench.child import BenchError
from bench.pace import Others
from tests.support.fake_view import VIEW, FakeView
from tests.support.serving_publisher import WAIT, serving


async def test_the_others_subscribe_and_say_when_they_are_closed() -> None:
    async with serving(FakeView()) as publisher:
        others = await asyncio.to_thread(Others, publisher.addresses["websocket"], 4, VIEW)
        (follower,) = publisher.hub.followers.values()
        assert len(follower.subscriptions) == 4
    with others, pytest.raises(BenchError, match="was closed"):
        async with asyncio.timeout(WAIT):
            await others.sip()


async def test_a_subscriber_that_is_refused() -> None:
    async with serving(FakeView()) as publisher:
        with pytest.raises(BenchError, match="unknown channel"):
            await asyncio.to_thread(Others, publisher.addresses["websocket"], 1, "nothing")
