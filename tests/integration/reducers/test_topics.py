"""What may happen to the topic of a view: it grows, is replaced, loses records, or does not exist yet."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import aiohttp
import redis
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]  # its exports are not declared
from tests.support.clock import LIMIT
from tests.support.stack import Feeding

import distributary
from distributary.kafka import topic_offsets
from distributary.kafka.topics import delete_topic, ensure_topic, topic_config
from distributary.model.build import Build
from distributary.model.position import Mark
from distributary.reducers.rekey import internal_topic
from distributary.store.errors import Fenced
from distributary.store.redis_keys import BuildKeys


def _grow(feeding: Feeding, partitions: int) -> None:
    admin = feeding.stack.admin()
    grown = admin.create_partitions([NewPartitions(feeding.topic, partitions)])
    grown[feeding.topic].result(20 * LIMIT)


def _delete_records(feeding: Feeding, before: int) -> None:
    admin, place = feeding.stack.admin(), TopicPartition(feeding.topic, 0, before)
    admin.delete_records([place])[place].result(20 * LIMIT)


async def test_new_partitions_are_read_from_their_first_record(feeding: Feeding) -> None:
    plain = await feeding.view(feed={"partitions": 2})
    settings: dict[str, Any] = {"key": "sport", "reduce": "aggregate", "aggregates": {"bets": "count()"}}
    rekeyed = await feeding.view(**settings)
    single = Feeding(feeding.stack)
    from_one = await single.view(**settings, feed={"partitions": 1})
    for one in (feeding, single):
        one.produce([("a", {"sport": "x"})], partition=0)
    await feeding.rows_become(plain, {"a": {"sport": "x"}})
    await single.rows_become(from_one, {"x": {"sport": "x", "bets": 1}})
    for one in (feeding, single):
        _grow(one, 4)
        for partition in (2, 3, 2, 3):
            one.produce([(f"k{partition}", {"sport": "y"})], partition=partition)
    began = time.monotonic()
    rows = {"a": {"sport": "x"}, "k2": {"sport": "y"}, "k3": {"sport": "y"}}
    await feeding.rows_become(plain, rows)
    grouped = {"x": {"sport": "x", "bets": 1}, "y": {"sport": "y", "bets": 4}}
    await feeding.rows_become(rekeyed, grouped)
    assert time.monotonic() - began < 30 * LIMIT
    await single.rows_become(from_one, grouped)
    assert (await single.live(from_one))["rekeyed"] is True, "one partition needed no re-keying; four do"
    await single.drop()


async def test_view_is_rekeyed_when_keys_move_because_its_topic_grew(feeding: Feeding) -> None:
    """With more partitions the producers' hash puts old keys elsewhere: the view is rebuilt, re-keyed."""
    view = await feeding.view(reduce="aggregate", aggregates={"n": "sum(n)"}, feed={"partitions": 2})
    feeding.produce((f"k{i % 9}", {"n": 1}) for i in range(90))
    await feeding.rows_become(view, {f"k{i}": {"n": 10} for i in range(9)})
    _grow(feeding, 5)
    feeding.produce((f"k{i % 9}", {"n": 1}) for i in range(90))
    await feeding.rows_become(view, {f"k{i}": {"n": 20} for i in range(9)})
    assert (await feeding.live(view))["rekeyed"] is True


async def test_start_at_now_keeps_its_offset_across_restarts(feeding: Feeding) -> None:
    """A view that starts at now must not start at a later now when its query starts again."""
    ensure_topic(feeding.stack.admin(), feeding.topic, 1)
    feeding.produce([("old", {"n": 1})])
    view = await feeding.view(start="now")
    _grow(feeding, 2)
    feeding.produce([("new", {"n": 2})], partition=1)
    await feeding.rows_become(view, {"new": {"n": 2}})
    feeding.produce([("newer", {"n": 3})], partition=0)
    await feeding.rows_become(view, {"new": {"n": 2}, "newer": {"n": 3}})


async def test_view_starts_at_a_time(feeding: Feeding) -> None:
    ensure_topic(feeding.stack.admin(), feeding.topic, 2)
    for at, key in enumerate("abcd"):
        feeding.produce([(key, {"n": at})], partition=at % 2, timestamp=1_700_000_000_000 + at * 1000)
    view = await feeding.view(start="2023-11-14T22:13:22Z")
    await feeding.rows_become(view, {"c": {"n": 2}, "d": {"n": 3}})


