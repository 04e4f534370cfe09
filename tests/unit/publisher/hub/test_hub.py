"""Joins, leaves and the fan-out, on the store in memory."""

from __future__ import annotations

import asyncio
import copy
import random
import time
from typing import Any

import pytest
from tests.support.fake_hub import FILTERED, WHOLE_VIEW, LatchedReader, hub_of, register, request, sizes
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.folding_sink import FoldingSink

from distributary.model.command import Command
from distributary.model.position import Position
from distributary.model.query import Query
from distributary.model.query_params import channel_query, parse_channel
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.hub.state_budget import Turn
from distributary.publisher.hub.subscription import Initial, Recovered, SubscribeRequest, Waiting
from distributary.store.build_scan import belongs


async def test_subscriber_gets_the_snapshot_and_then_changes() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f", "n": 1}), ("b", {"s": "g"}))
    async with hub_of(fake_view) as hub:
        sink = FoldingSink()
        await hub.join(request(FILTERED), sink)
        assert sink.rows == {"a": {"s": "f", "n": 1}}
        fake_view.put(("b", {"s": "f"}), ("a", {"s": "f", "n": 2}), ("c", {"s": "g"}))
        fake_view.put(("a", None))
        await until(lambda: len(sink.numbers) == 3)
        assert sink.rows == {"b": {"s": "f"}}
        assert sizes(hub) == (1, 1, 1)


async def test_join_is_refused_when_another_query_has_its_id() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}), ("secret", {"s": "g"}))
    query = Query.parse(VIEW, "s = 'f'")
    await fake_view.reader.register(
        VIEW, query_id=query.id, text="{}", subscription="other", ttl_ms=60_000, begun=True
    )
    async with hub_of(fake_view) as hub:
        with pytest.raises(Refused) as caught:
            await hub.join(request(FILTERED), FoldingSink())
    assert caught.value.refusal.code == 107


async def test_changes_during_the_read_are_buffered_and_sent_once() -> None:
    fake_view = FakeView()
    fake_view.put(
        ("k0", {"s": "f"}), ("k1", {"s": "f"}), ("k2", {"s": "f"}), ("k3", {"s": "f"}), ("k4", {"s": "f"})
    )
    latched = LatchedReader(fake_view.reader)
    latched.blocked["page"] = asyncio.Event()
    async with hub_of(fake_view, store=latched) as hub:
        sink = FoldingSink()
        joining = asyncio.create_task(hub.join(request(FILTERED), sink))
        await until(lambda: latched.calls.get("page"))
        fake_view.put(("k0", {"s": "f", "n": 1}), ("new", {"s": "f"}))
        follower = hub.followers[VIEW]
        await until(lambda: follower.seq == fake_view.seq)
        latched.blocked["page"].set()
        await joining
        assert sink.numbers == [6, 7]
        assert sink.rows == fake_view.rows()


async def test_state_older_than_the_buffer_is_read_again() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}))
    latched = LatchedReader(fake_view.reader)
    async with hub_of(fake_view, store=latched) as hub:
        first, second = FoldingSink(), FoldingSink()
        latched.blocked["page"] = asyncio.Event()
        one = asyncio.create_task(hub.join(request(FILTERED), first))
        await until(lambda: latched.calls.get("page"))
        fake_view.put(("a", {"s": "f", "n": 1}))
        follower = hub.followers[VIEW]
        await until(lambda: follower.seq == fake_view.seq)
        two = asyncio.create_task(
            hub.join(request(FILTERED), second)
        )  # shares the read that began before its buffer
        await until(lambda: sum(len(c.joining) for c in follower.channels.values()) == 2)
        latched.blocked.pop("page").set()
        await asyncio.gather(one, two)
        assert (first.numbers, second.numbers) == ([2], [])
        assert first.rows == second.rows == fake_view.rows()
        assert latched.calls["page"] == 2


async def test_many_joins_at_once_share_one_read() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}))
    latched = LatchedReader(fake_view.reader)
    async with hub_of(fake_view, store=latched) as hub:
        await hub.join(request(FILTERED), FoldingSink())
        latched.blocked["page"] = asyncio.Event()
        before = latched.calls["page"]
        joins = [asyncio.create_task(hub.join(request(FILTERED), FoldingSink())) for _ in range(50)]
        (channel,) = hub.followers[VIEW].channels.values()
        await until(lambda: len(channel.joining) == 50)
        latched.blocked["page"].set()
        await asyncio.gather(*joins)
        assert latched.calls["page"] - before == 1


