"""From rows read by REST to live, and back after so long that only Kafka knows what changed."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from tests.integration.subscriber.test_resume import begin, events
from tests.support.clock import LIMIT
from tests.support.stack import Feeding
from tests.support.wait import eventually

import distributary
from distributary.model.build import Build
from distributary.store.redis_keys import BuildKeys

pytestmark = pytest.mark.slow


def folded(rows: dict[str, Any], missed: list[Any]) -> dict[str, Any]:
    out = dict(rows)
    for event in missed:
        assert event.name == "change"
        if event.data["op"] == "remove":
            out.pop(event.data["key"], None)
        elif event.data["op"] == "add":
            out[event.data["key"]] = event.data["row"]
        else:
            out[event.data["key"]] = out[event.data["key"]] | event.data["changed"]
    return out


async def test_subscription_continues_from_rows_by_rest(feeding: Feeding) -> None:
    view = await feeding.view()
    addresses = feeding.stack.addresses
    rows: dict[str, Any] = {key: {"s": "fg"[n % 2], "n": n} for n, key in enumerate("abcd")}
    feeding.produce(rows.items())
    await feeding.rows_become(view, rows)
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{addresses['control']}/v1/views/{view}", params={"where": "s = 'f'"}) as reply,
    ):
        message = await reply.json()
        position = reply.headers["Distributary-Position"]
    current = dict(message["rows"])
    assert set(current) == {"a", "c"}
    feeding.produce([("a", {"n": 10}), ("b", {"s": "f"}), ("c", {"s": "g"}), ("d", {"n": 11})])
    rows = {
        "a": {"s": "f", "n": 10},
        "b": {"s": "f", "n": 1},
        "c": {"s": "g", "n": 2},
        "d": {"s": "g", "n": 11},
    }
    await feeding.rows_become(view, rows)
    wanted = {key: row for key, row in rows.items() if row["s"] == "f"}
    async with distributary.subscribe(
        view, where="s = 'f'", url=addresses["websocket"], from_position=position, rows=current
    ) as changes:
        assert [change.op for change in await changes.take()][:1] == ["resumed"]
        assert changes.tier == "log"
        async with asyncio.timeout(20 * LIMIT):
            while changes.rows != wanted:
                await changes.take()
            feeding.produce([("d", {"s": "f"})])
            while "d" not in changes.rows:
                await changes.take()
    # The same as a stream of one field, with rows that it was not sent before.
    async with events(addresses["http"], view, query=f"fields=n&from={position}") as stream:
        missed, ready = await begin(stream)
        assert (ready.data["tier"], ready.data["recovered"]) == ("log", True)
        assert {event.id for event in missed} == {""}, "no place between them to resume from"
        before = {key: {"n": n} for n, key in enumerate("abcd")}
        assert folded(before, missed) == {key: {"n": row["n"]} for key, row in rows.items()}
    async with events(addresses["http"], view, query="from=2001-01-01") as stream:
        before_all, ready = await begin(stream)
        assert ([event.name for event in before_all], ready.data["tier"]) == (["snapshot"], "snapshot")


async def test_changes_lost_from_the_log_are_replayed_from_kafka(feeding: Feeding) -> None:
    view = await feeding.view(replay=True, reduce="merge")
    addresses = feeding.stack.addresses
    rows: dict[str, Any] = {f"k{n}": {"n": n} for n in range(20)}
    feeding.produce(rows.items())
    await feeding.rows_become(view, rows)
    reader, writer = feeding.stack.reader(), feeding.stack.writer()
    try:
        info = await reader.view(view)
        assert info is not None
        build = Build(view, info.live)
        writer.save_checkpoint(build, 1, 100)  # as the driver does every ten seconds
        async with events(addresses["http"], view) as stream:
            _, ready = await begin(stream)
        last, current = ready.id, dict(rows)
        feeding.produce([*((f"k{n}", {"n": n, "m": 1}) for n in range(5)), ("k7", None), ("new", {"n": 0})])
        rows |= {f"k{n}": {"n": n, "m": 1} for n in range(5)} | {"new": {"n": 0}}
        del rows["k7"]
        await feeding.rows_become(view, rows)
        await reader._redis.xtrim(BuildKeys(build).log, maxlen=1, approximate=False)
        async with events(addresses["http"], view, last) as stream:
            missed, ready = await begin(stream)
            assert (ready.data["tier"], ready.data["recovered"]) == ("replay", True)
            assert folded(current, missed) == rows
            assert len(missed) < 10, "only what was touched"
            feeding.produce([("k9", {"n": -1})])
            change = await stream.next()
            assert (change.data["key"], change.data["changed"]) == ("k9", {"n": -1})
        # The notes are by the store's clock, so a time is good for it, too.
        async with events(addresses["http"], view, query=f"from={info.now - 1}") as stream:
            state, ready = await begin(stream)
            assert (ready.data["tier"], {event.name for event in state}) == ("snapshot", {"snapshot"})
        later = str((await reader.view(view)).now)  # type: ignore[union-attr]
        async with events(addresses["http"], view, query=f"from={later}") as stream:
            missed, ready = await begin(stream)
            assert ready.data["tier"] == "replay"
            assert folded(current, missed) == {**rows, "k9": {"n": -1}}
    finally:
        await reader.close()
        writer.close()


async def test_driver_saves_checkpoints_of_the_view(feeding: Feeding) -> None:
    view = await feeding.view()
    reader = feeding.stack.reader()
    try:
        info = await reader.view(view)
        assert info is not None
        build = Build(view, info.live)
        place = await eventually(
            lambda: reader.find_checkpoint(build, seq=0), lambda found: found is not None
        )
        stands = await reader.build(build)
        assert place is not None
        assert stands is not None
        assert (place.epoch, place.seq) == (stands.epoch, 0)
    finally:
        await reader.close()
