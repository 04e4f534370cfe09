"""Subscribers with an order or conflation, on the store in memory: joins, resumes, slow readers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.support.fake_hub import LatchedReader, hub_of, register, request, sizes
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.folding_sink import FoldingSink

from distributary.model.position import Position
from distributary.model.query_params import ChannelQuery, parse_channel
from distributary.publisher import metrics
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.codec.publication import Publication
from distributary.publisher.codec.subscribe_options import Conflation
from distributary.publisher.hub.hub import Hub
from distributary.publisher.hub.subscription import Initial, Recovered

ALL = parse_channel(VIEW)
FILTERED = parse_channel(f"{VIEW}?where=s%20%3D%20'f'")
TOP = parse_channel(f"{VIEW}?order=n+desc&limit=2")
SOON = Conflation(0.02)
SELDOM = Conflation(600.0)


class LenientSink(FoldingSink):
    """Accepts a complete row for one that it has, as documented; ``space`` is its room."""

    def __init__(self, key: str = "plain") -> None:
        super().__init__(key)
        self.space = 1 << 20
        self.response: list[dict[str, Any]] = []
        self.list: list[str] = []

    def room(self) -> int:
        return self.space

    def _take(self, snapshot: Any) -> None:
        super()._take(snapshot)
        self.list = list(self.rows)

    def _fold(self, epoch: str, pubs: list[Publication]) -> None:
        for number, data in pubs:
            change = json.loads(data)
            self.response.append(change)
            key = change["key"]
            assert self.position is not None
            assert number >= self.position.seq
            self.position = Position(epoch, number)
            if change["op"] == "remove":
                self.rows.pop(key, None)
            else:
                self.rows[key] = change["row"] if "row" in change else change["changed"]
            if key in self.list:
                self.list.remove(key)
            if change["op"] != "remove":
                self.list.insert(change.get("at", len(self.list)), key)


def materialized(hub: Hub) -> tuple[int, int, int]:
    response = metrics.describe(hub, hub.stats, "x")
    return response["kept_queries"], response["kept_rows"], response["paced"]


async def test_subscriber_with_an_order_gets_the_first_rows() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}), ("b", {"n": 2}), ("c", {"n": 3}))
    async with hub_of(fake_view) as hub:
        sink, other = LenientSink(), LenientSink()
        one = await hub.join(request(TOP), sink)
        two = await hub.join(request(TOP), other)
        assert sink.list == ["c", "b"]
        assert materialized(hub) == (1, 3, 0)
        assert sizes(hub) == (1, 1, 2)
        fake_view.put(("a", {"n": 9}))
        await until(lambda: sink.position == Position(fake_view.epoch, fake_view.seq))
        assert sink.list == other.list == ["a", "c"]
        assert [one["op"] for one in sink.response] == ["remove", "add"]
        fake_view.put(("b", {"n": 0}), ("c", None))
        await until(lambda: sink.list == ["a", "b"])
        assert sink.rows == other.rows == {"a": {"n": 9}, "b": {"n": 0}}
        hub.leave(one, end=True)
        assert materialized(hub) == (1, 2, 0)
        hub.leave(two, end=True)
        assert materialized(hub) == (0, 0, 0)
        assert sizes(hub) == (0, 0, 0)


async def test_resume_of_an_order_is_a_new_snapshot() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}))
    async with hub_of(fake_view) as hub:
        sink = LenientSink()
        hub.leave(await hub.join(request(TOP), sink), end=False)
        sink.attached = False
        fake_view.put(("b", {"n": 2}))
        joined_subscription = await hub.join(request(TOP, position=sink.position), sink)
        outcome = sink.outcomes[-1]
        assert isinstance(outcome, Initial)
        assert outcome.recovering
        assert sink.list == ["b", "a"]
        with pytest.raises(Refused) as refused:
            await hub.join(request(TOP, position=sink.position, require_recovery=True), LenientSink())
        assert refused.value.refusal == codes.UNRECOVERABLE
        with pytest.raises(Refused) as refused:
            await hub.history(joined_subscription, None, 10)
        assert refused.value.refusal == codes.NOT_AVAILABLE


async def test_changes_during_the_read_are_applied_once() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}), ("b", {"n": 2}))
    latched = LatchedReader(fake_view.reader)
    latched.blocked["page"] = asyncio.Event()
    async with hub_of(fake_view, store=latched) as hub:
        sinks = [LenientSink() for _ in range(3)]
        requests = [
            request(TOP),
            request(TOP),
            request(TOP, conflation=SOON),
        ]
        joins = [
            asyncio.create_task(hub.join(wanted, sink)) for wanted, sink in zip(requests, sinks, strict=True)
        ]
        await until(lambda: latched.calls.get("page"))
        fake_view.put(("a", {"n": 7}), ("c", {"n": 9}))
        await until(lambda: hub.followers[VIEW].seq == fake_view.seq)
        latched.blocked.pop("page").set()
        await asyncio.gather(*joins)
        assert latched.calls["page"] == 1
        for sink in sinks:
            assert sink.list == ["c", "a"]
            assert sink.position == Position(fake_view.epoch, fake_view.seq)
            assert sink.response == []


async def test_conflated_subscriber_gets_the_newest_of_each_row() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f", "n": 0}))
    async with hub_of(fake_view) as hub:
        slow, plain = LenientSink(), FoldingSink()
        conflated_one = await hub.join(request(FILTERED, conflation=SELDOM), slow)
        await hub.join(request(FILTERED), plain)
        assert materialized(hub) == (1, 1, 1)
        (channel,) = hub.followers[VIEW].channels.values()
        found = channel.conflated[conflated_one]
        found._next_send = 0.0  # its time has come
        fake_view.put(("a", {"s": "f", "n": 1}))
        await until(lambda: slow.response)
        for n in range(2, 50):
            fake_view.put(("a", {"s": "f", "n": n}), ("b", {"s": "f"}))
            fake_view.put(("b", None))
        await until(lambda: plain.position == Position(fake_view.epoch, fake_view.seq))
        assert len(slow.response) == 1
        found.stop()
        found._stopped, found._next_send = False, 0.0
        found.add([])
        await until(lambda: len(slow.response) == 2)
        assert slow.rows == plain.rows == {"a": {"s": "f", "n": 49}}
        assert slow.position == Position(fake_view.epoch, fake_view.seq)
        assert (found.conflated, found.dropped) == (47 + 95, 1)
        assert (hub.stats.conflated, hub.stats.dropped) == (142, 1)


async def test_conflated_subscribers_end_with_the_right_rows() -> None:
    fake_view = FakeView()
    async with hub_of(fake_view) as hub:
        sinks = [LenientSink() for _ in range(4)]
        for sink, conflation_ in zip(
            sinks, (SOON, Conflation(max_rate=400), Conflation(max_bytes=40_000), Conflation()), strict=True
        ):
            await hub.join(request(ALL, conflation=conflation_), sink)
        for n in range(300):
            fake_view.put((f"k{n % 7}", None if n % 5 == 0 and n > 20 else {"n": n}))
            if n % 40 == 0:
                await asyncio.sleep(0.01)
        for sink in sinks:
            await until(lambda sink=sink: sink.rows == fake_view.rows())  # type: ignore[misc]
            await until(lambda sink=sink: sink.position.seq == fake_view.seq)  # type: ignore[misc]
        assert len(sinks[0].response) < 200


async def test_resume_sends_the_newest_of_what_was_missed() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 0}), ("b", {"n": 0}), ("c", {"n": 0}))
    async with hub_of(fake_view) as hub:
        sink = LenientSink()
        hub.leave(await hub.join(request(ALL, conflation=SOON), sink), end=False)
        sink.attached = False
        for n in range(1, 9):
            fake_view.put(("a", {"n": n}), ("d", {"n": n}))
        fake_view.put(("b", None))
        await hub.join(request(ALL, position=sink.position, conflation=SOON), sink)
        assert isinstance(sink.outcomes[-1], Recovered)
        await until(lambda: sink.rows == fake_view.rows())
        assert [one["key"] for one in sink.response] == ["a", "d", "b"]
        assert sink.position == Position(fake_view.epoch, fake_view.seq)


async def test_resume_beyond_the_log_gets_a_snapshot() -> None:
    fake_view = FakeView(log_length=3)
    async with hub_of(fake_view) as hub:
        sink = LenientSink()
        hub.leave(await hub.join(request(ALL, conflation=SOON), sink), end=False)
        sink.attached = False
        for n in range(9):
            fake_view.put(("a", {"n": n}))
        await hub.join(request(ALL, position=sink.position, conflation=SOON), sink)
        assert isinstance(sink.outcomes[-1], Initial)
        fake_view.put(("a", {"n": 10}))
        await until(lambda: sink.rows == fake_view.rows())


async def test_changes_while_a_resume_reads_the_log_are_sent() -> None:
    fake_view = FakeView()
    latched = LatchedReader(fake_view.reader)
    async with hub_of(fake_view, store=latched) as hub:
        sink = LenientSink()
        stays = LenientSink()
        await hub.join(request(ALL, conflation=SOON), stays)
        hub.leave(await hub.join(request(ALL, conflation=SOON), sink), end=False)
        sink.attached = False
        fake_view.put(("a", {"n": 1}))
        await until(lambda: stays.rows == fake_view.rows())
        latched.blocked["log"] = asyncio.Event()
        joining = asyncio.create_task(hub.join(request(ALL, position=sink.position, conflation=SOON), sink))
        await until(lambda: latched.calls.get("log"))
        fake_view.put(("a", {"n": 2}), ("b", {"n": 2}))
        await until(lambda: hub.followers[VIEW].seq == fake_view.seq)
        hub.followers[VIEW].notify(b'{"op":"fresh"}')  # not to one that has no answer yet
        latched.blocked.pop("log").set()
        await joining
        assert (sink.notices, stays.notices) == ([], [{"op": "fresh"}])
        assert isinstance(sink.outcomes[-1], Recovered)
        await until(lambda: sink.rows == fake_view.rows())
        assert sink.position == Position(fake_view.epoch, fake_view.seq)


@pytest.mark.parametrize("requested", [ALL, TOP], ids=["all", "top"])
async def test_slow_reader_gets_the_newest_when_it_reads_again(
    requested: ChannelQuery,
) -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 0}), ("b", {"n": 1}))
    async with hub_of(fake_view) as hub:
        sink, plain = LenientSink("slow"), LenientSink("plain")
        joined_subscription = await hub.join(request(requested, conflation=Conflation()), sink)
        await hub.join(request(requested), plain)
        for n in range(1, 4):
            fake_view.put(("a", {"n": n}))
            await until(lambda: sink.position == Position(fake_view.epoch, fake_view.seq))
        (channel,) = hub.followers[VIEW].channels.values()
        assert channel.conflated[joined_subscription].direct
        assert "changed" in sink.response[-1] or "row" in sink.response[-1]
        sink.space, before = 0, len(sink.response)
        for n in range(4, 60):
            fake_view.put(("a", {"n": n}), ("b", {"n": 100 - n}))
        await until(lambda: plain.position == Position(fake_view.epoch, fake_view.seq))
        assert len(sink.response) == before
        assert not channel.conflated[joined_subscription].direct
        sink.space = 1 << 20
        await until(lambda: sink.position == Position(fake_view.epoch, fake_view.seq))
        assert (sink.rows, sink.list if requested is TOP else []) == (
            plain.rows,
            plain.list if requested is TOP else [],
        )
        assert len(sink.response) - before <= 4
        fake_view.put(("c", {"n": 500}))
        await until(lambda: sink.position == Position(fake_view.epoch, fake_view.seq))
        assert channel.conflated[joined_subscription].direct
        assert sink.rows == plain.rows


async def test_notice_reaches_every_subscriber_once() -> None:
    fake_view = FakeView(stale_after=0.001)
    async with hub_of(fake_view) as hub:
        sinks = [LenientSink(f"s{n}") for n in range(3)]
        for sink, conflation_ in zip(sinks, (SOON, Conflation(), None), strict=True):
            await hub.join(request(ALL, conflation=conflation_), sink)
        fake_view.put(("a", {"n": 0}))
        await until(lambda: all(sink.response for sink in sinks))
        hub.followers[VIEW].notify(b'{"op":"fresh"}')
        assert [sink.notices for sink in sinks] == [[{"op": "fresh"}]] * 3


async def test_too_many_rows_are_refused_or_end_the_subscription() -> None:
    fake_view = FakeView()
    fake_view.put(("k0", {"n": 0}), ("k1", {"n": 1}), ("k2", {"n": 2}))
    async with hub_of(fake_view, max_materialized_rows=3, max_limit=2) as hub:
        sink, plain = LenientSink(), FoldingSink()
        await hub.join(request(ALL, conflation=SOON), sink)
        await hub.join(request(ALL), plain)
        fake_view.put(("k3", {"n": 3}))
        await until(lambda: sink.endings)
        assert sink.endings == [codes.INSUFFICIENT]
        assert plain.rows == fake_view.rows()
        with pytest.raises(Refused) as refused:
            await hub.join(request(ALL, conflation=SOON), LenientSink())
        response = refused.value.refusal
        assert (response.code, response.temporary) == (106, False)
        assert "the query has 4 rows; at most 3" in response.message
        with pytest.raises(Refused, match="limit is 3, and must be at most 2"):
            await hub.join(request(parse_channel(f"{VIEW}?order=n&limit=3")), LenientSink())
        assert materialized(hub) == (0, 0, 0)
        assert sizes(hub) == (1, 1, 1)


async def test_another_epoch_or_a_cancelled_join_leaves_nothing() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}))
    latched = LatchedReader(fake_view.reader)
    async with hub_of(fake_view, store=latched) as hub:
        sink, top = LenientSink(), LenientSink()
        await hub.join(request(ALL, conflation=SELDOM), sink)
        await hub.join(request(TOP), top)
        fake_view.put(("a", {"n": 2}), ("a", {"n": 3}))
        fake_view.crash()
        await until(lambda: sink.endings and top.endings)
        assert sizes(hub) == materialized(hub) == (0, 0, 0)
        latched.blocked["page"] = asyncio.Event()
        joining = asyncio.create_task(hub.join(request(TOP), LenientSink()))
        before = latched.calls["page"]
        await until(lambda: latched.calls["page"] > before)
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
        latched.blocked.pop("page").set()
        assert sizes(hub) == materialized(hub) == (0, 0, 0)


async def test_conflated_subscription_can_be_begun_later() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f", "n": 1}))
    async with hub_of(fake_view) as hub:
        sink = LenientSink()
        channel = await register(fake_view, "s1")
        await hub.join(request(parse_channel(channel), subscription="s1", conflation=SOON), sink)
        assert sink.rows == {}
        await fake_view.reader.begin(VIEW, "s1", 60_000)
        await until(lambda: sink.rows == fake_view.rows())
        for n in range(5):
            fake_view.put(("a", {"s": "f", "n": n}))
        await until(lambda: sink.position == Position(fake_view.epoch, fake_view.seq))
        assert sink.rows == fake_view.rows()
