"""What a client may ask beside its channels."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.fake_hub import Gate
from tests.support.fake_view import VIEW, World

from distributary.publisher.codec.codes import Refused
from distributary.publisher.websocket.rpc import METHODS, call

ODDS = b'{"view":"odds"}'


async def refused(store: Any, method: str, data: bytes) -> tuple[int, bool]:
    with pytest.raises(Refused) as why:
        await call(store, method, data)
    return why.value.refusal.code, why.value.refusal.temporary


async def test_position() -> None:
    world = World()
    world.put(("a", {"n": 1}), ("b", {"n": 1}))
    said = json.loads(await call(world.reader, "position", ODDS))
    assert said == {"view": VIEW, "position": f"{world.epoch}:2"}


async def test_status() -> None:
    world = World(stale_after=5)
    clock = [1000.0]
    world.store.clock = lambda: clock[0]
    world.store.writer.fresh(VIEW)
    said = json.loads(await call(world.reader, "status", ODDS))
    assert said == {
        "view": VIEW,
        "status": "live",
        "reason": "",
        "stale": False,
        "incomplete": False,
        "position": f"{world.epoch}:0",
    }
    clock[0] += 6
    assert json.loads(await call(world.reader, "status", ODDS))["stale"]


async def test_a_view_that_is_being_built() -> None:
    world = World(live=False)
    assert json.loads(await call(world.reader, "status", ODDS))["status"] == "building"
    assert await refused(world.reader, "position", ODDS) == (1100, True)


@pytest.mark.parametrize("method", sorted(METHODS))
async def test_refusals(method: str) -> None:
    world = World()
    assert await refused(world.reader, method, b'{"view":"nothing"}') == (102, False)
    for data in (b"", b"null", b"[]", b"{}", b'{"view":1}', b"\xff", b"[" * 100_000):
        assert await refused(world.reader, method, data) == (107, False)
    gate = Gate(world.reader)
    gate.broken.add("view")
    assert await refused(gate, method, ODDS) == (100, True)


async def test_unknown_methods() -> None:
    assert await refused(World().reader, "nonsense", ODDS) == (104, False)
    assert await refused(World().reader, "", b"") == (104, False)