async def test_client_resumes_from_the_log() -> None:
    fake_view = FakeView()
    async with hub_of(fake_view) as hub:
        sink = FoldingSink()
        joined_subscription = await hub.join(request(FILTERED), sink)
        fake_view.put(("a", {"s": "f"}))
        await until(lambda: sink.numbers)
        hub.leave(joined_subscription, end=False)
        sink.attached = False
        fake_view.put(("a", {"s": "f", "n": 2}), ("b", {"s": "g"}))
        await hub.join(request(FILTERED, position=sink.position), sink)
        assert isinstance(sink.outcomes[-1], Recovered)
        assert sink.rows == {"a": {"s": "f", "n": 2}}
        assert sink.position == Position(fake_view.epoch, fake_view.seq)


async def test_client_resumes_at_another_publisher() -> None:
    fake_view = FakeView()
    async with hub_of(fake_view) as one, hub_of(fake_view) as other:
        sink = FoldingSink()
        joined_subscription = await one.join(request(FILTERED), sink)
        one.leave(joined_subscription, end=False)
        sink.attached = False
        fake_view.put(("a", {"s": "f"}))
        await other.join(request(FILTERED, position=sink.position), sink)
        assert isinstance(sink.outcomes[-1], Recovered)
        assert sink.rows == {"a": {"s": "f"}}


async def test_client_receives_snapshot_when_position_is_too_old() -> None:
    fake_view = FakeView(log_length=3)
    async with hub_of(fake_view) as hub:
        sink = FoldingSink()
        joined_subscription = await hub.join(request(FILTERED), sink)
        hub.leave(joined_subscription, end=False)
        sink.attached = False
        for n in range(10):
            fake_view.put(("a", {"s": "f", "n": n}))
        await hub.join(request(FILTERED, position=sink.position), sink)
        outcome = sink.outcomes[-1]
        assert isinstance(outcome, Initial)
        assert outcome.recovering
        sink.attached = False
        with pytest.raises(Refused) as refused:
            await hub.join(
                SubscribeRequest(
                    query=FILTERED, position=Position(fake_view.epoch, 1), require_recovery=True
                ),
                sink,
            )
        assert refused.value.refusal == codes.UNRECOVERABLE


async def test_quiet_subscriber_resumes_after_the_log_was_cut() -> None:
    fake_view = FakeView(log_length=3)
    async with hub_of(fake_view) as hub:
        sink = FoldingSink()
        joined_subscription = await hub.join(request(FILTERED), sink)
        hub.leave(joined_subscription, end=False)
        sink.attached = False
        for n in range(10):
            fake_view.put(("other", {"s": "g", "n": n}))
        await hub.join(request(FILTERED, position=sink.position), sink)
        assert isinstance(sink.outcomes[-1], Recovered)


async def test_another_epoch_sends_all_subscribers_back() -> None:
    fake_view = FakeView()
    async with hub_of(fake_view) as hub:
        sink = FoldingSink()
        await hub.join(request(FILTERED), sink)
        fake_view.crash()
        await until(lambda: sink.endings)
        assert sink.endings == [codes.INSUFFICIENT]
        assert sizes(hub) == (0, 0, 0)
        await hub.join(request(FILTERED, position=sink.position), sink)
        assert isinstance(sink.outcomes[-1], Initial)


async def test_join_starts_over_when_the_epoch_changes() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}))
    latched = LatchedReader(fake_view.reader)
    latched.blocked["page"] = asyncio.Event()
    async with hub_of(fake_view, store=latched) as hub:
        sink = FoldingSink()
        joining = asyncio.create_task(hub.join(request(FILTERED), sink))
        await until(lambda: latched.calls.get("page"))
        fake_view.crash()
        await until(lambda: hub.followers[VIEW].epoch == fake_view.epoch)
        latched.blocked.pop("page").set()
        await joining
        assert sink.position == Position(fake_view.epoch, fake_view.seq)
        assert sink.endings == []


