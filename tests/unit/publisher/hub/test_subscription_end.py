"""What subscribers left behind, bounded for each user."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_hub import LatchedReader, hub_of
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.folding_sink import FoldingSink

from distributary.auth.reservations import Reservation
from distributary.model.query import Query
from distributary.model.query_params import channel_query
from distributary.publisher.hub.hub import Hub
from distributary.publisher.hub.subscription import CountQuery, SubscribeRequest
from distributary.publisher.hub.subscription_end import Abandoned, AbandonedSubscriptions

TTL = 60.0


def share(user: str, cost: int, limit: int | None) -> Reservation:
    return Reservation(user, cost, limit, "queries")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 5), st.floats(0, 40)), max_size=40))
def test_newest_subscriptions_of_a_user_stay_up_to_its_limit(steps: list[tuple[str, int, float]]) -> None:
    now = 0.0
    lingering = AbandonedSubscriptions(TTL, clock=lambda: now)
    materialized: dict[str, list[tuple[Abandoned, int, float]]] = {"a": [], "b": []}
    for number, (user, cost, seconds) in enumerate(steps):
        now += seconds
        left = Abandoned(VIEW, str(number))
        mine = [one for one in materialized[user] if one[2] > now] + [(left, cost, now + TTL)]
        over = []
        while sum(one[1] for one in mine) > 7:
            over.append(mine.pop(0)[0])
        materialized[user] = mine
        assert lingering.add(share(user, cost, 7), left) == over


def test_users_without_subscriptions_are_forgotten() -> None:
    now = 0.0
    lingering = AbandonedSubscriptions(TTL, clock=lambda: now)
    for number in range(100):
        lingering.add(share(f"user {number}", 1, 7), Abandoned(VIEW, str(number)))
    assert len(lingering) == 100
    now = TTL
    lingering.add(share("another", 1, 7), Abandoned(VIEW, "x"))
    assert len(lingering) == 1


def test_without_a_limit_nothing_is_ended() -> None:
    lingering = AbandonedSubscriptions(TTL)
    assert lingering.add(share("a", 5, None), Abandoned(VIEW, "x")) == []
    assert len(lingering) == 0


def test_subscription_over_the_limit_ends_at_once() -> None:
    assert AbandonedSubscriptions(TTL).add(share("a", 5, 4), Abandoned(VIEW, "x")) == [Abandoned(VIEW, "x")]


def counting(user: str, cost: int, limit: int) -> CountQuery:
    async def count(query: Query) -> Reservation:
        return share(user, cost, limit)

    return count


def wanted(number: int, user: str = "mallory") -> SubscribeRequest:
    return SubscribeRequest(
        query=channel_query(VIEW, [f"n > {number}"], [], None), count=counting(user, 5, 20)
    )


async def come_and_go(hub: Hub, number: int, user: str = "mallory") -> None:
    hub.leave(await hub.join(wanted(number, user), FoldingSink()), end=False)


async def test_user_that_comes_and_goes_leaves_no_more_queries_than_its_limit() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}))
    async with hub_of(fake_view) as hub:
        await come_and_go(hub, -1, "ann")
        for number in range(30):
            await come_and_go(hub, number)
        await until(lambda: len(fake_view.writer.registry(VIEW)[1]) == 1 + 4)
        materialized = {query.text for query in fake_view.writer.registry(VIEW)[1]}
        newest = [wanted(number).query.query for number in (-1, 26, 27, 28, 29)]
        assert materialized == {query.text for query in newest if query is not None}


async def test_user_that_leaves_while_joining_leaves_no_more_queries_than_its_limit() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}))
    latched = LatchedReader(fake_view.reader)
    latched.blocked["page"] = asyncio.Event()
    async with hub_of(fake_view, store=latched) as hub:
        for number in range(30):
            joining = asyncio.create_task(hub.join(wanted(number), FoldingSink()))
            await until(lambda number=number: latched.calls.get("page", 0) > number)  # type: ignore[misc]
            joining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await joining
        await until(lambda: len(fake_view.writer.registry(VIEW)[1]) == 4)


async def test_subscriptions_within_the_limit_wait_for_their_user() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}))
    async with hub_of(fake_view) as hub:
        for _ in range(3):
            subscriptions = [await hub.join(wanted(number), FoldingSink()) for number in range(4)]
            for joined_subscription in subscriptions:
                hub.leave(joined_subscription, end=False)
            await until(lambda: len(fake_view.writer.registry(VIEW)[1]) == 4)
