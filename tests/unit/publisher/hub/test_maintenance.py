"""What is done at intervals."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.fake_hub import FILTERED, WHOLE_VIEW, LatchedReader, hub_of, register, request, sizes
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.folding_sink import FoldingSink

from distributary.model.build import Build
from distributary.model.command import Command
from distributary.model.query_params import parse_channel
from distributary.publisher.codec import codes
from distributary.publisher.hub.maintenance import Maintenance
from distributary.publisher.hub.subscription import Initial
from distributary.store.contract import SWEEP_BATCH


async def test_subscription_of_a_lost_connection_lapses_and_is_swept() -> None:
    fake_view = FakeView()
    clock = [1000.0]
    fake_view.store.clock = lambda: clock[0]
    message: list[Command] = []

    async def announce(command: Command) -> None:
        message.append(command)

    async with hub_of(fake_view, ttl=10, announce=announce) as hub:
        upkeep = Maintenance(hub)
        materialized = await hub.join(request(WHOLE_VIEW), FoldingSink())
        lost = await hub.join(request(FILTERED), FoldingSink())
        hub.leave(lost, end=False)
        clock[0] += 9
        await upkeep.renew()
        clock[0] += 2
        await upkeep.sweep()
        assert list(fake_view.store.views[VIEW].subscriptions) == [materialized.id]
        assert len(fake_view.store.views[VIEW].queries) == 1
        # The reducers of a view without writes hear of it only so.
        assert [c for c in message if c.op == "end"] == [Command("end", VIEW, lost.id)]


async def test_hundreds_of_lapsed_subscriptions_are_swept_in_one_round() -> None:
    fake_view = FakeView()
    clock = [1000.0]
    fake_view.store.clock = lambda: clock[0]
    message: list[Command] = []

    async def announce(command: Command) -> None:
        message.append(command)

    async with hub_of(fake_view, ttl=10, announce=announce) as hub:
        many = SWEEP_BATCH * 4
        for number in range(many):
            await fake_view.reader.register(
                VIEW, query_id=f"q{number}", text="{}", subscription=f"s{number}", ttl_ms=1_000, begun=True
            )
        clock[0] += 2
        await Maintenance(hub).sweep()
        assert not fake_view.store.views[VIEW].queries
        assert len(message) == many


async def test_renewal_goes_on_when_the_server_of_one_view_is_down() -> None:
    fake_view = FakeView()
    clock = [1000.0]
    fake_view.store.clock = lambda: clock[0]
    fake_view.writer.define("other", "b1", "{}")
    fake_view.writer.claim(Build("other", "b1"), "topic", 1)
    fake_view.writer.go_live(Build("other", "b1"))

    class Half(LatchedReader):
        """A store of which one view's server does not respond."""

        async def renew(self, view: str, *args: Any) -> Any:
            if view == "other":
                raise ConnectionError("no answer")
            return await fake_view.reader.renew(view, *args)

    async with hub_of(fake_view, ttl=10, store=Half(fake_view.reader)) as hub:
        await hub.join(request(parse_channel("other")), FoldingSink())
        materialized = await hub.join(request(WHOLE_VIEW), FoldingSink())
        clock[0] += 9
        with pytest.raises(ConnectionError):
            await Maintenance(hub).renew()
        clock[0] += 9
        assert await fake_view.reader.subscription(VIEW, materialized.id)


async def test_metrics_of_a_view_go_with_it() -> None:
    fake_view = FakeView()
    async with hub_of(fake_view) as hub:
        upkeep = Maintenance(hub)
        joined_subscription = await hub.join(request(WHOLE_VIEW), FoldingSink())
        await upkeep.sweep()
        assert list(dict(hub.stats.latencies())) == [VIEW]
        fake_view.store.writer.drop_view(VIEW)
        await until(lambda: joined_subscription.detached)
        await upkeep.watch()
        await upkeep.sweep()
        assert dict(hub.stats.latencies()) == {}


async def test_subscriber_whose_subscription_the_store_forgot_is_sent_back() -> None:
    fake_view = FakeView()
    async with hub_of(fake_view) as hub:
        sink = FoldingSink()
        joined_subscription = await hub.join(request(FILTERED), sink)
        await fake_view.reader.end(VIEW, joined_subscription.id)
        await Maintenance(hub).renew()
        assert sink.endings == [codes.INSUFFICIENT]
        assert sizes(hub) == (0, 0, 0)


async def test_idle_view_is_not_followed() -> None:
    fake_view = FakeView()
    async with hub_of(fake_view) as hub:
        upkeep = Maintenance(hub, idle=0)
        joined_subscription = await hub.join(request(FILTERED), FoldingSink())
        await upkeep.watch()
        assert list(hub.followers) == [VIEW]
        hub.leave(joined_subscription, end=True)
        await upkeep.watch()
        assert not hub.followers


async def test_subscribers_are_notified_of_staleness() -> None:
    fake_view = FakeView(stale_after=5)
    clock = [1000.0]
    fake_view.store.clock = lambda: clock[0]
    fake_view.store.writer.mark_source_active(VIEW)
    async with hub_of(fake_view) as hub:
        upkeep = Maintenance(hub)
        sink, late = FoldingSink(), FoldingSink()
        await hub.join(request(FILTERED), sink)
        await upkeep.watch()
        clock[0] += 6
        await upkeep.watch()
        await upkeep.watch()
        assert sink.notices == [{"op": "stale", "since": 1_000_000}]
        await hub.join(request(FILTERED), late)
        outcome = late.outcomes[0]
        assert isinstance(outcome, Initial)
        assert outcome.stale
        fake_view.store.writer.mark_source_active(VIEW)
        await upkeep.watch()
        assert sink.notices[1:] == late.notices == [{"op": "fresh"}]


async def test_missed_begin_is_found() -> None:
    fake_view = FakeView()
    channel = await register(fake_view, "G")
    async with hub_of(fake_view) as hub:
        sink = FoldingSink()
        await hub.join(request(parse_channel(channel), subscription="G"), sink)
        query, _, expires = fake_view.store.views[VIEW].subscriptions["G"]
        fake_view.store.views[VIEW].subscriptions["G"] = (query, True, expires)
        await Maintenance(hub).watch()
        await until(lambda: sink.position)