async def test_unknown_view_or_query_is_refused() -> None:
    fake_view = FakeView()
    async with hub_of(fake_view) as hub:
        for wanted in (
            request(parse_channel("nothing")),
            request(parse_channel("q:nothing:abcd")),
            request(parse_channel(f"q:{VIEW}:abcd")),
            request(parse_channel(f"q:{VIEW}:abcd"), subscription="none"),
        ):
            with pytest.raises(Refused) as refused:
                await hub.join(wanted, FoldingSink())
            assert refused.value.refusal.code == 102
            assert not refused.value.refusal.temporary
        assert sizes(hub) == (0, 0, 0)


async def test_view_that_is_being_built_is_temporarily_refused() -> None:
    fake_view = FakeView(live=False)
    async with hub_of(fake_view) as hub:
        with pytest.raises(Refused) as refused:
            await hub.join(request(FILTERED), FoldingSink())
        assert (refused.value.refusal.code, refused.value.refusal.temporary) == (1100, True)
        assert sizes(hub) == (0, 0, 0)
        fake_view.store.writer.go_live(fake_view.build)
        await hub.join(request(FILTERED), FoldingSink())


async def test_deleted_view_ends_its_subscriptions() -> None:
    fake_view = FakeView()
    async with hub_of(fake_view) as hub:
        sink = FoldingSink()
        await hub.join(request(FILTERED), sink)
        fake_view.store.writer.drop_view(VIEW)
        await until(lambda: sink.endings)
        assert sink.endings == [codes.VIEW_DELETED]
        with pytest.raises(Refused) as refused:
            await hub.join(request(FILTERED), FoldingSink())
        assert refused.value.refusal.code == 102


async def test_join_is_temporarily_refused_when_the_store_is_down() -> None:
    fake_view = FakeView()
    latched = LatchedReader(fake_view.reader)
    async with hub_of(fake_view, store=latched) as hub:
        for name in ("view", "register", "build", "page"):
            latched.broken = {name}
            with pytest.raises(Refused) as refused:
                await hub.join(request(WHOLE_VIEW), FoldingSink())
            assert refused.value.refusal == codes.INTERNAL
            assert sizes(hub) == (0, 0, 0)
        latched.broken = set()
        await hub.join(request(WHOLE_VIEW), FoldingSink())


async def test_cancelled_join_leaves_nothing() -> None:
    fake_view = FakeView()
    latched = LatchedReader(fake_view.reader)
    latched.blocked["page"] = asyncio.Event()
    async with hub_of(fake_view, store=latched) as hub:
        joining = asyncio.create_task(hub.join(request(FILTERED), FoldingSink()))
        await until(lambda: latched.calls.get("page"))
        assert sizes(hub)[0] == 1
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)
        assert sizes(hub) == (0, 0, 0)
        latched.blocked["page"].set()


async def test_leaving_ends_the_subscription_and_commands_are_announced() -> None:
    fake_view = FakeView()
    result: list[Command] = []

    async def announce(command: Command) -> None:
        result.append(command)

    async with hub_of(fake_view, announce=announce) as hub:
        one = await hub.join(request(FILTERED), FoldingSink())
        two = await hub.join(request(FILTERED), FoldingSink("other name"))
        assert sizes(hub) == (1, 2, 2)
        assert len(fake_view.store.views[VIEW].queries) == 1
        hub.leave(one, end=True)
        hub.leave(two, end=True)
        await until(lambda: len(result) == 4)
        assert [command.op for command in result] == ["subscribe", "subscribe", "end", "end"]
        assert result[0].query == Query.parse(VIEW, "s = 'f'").text
        assert not fake_view.store.views[VIEW].queries
        assert sizes(hub) == (0, 0, 0)


async def test_query_with_a_new_number_sends_subscribers_of_the_old_one_back() -> None:
    fake_view = FakeView()
    async with hub_of(fake_view) as hub:
        old, new = FoldingSink(), FoldingSink()
        joined_subscription = await hub.join(request(FILTERED), old)
        await fake_view.reader.end(VIEW, joined_subscription.id)
        await hub.join(request(FILTERED), new)
        assert old.endings == [codes.INSUFFICIENT]
        fake_view.put(("a", {"s": "f"}))
        await until(lambda: new.numbers)


