"""The readers that hardly read, against a real publisher."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from bench.child import BenchError
from bench.pace import Others
from tests.integration.publish.serving import serving
from tests.unit.publish.world import World, until


async def test_the_others_subscribe_and_are_told_when_they_are_closed() -> None:
    world = World()
    world.put(("k", {"n": 1}))
    async with serving(World()) as publisher:
        url = publisher.addresses["websocket"]
        others = await asyncio.to_thread(Others, url, 4)
        with others:
            await until(lambda: publisher.hub.followers)
            (follower,) = publisher.hub.followers.values()
            assert len(follower.members) == 4
    with contextlib.suppress(asyncio.CancelledError), others, pytest.raises(BenchError, match="was closed"):
        await others.sip()
