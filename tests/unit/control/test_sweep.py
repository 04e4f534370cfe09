from __future__ import annotations

from tests.unit.control.conftest import Api

from distributary.control.sweep import sweep_once


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