async def test_subscriber_whose_subscription_lapsed_comes_back_at_once() -> None:
    """By the store's clock, which may jump: the first sweep ends what other publishers still serve."""
    fake_view = FakeView()
    async with hub_of(fake_view, ttl=60) as hub:
        sink = FoldingSink()
        await hub.join(request(FILTERED), sink)
        fake_view.store.clock = lambda: time.time() + 3_600
        assert len(await fake_view.reader.sweep(VIEW)) == 1
        await until(lambda: sink.endings)
        assert sink.endings == [codes.INSUFFICIENT]


async def test_history_is_read_in_both_directions() -> None:
    fake_view = FakeView()
    async with hub_of(fake_view) as hub:
        joined_subscription = await hub.join(request(FILTERED), FoldingSink())
        for n in range(5):
            fake_view.put(("a", {"s": "f", "n": n}), ("b", {"s": "g"}))
        epoch, seq, pubs = await hub.history(joined_subscription, None, -1)
        assert (epoch, seq, [n for n, _ in pubs]) == (fake_view.epoch, 10, [1, 3, 5, 7, 9])
        _, _, pubs = await hub.history(joined_subscription, Position(fake_view.epoch, 4), 2)
        assert [n for n, _ in pubs] == [5, 7]
        assert (await hub.history(joined_subscription, None, 0))[2] == []
        with pytest.raises(Refused) as refused:
            await hub.history(joined_subscription, Position("other", 4), 2)
        assert refused.value.refusal == codes.UNRECOVERABLE


async def test_subscription_waits_until_it_is_begun() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}))
    channel = await register(fake_view, "G")
    async with hub_of(fake_view) as hub:
        sink = FoldingSink()
        await hub.join(request(parse_channel(channel), subscription="G"), sink)
        assert isinstance(sink.outcomes[0], Waiting)
        fake_view.put(("b", {"s": "f"}))
        await fake_view.reader.begin(VIEW, "G", 60_000)
        await until(lambda: sink.position)
        assert sink.rows == fake_view.rows()
        fake_view.put(("c", {"s": "f"}))
        await until(lambda: sink.numbers == [3])
        hub.leave(hub.followers[VIEW].subscriptions.by_id("G")[0], end=True)
        assert sizes(hub) == (0, 0, 0)


@pytest.mark.parametrize("barrier", ["subscription", "build"])
async def test_begin_during_the_join_is_not_missed(barrier: str) -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}))
    channel = await register(fake_view, "G")
    latched = LatchedReader(fake_view.reader)
    latched.blocked[barrier] = asyncio.Event()
    async with hub_of(fake_view, store=latched) as hub:
        sink = FoldingSink()
        joining = asyncio.create_task(hub.join(request(parse_channel(channel), subscription="G"), sink))
        await until(lambda: latched.calls.get(barrier))
        await fake_view.reader.begin(VIEW, "G", 60_000)
        await until(lambda: hub.followers[VIEW].subscriptions.by_id("G")[0].begun)
        latched.blocked.pop(barrier).set()
        await joining
        assert isinstance(sink.outcomes[-1], Initial)
        assert sink.rows == {"a": {"s": "f"}}


async def test_client_that_left_while_waiting_gets_a_snapshot() -> None:
    fake_view = FakeView()
    channel = await register(fake_view, "G")
    async with hub_of(fake_view) as hub:
        sink = FoldingSink()
        joined_subscription = await hub.join(request(parse_channel(channel), subscription="G"), sink)
        hub.leave(joined_subscription, end=False)
        sink.attached = False
        fake_view.put(("a", {"s": "f"}))
        await fake_view.reader.begin(VIEW, "G", 60_000)
        await hub.join(
            SubscribeRequest(
                query=parse_channel(channel), subscription="G", position=Position(fake_view.epoch, 0)
            ),
            sink,
        )
        assert isinstance(sink.outcomes[-1], Initial)
        assert sink.rows == {"a": {"s": "f"}}


async def test_registered_channel_without_a_subscription_is_joined_at_once() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}))
    channel = await register(fake_view, "G")
    async with hub_of(fake_view) as hub:
        sink = FoldingSink()
        await hub.join(request(parse_channel(channel)), sink)
        assert sink.rows == {"a": {"s": "f"}}