async def test_positions_are_mirrored_to_a_consumer_group(feeding: Feeding) -> None:
    view = await feeding.view()
    feeding.produce((str(i), {"n": i}) for i in range(100))
    admin = feeding.stack.admin()
    ends = topic_offsets.end_offsets(admin, feeding.topic)
    assert sum(ends.values()) == 100
    deadline = time.monotonic() + 20 * LIMIT
    group = ConsumerGroupTopicPartitions(f"distributary.{view}")
    while True:
        listed = admin.list_consumer_group_offsets([group])[group.group_id]
        shown = {one.partition: one.offset for one in listed.result(20 * LIMIT).topic_partitions}
        if shown == ends:
            break
        assert time.monotonic() < deadline, shown
        await asyncio.sleep(0.2)
    await feeding.until(view, lambda status: status["lag"] == 0)


async def test_view_is_rebuilt_when_its_topic_is_replaced(feeding: Feeding) -> None:
    """Rebuilt under a new epoch (R8); meanwhile subscribers have to reconnect (R9)."""
    admin = feeding.stack.admin()
    ensure_topic(admin, feeding.topic, 2)
    feeding.produce((f"old{i}", {"n": i}) for i in range(5))
    view = await feeding.view(feed={"create": False})
    before = await feeding.live(view, "realtime")
    delete_topic(admin, feeding.topic)
    await feeding.until(
        view, lambda status: "no topic" in status["reason"] or "no such topic" in status["reason"]
    )
    # As many partitions and more records than before: only the topic's id tells that it is another.
    ensure_topic(admin, feeding.topic, 2)
    feeding.produce((f"new{i}", {"n": i}) for i in range(50))
    refused = await _refusals_until_subscribed(feeding, view)
    # How many depends on how long the build takes; the hub's own tests see that there are some.
    assert all(one["temporary"] and one["code"] == 1100 for one in refused), refused
    await feeding.rows_become(view, {f"new{i}": {"n": i} for i in range(50)})
    after = await feeding.live(view)
    assert after["epoch"] != before["epoch"]
    log = (feeding.stack.folder / ".distributary" / "logs" / "reducers.log").read_text()
    assert f"view {view}: rebuilt, because the topic was replaced" in log


async def _refusals_until_subscribed(feeding: Feeding, view: str) -> list[dict[str, Any]]:
    """Subscribe again and again on one connection; return the errors before a build's new rows came."""
    refused: list[dict[str, Any]] = []
    deadline = time.monotonic() + 60 * LIMIT
    url = feeding.stack.addresses["websocket"]
    async with aiohttp.ClientSession() as http, http.ws_connect(url) as socket:
        await socket.send_json({"id": 1, "connect": {}})
        await socket.receive_json()
        number = 1
        while time.monotonic() < deadline:
            number += 1
            await socket.send_json({"id": number, "subscribe": {"channel": view}})
            while (reply := await socket.receive_json()).get("id") != number:
                pass
            if "error" in reply:
                refused.append(reply["error"])
            elif any(key.startswith("new") for key, _ in reply["subscribe"]["data"]["rows"]):
                return refused
            else:
                number += 1
                await socket.send_json({"id": number, "unsubscribe": {"channel": view}})
            await asyncio.sleep(0.05)
    raise AssertionError(f"the new rows did not come: {refused[-1:]}")


async def test_view_is_incomplete_when_retention_removed_records(feeding: Feeding) -> None:
    admin = feeding.stack.admin()
    ensure_topic(admin, feeding.topic, 1)
    feeding.produce((f"k{i}", {"n": i}) for i in range(10))
    _delete_records(feeding, 5)
    view = await feeding.view()
    await feeding.rows_become(view, {f"k{i}": {"n": i} for i in range(5, 10)})
    assert (await feeding.describe(view))["incomplete"] is True
    async with distributary.subscribe(view, control=feeding.stack.addresses["control"]) as changes:
        assert changes.incomplete is True


