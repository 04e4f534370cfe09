"""The fan-out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.folding_sink import FoldingSink, PlainEncoder

from distributary.model.build import Build
from distributary.model.change import Change, Entry
from distributary.model.query import Query
from distributary.publisher.codec import codes
from distributary.publisher.hub.join_buffer import JoinBuffer
from distributary.publisher.hub.log_follower import Follower
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.subscription import Initial, Subscription
from distributary.publisher.metrics import Counters
from distributary.store.build_scan import StaleRead
from distributary.store.log_events import Attached


class Counted(PlainEncoder):
    """Counts encodings."""

    made: list[int] = []  # noqa: RUF012

    def encode(self, epoch: str, pubs: Any) -> Any:
        self.made.append(len(pubs))
        return super().encode(epoch, pubs)


class CountedSink(FoldingSink):
    def encoder(self) -> Any:
        return Counted(self.key)


def follower() -> Follower:
    store: Any = None
    made = Follower(store, "odds", Counters(), lambda follower, subscription: None)
    made.attach(Attached(Build("odds", "b"), "e", 0))
    return made


def live(to: Follower, number: int, sink: FoldingSink, query: Query | None = None) -> Subscription:
    joined_subscription = Subscription(to, f"s{id(sink)}", sink, created_here=True)
    to.subscriptions.add(joined_subscription)
    to.channel(number, query or Query.of_keys("odds", [str(number)])).start_buffering(
        joined_subscription, JoinBuffer("e", to.seq)
    )
    assert joined_subscription.buffer is not None
    joined_subscription.buffer.flush("e", to.seq)
    joined_subscription.answer(Initial(Snapshot("e", to.seq, []), False, False))
    to.go_live_if_passed(joined_subscription)
    return joined_subscription


def change(key: str, **numbers: list[int]) -> Change:
    adds, changes, removes = (numbers.get(name, []) for name in ("adds", "changes", "removes"))
    return Change(
        key=key, time=0, fields=b'"changed":{}', row=b"{}", adds=adds, changes=changes, removes=removes
    )


def test_change_is_encoded_once_per_encoder_and_written_once_per_subscription() -> None:
    Counted.made.clear()
    hub = follower()
    sinks = [CountedSink("one"), CountedSink("one"), CountedSink("other")]
    for sink in sinks:
        live(hub, 1, sink)
    bystander = CountedSink("one")
    live(hub, 2, bystander)
    hub.fan_out(
        [Entry(2, [change("a", adds=[1, 9]), change("b", adds=[7])]), Entry(3, [change("c", adds=[1])])]
    )
    assert [sink.numbers for sink in sinks] == [[1, 3]] * 3
    assert bystander.numbers == []
    assert Counted.made == [2, 2]
    assert hub.seq == 3


def test_query_gets_its_kind_of_change() -> None:
    hub = follower()
    sinks = {number: FoldingSink() for number in (1, 2, 3)}
    for number, sink in sinks.items():
        live(hub, number, sink)
    hub.fan_out([Entry(1, [change("a", adds=[2, 3])])])
    hub.fan_out([Entry(2, [change("a", adds=[1], changes=[2], removes=[3])])])
    assert [sink.numbers for sink in sinks.values()] == [[2], [1, 2], [1, 2]]
    assert [sorted(sink.rows) for sink in sinks.values()] == [["a"], ["a"], []]


def test_gap_in_the_log_sends_all_subscribers_back() -> None:
    hub = follower()
    sink = FoldingSink()
    live(hub, 1, sink)
    hub.fan_out([Entry(5, [change("a", adds=[1])])])
    assert sink.endings == [codes.INSUFFICIENT]
    assert sink.numbers == []
    assert hub.idle


def test_subscription_that_ends_within_a_batch_does_not_affect_others() -> None:
    hub = follower()
    others = [FoldingSink(), FoldingSink()]
    live(hub, 1, others[0])
    joined_subscription = live(hub, 1, FoldingSink("leaver"))
    live(hub, 1, others[1])
    hub.drop(joined_subscription)
    hub.fan_out([Entry(1, [change("a", adds=[1])])])
    assert [sink.numbers for sink in others] == [[1], [1]]


def test_number_of_another_query_sends_its_subscribers_back() -> None:
    hub = follower()
    sink = FoldingSink()
    live(hub, 1, sink)
    with pytest.raises(StaleRead):
        hub.channel(1, Query.of_keys("odds", ["another"]))
    assert sink.endings == [codes.INSUFFICIENT]
    assert hub.idle