@pytest.mark.parametrize("seed", range(6))
async def test_random_joins_and_writes_end_with_the_right_rows(seed: int) -> None:
    """Writes, joins, losses, resumes and crashes at random: every sink ends with exactly its query's rows."""
    chance = random.Random(seed)
    fake_view = FakeView(log_length=30)
    requests = [
        WHOLE_VIEW,
        FILTERED,
        parse_channel(f"{VIEW}?keys=k1,k2"),
        parse_channel(f"{VIEW}?where=n%20%3D%201"),
    ]
    async with hub_of(fake_view) as hub:
        sinks = [(FoldingSink(str(n % 3)), requests[n % 4]) for n in range(12)]
        joined_subscriptions: dict[int, Any] = {}

        async def join(n: int) -> None:
            sink, requested = sinks[n]
            joined_subscriptions[n] = await hub.join(request(requested, position=sink.position), sink)

        for step in range(300):
            rows = [
                (f"k{chance.randrange(6)}", {"s": chance.choice("fg"), "n": chance.randrange(3)})
                for _ in range(chance.randrange(3))
            ]
            gone = [(f"k{chance.randrange(6)}", None)] if chance.random() < 0.1 else []
            present = {key for key, _ in rows} | set(fake_view.rows())
            if rows or gone:
                fake_view.put(*rows, *[one for one in gone if one[0] in present])
            n = chance.randrange(len(sinks))
            sink = sinks[n][0]
            if not sink.attached:
                await join(n)
            elif chance.random() < 0.5:
                hub.leave(joined_subscriptions.pop(n), end=chance.random() < 0.3)
                sink.attached = False
            if step % 97 == 96:
                fake_view.crash()
            await asyncio.sleep(0)
        for n, (sink, _) in enumerate(sinks):
            if not sink.attached:
                await join(n)
        follower = hub.followers[VIEW]
        await until(lambda: (follower.epoch, follower.seq) == (fake_view.epoch, fake_view.seq))
        for n, (sink, requested) in enumerate(sinks):
            if not sink.attached:
                await join(n)
            assert requested.query is not None
            build = fake_view.store.views[VIEW].builds["b1"]
            wanted = {k for k, row in build.rows.items() if belongs(requested.query, k, row.json)}
            assert sink.rows == {k: v for k, v in fake_view.rows().items() if k in wanted}
        kinds = {type(outcome) for sink, _ in sinks for outcome in sink.outcomes}
        assert kinds == {Initial, Recovered}
        for n in list(joined_subscriptions):
            hub.leave(joined_subscriptions.pop(n), end=True)
        assert sizes(hub) == (0, 0, 0)


async def test_query_number_reused_after_a_failover_does_not_mix_up_channels() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"owner": "alice"}), ("b", {"owner": "bob"}))
    replica = copy.deepcopy(fake_view.store.views)  # it never hears of Alice's query
    async with hub_of(fake_view) as hub:
        alice, bob = FoldingSink(), FoldingSink()
        await hub.join(request(channel_query(VIEW, ["owner = 'alice'"], [])), alice)
        fake_view.store.views.update(replica)
        fake_view.store.run_id = "promoted"  # the log's follower is not woken: its link is still up
        await hub.join(request(channel_query(VIEW, ["owner = 'bob'"], [])), bob)
        assert bob.rows == {"b": {"owner": "bob"}}
        assert alice.endings == [codes.INSUFFICIENT]


async def test_join_waits_for_the_history_of_the_follower() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}))
    async with hub_of(fake_view) as hub:
        await hub.join(request(FILTERED), FoldingSink())
        follower = hub.followers[VIEW]
        fake_view.store.run_id = "promoted"
        sink = FoldingSink()
        await hub.join(request(WHOLE_VIEW), sink)
        assert follower.history_id == "promoted", "the join waited for the follower"
        assert sink.rows == fake_view.rows()


async def test_begun_subscription_is_not_served_on_another_history() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}))
    async with hub_of(fake_view) as hub:
        await register(fake_view, "s1")
        sink = FoldingSink()
        await hub.join(request(FILTERED, subscription="s1"), sink)
        fake_view.store.run_id = "promoted"
        await fake_view.reader.begin(VIEW, "s1", 60_000)
        await until(lambda: sink.endings)
        assert (sink.endings, sink.rows) == ([codes.INSUFFICIENT], {})


