from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.support.clock import LIMIT
from tests.unit.control.conftest import Api

from distributary.control import sweep
from distributary.control.sweep import sweep_once
from distributary.store.contract import SWEEP_BATCH


async def test_lapsed_subscriptions_are_removed_and_announced(api: Api) -> None:
    api.define()
    old = (await api.post("/v1/subscriptions", {"view": "odds", "where": "a = 1"}, 201))["id"]
    api.now += 50
    young = (await api.post("/v1/subscriptions", {"view": "odds", "where": "a = 2"}, 201))["id"]
    api.now += 20
    assert await sweep_once(api.context) == 1
    assert [(c.op, c.subscription) for c in api.announced.commands][-1] == ("end", old)
    assert len(api.store.writer.registry("odds")[1]) == 1
    await api.get(f"/v1/subscriptions/{young}")


async def test_sweep_has_servers_share_revocations(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, inner = asyncio.Event(), api.store.reader.revoked

    async def revoked(users: Sequence[str]) -> dict[str, int]:
        asked.set()
        return await inner(users)

    monkeypatch.setattr(api.store.reader, "revoked", revoked)
    monkeypatch.setattr(sweep, "SWEEP_SECONDS", 0.001)
    task = asyncio.create_task(sweep.sweep_forever(api.context))
    try:
        await asyncio.wait_for(asked.wait(), 10 * LIMIT)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_sweep_goes_on_while_there_are_more(api: Api) -> None:
    api.define()
    many = SWEEP_BATCH * 3 + 1
    for number in range(many):
        await api.store.reader.register("odds", f"q{number}", "{}", f"s{number}", 1_000, False)
    api.now += 2
    assert await sweep_once(api.context) == many
    assert len([c for c in api.announced.commands if c.op == "end"]) == many
    assert not api.store.writer.registry("odds")[1]
