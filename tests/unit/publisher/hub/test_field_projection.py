"""Field lists: snapshot, changes, resume and history are projected alike."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_hub import hub_of, register, request
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.folding_sink import FoldingSink

from distributary.errors import BadQuery
from distributary.model.channel_name import with_fields
from distributary.model.field_mask import FieldMask, parse_field_mask
from distributary.model.query_params import ChannelQuery, parse_channel
from distributary.publisher.codec.publication import project_data, project_publications
from distributary.publisher.hub.channel import projected
from distributary.publisher.hub.subscription import Initial, Recovered, Waiting
from distributary.reducers.row_json import describe_change, read_object

FIELDS = parse_field_mask("n,o.x")


class ChosenSink(FoldingSink):
    """Folds changes field by field, as a subscriber with a field list does."""

    def __init__(self, fields: FieldMask | None, key: str = "plain") -> None:
        super().__init__(key)
        self.fields = fields

    def encoder(self) -> Any:
        return projected(super().encoder(), self.fields)

    def write(self, data: Any) -> None:
        assert data, "nothing was written"
        super().write(data)

    def _fold(self, epoch: str, pubs: Any) -> None:
        for number, data in pubs:
            change = json.loads(data)
            if change["op"] == "change":
                assert change["changed"] or change.get("gone"), "a change that says nothing"
                current = {
                    k: v for k, v in self.rows[change["key"]].items() if k not in change.get("gone", ())
                }
                change["changed"] = current | change["changed"]
            super()._fold(epoch, [(number, json.dumps(change).encode())])


def cut(rows: dict[str, Any], fields: FieldMask | None) -> dict[str, Any]:
    if fields is None:
        return rows
    return {key: json.loads(fields.project(json.dumps(row).encode())) for key, row in rows.items()}


def test_publication_is_projected_and_otherwise_unchanged() -> None:
    add = b'{"op":"add","key":"k\\"","time":5,"row":{"n":1.50,"s":"f","o":{"x":1e5,"y":2}}}'
    assert project_data(FIELDS, add) == b'{"op":"add","key":"k\\"","time":5,"row":{"n":1.50,"o":{"x":1e5}}}'
    change = b'{"op":"change","key":"k","time":5,"changed":{"s":"g","n":2.0},"gone":["o","p"]}'
    wanted = b'{"op":"change","key":"k","time":5,"changed":{"n":2.0},"gone":["o"]}'
    assert project_data(FIELDS, change) == wanted
    assert (
        project_data(FIELDS, b'{"op":"change","key":"k","time":5,"changed":{"s":"g"},"gone":["p"]}') is None
    )
    emptied = project_data(FIELDS, b'{"op":"change","key":"k","time":5,"changed":{"o":{"y":1}}}')
    assert emptied == b'{"op":"change","key":"k","time":5,"changed":{},"gone":["o"]}'
    remove = b'{"op":"remove","key":"k","time":5}'
    assert project_data(FIELDS, remove) == remove
    moved = b'{"op":"change","key":"k","time":5,"changed":{},"at":3}'
    assert project_data(FIELDS, moved) == moved, "what else a change says is not for fields to drop"
    assert project_publications(None, [(1, change)]) == [(1, change)]


NAMES = st.sampled_from(["n", "s", "o", "x", "y"])
VALUES = st.recursive(st.integers(0, 2), lambda v: st.dictionaries(NAMES, v, max_size=2), max_leaves=4)
ROWS = st.none() | st.dictionaries(NAMES, VALUES, max_size=4)


@given(st.lists(ROWS, min_size=1, max_size=8), st.sampled_from(["n", "o.x", "n,o", "o.x,o.y,s", "x.y.n"]))
def test_projected_stream_folds_to_the_projected_rows(
    states: list[dict[str, Any] | None], listed: str
) -> None:
    """One row through any states: folding the projected changes gives the projected row."""
    fields = parse_field_mask(listed)
    current: dict[str, Any] | None = None
    old: dict[str, Any] | None = None
    for new in states:
        raw = json.dumps(new).encode()
        if new is None:
            data = b'{"op":"remove","key":"k","time":1}' if old is not None else None
        elif old is None:
            data = b'{"op":"add","key":"k","time":1,"row":%b}' % raw
        else:
            result = describe_change(read_object(json.dumps(old).encode()), read_object(raw))
            data = b'{"op":"change","key":"k","time":1,%b}' % result if result else None
        sent = project_data(fields, data) if data is not None else None
        if sent is not None:
            message = json.loads(sent)
            if message["op"] == "remove":
                current = None
            elif message["op"] == "add":
                current = message["row"]
            else:
                assert current is not None
                current = {k: v for k, v in current.items() if k not in message.get("gone", ())} | message[
                    "changed"
                ]
        assert current == (None if new is None else json.loads(fields.project(raw)))
        old = new


def requested(listed: str, where: str = "") -> ChannelQuery:
    return parse_channel(f"{VIEW}?{f'where={where}&' if where else ''}fields={listed}")


async def test_snapshot_changes_and_resume_are_projected() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f", "n": 1, "z": 1}), ("b", {"s": "g", "n": 2}))
    async with hub_of(fake_view) as hub:
        wanted = requested("n", "s%20%3D%20'f'")
        sink = ChosenSink(wanted.fields)
        joined_subscription = await hub.join(request(wanted), sink)
        assert sink.rows == {"a": {"n": 1}}
        fake_view.put(("b", {"s": "f", "n": 3}), ("a", {"s": "g", "n": 1}))
        await until(lambda: sink.numbers == [3, 4])
        assert sink.rows == {"b": {"n": 3}}
        hub.leave(joined_subscription, end=False)
        sink.attached = False
        fake_view.put(("b", {"s": "f", "n": 4, "z": 2}), ("c", {"s": "f", "n": 5, "z": 1}))
        await hub.join(request(wanted, position=sink.position), sink)
        assert isinstance(sink.outcomes[-1], Recovered)
        assert sink.rows == {"b": {"n": 4}, "c": {"n": 5}}
        _, _, pubs = await hub.history(next(iter(hub.followers[VIEW].subscriptions)), None, 10)
        assert [json.loads(data).get("row", {}).keys() <= {"n"} for _, data in pubs] == [True] * len(pubs)


async def test_changes_of_other_fields_are_not_sent() -> None:
    fake_view = FakeView(log_length=50, exact=True)
    fake_view.put(("a", {"n": 1, "z": 0}))
    async with hub_of(fake_view) as hub:
        sink, all_ = ChosenSink(parse_field_mask("n")), ChosenSink(None, "other")
        joined_subscription = await hub.join(request(requested("n")), sink)
        await hub.join(request(parse_channel(VIEW)), all_)
        build = fake_view.store.views[VIEW].builds["b1"]
        for z in range(20):
            fake_view.put(("a", {"n": 1, "z": z + 1}))
        await until(lambda: len(all_.numbers) == 20)
        assert sink.numbers == []
        hub.leave(joined_subscription, end=False)
        sink.attached = False
        before = sink.position
        await hub.join(request(requested("n"), position=sink.position), sink)
        last = sink.outcomes[-1]
        assert isinstance(last, Recovered)
        assert (last.publications, last.seq, before != sink.position) == ([], build.seq, True)
        # Where the log no longer reaches back, it is unknown that nothing was missed.
        for z in range(100):
            fake_view.put(("a", {"n": 1, "z": -z}))
        late = ChosenSink(parse_field_mask("n"))
        await hub.join(request(requested("n"), position=before), late)
        assert isinstance(late.outcomes[-1], Initial)
        assert late.rows == {"a": {"n": 1}}


async def test_subscribers_of_the_same_fields_share_one_encoding() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1, "z": 0}))
    async with hub_of(fake_view) as hub:
        sinks = [ChosenSink(parse_field_mask(listed)) for listed in ("n,z", "z,n", "z")]
        for sink, listed in zip(sinks, ("n,z", "z,n", "z"), strict=True):
            await hub.join(request(requested(listed)), sink)
        (channel,) = hub.followers[VIEW].channels.values()
        assert sorted(len(outlet.live) for outlet in channel.encoders.values()) == [1, 2]
        states = [sink.outcomes[0] for sink in sinks]
        assert all(isinstance(state, Initial) for state in states)


async def test_two_step_subscription_is_projected() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f", "n": 1}))
    channel = with_fields(await register(fake_view, "G"), "n")
    async with hub_of(fake_view) as hub:
        wanted = parse_channel(channel)
        sink = ChosenSink(wanted.fields)
        await hub.join(request(wanted, subscription="G"), sink)
        assert isinstance(sink.outcomes[0], Waiting)
        await fake_view.reader.begin(VIEW, "G", 60_000)
        await until(lambda: sink.position)
        assert sink.rows == {"a": {"n": 1}}


@pytest.mark.parametrize("listed", ["", "a,,b", "a,"])
def test_invalid_field_list_names_the_character(listed: str) -> None:
    with pytest.raises(BadQuery, match="character"):
        parse_channel(f"{VIEW}?fields={listed}")
    with pytest.raises(BadQuery, match="character"):
        parse_channel(f"q:{VIEW}:0123456789abcdef?fields={listed}")


@pytest.mark.parametrize("seed", range(3))
async def test_random_joins_and_writes_end_with_the_right_rows(seed: int) -> None:
    """Writes, joins, losses, resumes at random: sinks end with their rows, projected."""
    chance = random.Random(seed)
    fake_view = FakeView(log_length=30, exact=bool(seed))
    requests = [requested("n"), requested("o.x", "s%20%3D%20'f'"), requested("s,o"), parse_channel(VIEW)]
    async with hub_of(fake_view) as hub:
        sinks = [(ChosenSink(requests[n % 4].fields, str(n % 3)), requests[n % 4]) for n in range(8)]
        joined_subscriptions: dict[int, Any] = {}

        async def join(n: int) -> None:
            sink, wanted = sinks[n]
            joined_subscriptions[n] = await hub.join(request(wanted, position=sink.position), sink)

        for _ in range(200):
            for _ in range(chance.randrange(3)):
                row: dict[str, object] = {name: chance.randrange(3) for name in "nz" if chance.random() < 0.7}
                row |= {"s": chance.choice("fg"), "o": {name: 1 for name in "xy" if chance.random() < 0.5}}
                key = f"k{chance.randrange(5)}"
                if fake_view.rows().get(key) != row:
                    fake_view.put((key, row))
            n = chance.randrange(len(sinks))
            if not sinks[n][0].attached:
                await join(n)
            elif chance.random() < 0.5:
                hub.leave(joined_subscriptions.pop(n), end=chance.random() < 0.3)
                sinks[n][0].attached = False
            await asyncio.sleep(0)
        follower = hub.followers[VIEW]
        await until(lambda: follower.seq == fake_view.seq)
        for n, (sink, wanted) in enumerate(sinks):
            if not sink.attached:
                await join(n)
            assert wanted.query is not None
            filtered = wanted.query.filter is not None
            all_rows: dict[str, Any] = fake_view.rows()
            rows = {k: v for k, v in all_rows.items() if not filtered or v["s"] == "f"}
            assert sink.rows == cut(rows, wanted.fields)