class StuckSink(FoldingSink):
    """Has a state to read, until ``release`` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[Turn] = []

    def release_when_read(self, turn: Turn) -> None:
        self.turns.append(turn)


def large(fake_view: FakeView) -> None:
    """Rows of three million bytes."""
    row: dict[str, object] = {"s": "f", "filler": "x" * 100_000}
    fake_view.put(*((f"k{n}", row) for n in range(30)))


async def test_joins_without_room_wait_and_buffer_nothing() -> None:
    fake_view = FakeView()
    large(fake_view)
    async with hub_of(fake_view, state_bytes=7_000_000) as hub:
        first = StuckSink()
        await hub.join(request(WHOLE_VIEW), first)
        assert 3_000_000 < hub.budget.used < 3_100_000
        sinks = [StuckSink() for _ in range(4)]
        joins = [asyncio.create_task(hub.join(request(WHOLE_VIEW), sink)) for sink in sinks]
        await until(lambda: hub.budget.waiting == 3)
        await until(lambda: joins[0].done())
        (channel,) = hub.followers[VIEW].channels.values()
        assert not channel.joining
        little = FoldingSink()
        await hub.join(request(parse_channel(f"{VIEW}?keys=k1")), little)
        assert list(little.rows) == ["k1"], "small states do not wait"
        fake_view.put(("k1", {"s": "f", "n": 2}))
        for sink in (first, *sinks):
            await until(lambda sink=sink: sink.turns)  # type: ignore[misc]
            sink.turns[0].end()
        await asyncio.gather(*joins)
        await until(lambda: all(sink.rows == fake_view.rows() for sink in (first, *sinks)))
        assert (hub.budget.used, hub.budget.waiting) == (0, 0)


async def test_join_that_waits_too_long_is_refused_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("distributary.publisher.hub.state_budget.TURN_TIMEOUT", 0.01)
    fake_view = FakeView()
    large(fake_view)
    async with hub_of(fake_view, state_bytes=3_500_000) as hub:
        sink = StuckSink()
        joined_subscription = await hub.join(request(WHOLE_VIEW), sink)
        with pytest.raises(Refused) as caught:
            await hub.join(request(WHOLE_VIEW), FoldingSink())
        assert caught.value.refusal == codes.BUSY
        assert sizes(hub) == (1, 1, 1)
        hub.leave(joined_subscription, end=True)
        sink.turns[0].end()
        assert hub.budget.used == 0


async def test_resume_waits_for_its_turn() -> None:
    fake_view = FakeView()
    async with hub_of(fake_view, state_bytes=7_000_000) as hub:
        sink = StuckSink()
        hub.leave(await hub.join(request(WHOLE_VIEW), sink), end=False)
        sink.attached = False
        large(fake_view)
        await hub.join(request(WHOLE_VIEW, position=sink.position), sink)
        assert isinstance(sink.outcomes[-1], Recovered)
        assert hub.budget.used > 3_000_000
        sink.turns[-1].end()
        assert hub.budget.used == 0


async def test_client_that_leaves_while_its_begun_state_waits_leaves_nothing() -> None:
    fake_view = FakeView()
    large(fake_view)
    async with hub_of(fake_view, state_bytes=3_500_000) as hub:
        stuck = StuckSink()
        await hub.join(request(FILTERED), stuck)
        await register(fake_view, "s1")
        sink = FoldingSink()
        joined_subscription = await hub.join(request(FILTERED, subscription="s1"), sink)
        await fake_view.reader.begin(VIEW, "s1", 60_000)
        await until(lambda: hub.budget.waiting)
        hub.leave(joined_subscription, end=False)
        stuck.turns[0].end()
        await until(lambda: not hub.ender._tasks)
        assert (hub.budget.used, sizes(hub), sink.rows) == (0, (1, 1, 1), {})


async def test_failed_join_ends_its_turn() -> None:
    fake_view = FakeView()
    large(fake_view)
    latched = LatchedReader(fake_view.reader)
    latched.broken.add("page")
    async with hub_of(fake_view, store=latched) as hub:
        with pytest.raises(Refused):
            await hub.join(request(WHOLE_VIEW), FoldingSink())
        assert hub.budget.used == 0
        joining = asyncio.create_task(hub.join(request(WHOLE_VIEW), FoldingSink()))
        latched.broken.clear()
        latched.blocked["page"] = asyncio.Event()
        await until(lambda: hub.budget.unknown)
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
        assert (hub.budget.used, hub.budget.unknown) == (0, 0)