async def test_view_is_incomplete_when_rekeyed_records_were_deleted_before_they_were_folded(
    feeding: Feeding,
) -> None:
    """As after a store that went back by more than the time after which folded records are deleted."""
    settings: dict[str, Any] = {"key": "sport", "reduce": "aggregate", "aggregates": {"bets": "count()"}}
    view = await feeding.view(**settings, feed={"partitions": 2})
    feeding.produce((f"u{n}", {"sport": "x"}) for n in range(10))
    await feeding.rows_become(view, {"x": {"sport": "x", "bets": 10}})
    assert (await feeding.describe(view))["incomplete"] is False
    writer, admin = feeding.stack.writer(), feeding.stack.admin()
    build = Build(view, writer.views()[view].live)
    internal = internal_topic(build)
    settings_of = topic_config(admin, internal)
    retention = {name: settings_of[name] for name in ("cleanup.policy", "retention.ms", "retention.bytes")}
    assert retention == {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    info = writer.build(build)
    assert info is not None
    (partition, mark) = next(iter(info.marks.items()))
    topic_offsets.delete_records_before(admin, internal, {partition: mark.offset + 1})
    with redis.Redis.from_url(feeding.stack.config.store.url) as client:
        client.hset(BuildKeys(build).meta, f"m:{partition}", str(Mark(3)))
    feeding.produce([("u", {"sport": "x"})])  # a write that does not follow the mark is refused
    status = await feeding.until(view, lambda status: status.get("incomplete") is True)
    assert status["status"] == "live"


async def test_filtered_records_count_as_read(feeding: Feeding) -> None:
    """At a batch's end the place moves past filtered records (R12): retention may take them."""
    view = await feeding.view(where="n > 1000", engine="microbatch", feed={"partitions": 1})
    feeding.produce((f"k{i}", {"n": i}) for i in range(500))
    await feeding.until(view, lambda status: status["lag"] == 0 and status["records"] == 0)
    store = feeding.stack.writer()
    deadline = time.monotonic() + 20 * LIMIT
    while True:
        info = store.build(Build(view, store.views()[view].live))
        assert info is not None
        if info.marks and info.marks[0].offset == 500:
            break
        assert time.monotonic() < deadline, info
        await asyncio.sleep(0.1)
    _delete_records(feeding, 500)
    await feeding.view(name=view, where="n > 1000", wait=False, feed={"partitions": 1})
    status = await feeding.live(view, "realtime")
    assert status["incomplete"] is False, "it would be, if it went back to the first record"
    feeding.produce([("k", {"n": 2000})])
    await feeding.rows_become(view, {"k": {"n": 2000}})
    store.close()


async def test_a_view_waits_for_its_topic(feeding: Feeding) -> None:
    view = await feeding.view(wait=False, feed={"create": False})
    status = await feeding.until(view, lambda status: bool(status.get("reason")))
    assert f"there is no topic {feeding.topic}" in status["reason"]
    ensure_topic(feeding.stack.admin(), feeding.topic, 1)
    feeding.produce([("a", {"n": 1})])
    await feeding.rows_become(view, {"a": {"n": 1}})
    await feeding.until(view, lambda status: (status["status"], status["reason"]) == ("live", ""))


async def test_records_without_a_row_key_are_dead_letters(feeding: Feeding) -> None:
    """A null record key without ``key``; a tombstone where the key is a field of the value."""
    plain = await feeding.view(feed={"partitions": 1})
    by_id = await feeding.view(key="id", feed={"partitions": 1})
    feeding.produce([(None, {"id": "a"}), ("k", None), ("b", {"id": "b"})])
    await feeding.rows_become(plain, {"b": {"id": "b"}})
    await feeding.rows_become(by_id, {"a": {"id": "a"}, "b": {"id": "b"}})
    letters = feeding.stack.read(f"{feeding.topic}.dead-letters", 2)
    status: dict[Any, Any] = {}
    for message in letters:
        headers: dict[str, Any] = dict(message.headers() or ())
        status[headers["distributary-view"].decode(), message.key()] = headers["distributary-reason"]
    assert status == {
        (plain, f"{feeding.topic}/0/0".encode()): b"no row key: the record has no key",
        (by_id, f"{feeding.topic}/0/1".encode()): (
            b"no row key: the record has no value to read id from, and its key is used as the row key "
            b"only if the feed has partitioned_by = 'id'"
        ),
    }


async def test_rekeyed_view_that_is_deleted_and_defined_again_loses_no_record(feeding: Feeding) -> None:
    """What its first life left on the internal topic must not make its second life look like a zombie."""
    settings: dict[str, Any] = {"key": "sport", "reduce": "aggregate", "aggregates": {"bets": "count()"}}
    view = await feeding.view(**settings, feed={"partitions": 2})
    feeding.produce((f"u{n}", {"sport": "x"}) for n in range(10))
    await feeding.rows_become(view, {"x": {"sport": "x", "bets": 10}})
    writer = feeding.stack.writer()
    try:
        rebuilt = 0
        while rebuilt < 20:  # as many new generations, as after as many starts of its driver
            build = Build(view, writer.views()[view].live)
            info = writer.build(build)
            assert info is not None
            with contextlib.suppress(Fenced):  # its driver claims it again meanwhile
                writer.rebuild(build, info.generation, "a test")
                rebuilt += 1
    finally:
        writer.close()
    feeding.produce((f"u{n}", {"sport": "x"}) for n in range(10))
    await feeding.rows_become(view, {"x": {"sport": "x", "bets": 20}})
    await feeding.drop()
    await feeding.until(view, lambda status: "status" not in status)
    again = await feeding.view(name=view, **settings, feed={"partitions": 2})
    feeding.produce((f"u{n}", {"sport": "x"}) for n in range(10))
    await feeding.rows_become(again, {"x": {"sport": "x", "bets": 30}})
