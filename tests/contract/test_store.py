"""The contract of every store (see ``distributary.store.contract``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from distributary.errors import BadQuery
from distributary.model.build import Build
from distributary.model.position import Fingerprint, Mark
from distributary.store.contract import LOG_BYTES, SWEEP_BATCH
from distributary.store.errors import Behind, Fenced, NotOwner, TopicReplaced
from distributary.store.log_events import Attached, Begun, Ended, Entries, Gone, Lapsed
from distributary.store.row_index import entry
from distributary.store.store_types import Row
from tests.contract.conftest import Faces
from tests.support.store_groups import change, group

BUILD = Build("odds", "b1")


def begin(store: Faces, partitions: int = 2) -> tuple[Any, Any]:
    store.writer.define("odds", "b1", '{"view":{}}')
    claimed = store.writer.claim(BUILD, "topic-id", partitions)
    return claimed, store.writer.open(BUILD, 0, claimed.claim)


def write(store: Faces, claimed: Any, opened: Any, number: int, *changes: Any, **words: Any) -> int:
    words.setdefault("follows", Mark(number * 10 - 10) if number > 1 else None)
    seq: int = store.writer.write(
        group(BUILD, opened, claimed.claim.generation, number, number * 10, changes, **words)
    )
    return seq


async def test_group_changes_row_log_and_mark_together(store: Faces) -> None:
    claimed, opened = begin(store)
    assert opened.mark is None
    assert write(store, claimed, opened, 1, change("a", {"n": 1}), change("b", {"n": 2})) == 2
    assert write(store, claimed, opened, 2, change("a", {"n": 3})) == 3
    rows = store.writer.rows(BUILD, ["a", "b", "c"])
    assert rows[0] == Row(3, 0, 0, b'{"n":3}')
    assert rows[1] == Row(2, 0, 0, b'{"n":2}')
    assert rows[2] is None
    read = await store.reader.log(BUILD, 0, 100)
    assert (read.seq, read.floor, [e.first for e in read.entries]) == (3, 0, [1, 3])
    assert store.writer.open(BUILD, 0, claimed.claim).mark == Mark(20)


def test_repeated_group_succeeds_and_changes_nothing(store: Faces) -> None:
    claimed, opened = begin(store)
    assert write(store, claimed, opened, 1, change("a", {"n": 1})) == 1
    assert write(store, claimed, opened, 1, change("a", {"n": 1})) == 1
    assert store.writer.build(BUILD).seq == 1


def test_fingerprints_are_stored_with_the_marks(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}), fingerprint="10:111")
    write(store, claimed, opened, 2, change("a", {"n": 2}))
    found = store.writer.build(BUILD).fingerprints
    assert dict(found.read) == {0: Fingerprint(10, 111)}, "a group without one leaves it as it is"
    ends, last = {0: 31, 1: 5}, {0: Fingerprint(30, 2**32 - 1), 1: Fingerprint(4, 4)}
    assert store.writer.advance(BUILD, claimed.claim, ends, last=last)
    assert store.writer.advance(BUILD, claimed.claim, {0: 20}, last={0: Fingerprint(19, 1)}), "is passed over"
    copied = {0: Fingerprint(7, 7)}
    assert store.writer.advance(
        BUILD, claimed.claim, {1: 9}, rekey=True, last={1: Fingerprint(8, 8)}, copied=copied
    )
    found = store.writer.claim(BUILD, "topic-id", 2).fingerprints
    assert (dict(found.read), dict(found.source), dict(found.copied)) == (
        last,
        {1: Fingerprint(8, 8)},
        copied,
    )


def test_assignment_is_read_under_the_same_claim(store: Faces) -> None:
    claimed, _ = begin(store)
    assert list(store.writer.assigned(BUILD, claimed.claim)) == []
    store.writer.assign(BUILD, claimed.claim, [4, 3, 0, 2, 1])
    assert list(store.writer.assigned(BUILD, claimed.claim)) == [4, 3, 0, 2, 1]
    later = store.writer.claim(BUILD, "topic-id", 2)
    assert list(store.writer.assigned(BUILD, later.claim)) == [], "of another query"


async def test_hundreds_of_concurrent_calls_succeed(store: Faces) -> None:
    begin(store)
    found = await asyncio.gather(
        *(
            store.reader.register(
                "odds", query_id=f"q{n}", text="text", subscription=f"s{n}", ttl_ms=60_000, begun=True
            )
            for n in range(300)
        )
    )
    assert len({one.number for one in found}) == 300


async def test_register_refuses_another_query_under_a_known_id(store: Faces) -> None:
    begin(store)
    first = await store.reader.register(
        "odds", query_id="q1", text="one", subscription="s1", ttl_ms=60_000, begun=True
    )
    with pytest.raises(BadQuery, match="another query"):
        await store.reader.register(
            "odds", query_id="q1", text="two", subscription="s2", ttl_ms=60_000, begun=True
        )
    assert await store.reader.subscription("odds", "s2") is None
    again = await store.reader.register(
        "odds", query_id="q1", text="one", subscription="s3", ttl_ms=60_000, begun=True
    )
    assert (again.number, again.version, again.created) == (first.number, first.version, False)


async def test_registry_diff_returns_each_step(store: Faces) -> None:
    begin(store)
    assert store.writer.registry_diff("odds", 0) is None
    first = await store.reader.register(
        "odds", query_id="q1", text="one", subscription="s1", ttl_ms=60_000, begun=True
    )
    second = await store.reader.register(
        "odds", query_id="q2", text="two", subscription="s2", ttl_ms=60_000, begun=True
    )
    diff = store.writer.registry_diff("odds", first.version)
    assert [(c.number, c.id, c.text) for c in diff.changes] == [(second.number, "q2", "two")]
    await store.reader.end("odds", "s1")
    diff = store.writer.registry_diff("odds", second.version)
    assert [(c.number, c.id, c.text) for c in diff.changes] == [(first.number, "q1", None)]
    assert store.writer.registry_diff("odds", diff.version) is None
    known = {c.id: c.text for c in store.writer.registry_diff("odds", -1).changes}
    assert known == {"q1": None, "q2": "two"}


def test_older_token_is_fenced(store: Faces) -> None:
    claimed, opened = begin(store)
    store.another_writer().open(BUILD, 0, claimed.claim)
    with pytest.raises(Fenced):
        write(store, claimed, opened, 1, change("a", {"n": 1}))
    assert store.writer.rows(BUILD, ["a"]) == [None]


def test_older_generation_is_fenced(store: Faces) -> None:
    claimed, opened = begin(store)
    store.writer.claim(BUILD, "topic-id", 2)
    with pytest.raises(Fenced):
        write(store, claimed, opened, 1, change("a", {"n": 1}))
    with pytest.raises(Fenced):
        store.writer.open(BUILD, 0, claimed.claim)


def test_group_that_does_not_follow_the_stored_mark_is_fenced(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    with pytest.raises(Fenced):
        write(store, claimed, opened, 2, change("a", {"n": 2}), follows=Mark(9))
    with pytest.raises(Fenced):
        write(store, claimed, opened, 3, change("a", {"n": 2}), follows=Mark(10))


def test_row_has_one_owner(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    other = store.writer.open(BUILD, 1, claimed.claim)
    with pytest.raises(NotOwner) as caught:
        write(store, claimed, other, 1, change("z", {}), change("a", {"n": 2}), partition=1)
    assert (caught.value.key, caught.value.owner) == ("a", 0)
    assert store.writer.rows(BUILD, ["z"]) == [None], "nothing of a refused group is written"


def test_removed_row_may_get_another_owner(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    write(store, claimed, opened, 2, change("a", None))
    other = store.writer.open(BUILD, 1, claimed.claim)
    write(store, claimed, other, 1, change("a", {"n": 2}), partition=1)
    assert store.writer.rows(BUILD, ["a"])[0].owner == 1


def test_empty_group_moves_only_the_mark(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1)
    info = store.writer.build(BUILD)
    assert (info.seq, dict(info.marks)) == (0, {0: Mark(10)})


async def test_write_matched_before_a_registration_is_refused_with_the_query(store: Faces) -> None:
    claimed, opened = begin(store)
    registered = await store.reader.register(
        "odds", query_id="q1", text="text", subscription="s1", ttl_ms=60_000, begun=True
    )
    assert registered.created
    with pytest.raises(Behind) as caught:
        write(store, claimed, opened, 1, change("a", {"n": 1}))
    assert [(s.number, s.id, s.text) for s in caught.value.changes or ()] == [
        (registered.number, "q1", "text")
    ]
    again = change("a", {"n": 1}, adds=[registered.number])
    assert write(store, claimed, opened, 1, again, version=caught.value.version) == 1
    state = await store.reader.query_state("odds", "q1")
    assert (state.since, state.last, state.seq) == (0, 1, 1)


async def test_registry_diff_includes_removed_queries(store: Faces) -> None:
    claimed, _ = begin(store)
    registered = await store.reader.register(
        "odds", query_id="q1", text="text", subscription="s1", ttl_ms=60_000, begun=True
    )
    opened = store.writer.open(BUILD, 0, claimed.claim)
    assert [q.id for q in opened.queries] == ["q1"]
    await store.reader.end("odds", "s1")
    with pytest.raises(Behind) as caught:
        write(store, claimed, opened, 1, change("a", {"n": 1}, adds=[registered.number]))
    assert [(s.number, s.text) for s in caught.value.changes or ()] == [(registered.number, None)]


async def test_since_is_the_count_at_registration(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    registered = await store.reader.register(
        "odds", query_id="q1", text="text", subscription="s1", ttl_ms=60_000, begun=True
    )
    assert registered.state.since == 1
    assert (
        await store.reader.register(
            "odds", query_id="q1", text="text", subscription="s2", ttl_ms=60_000, begun=True
        )
    ).created is False


async def test_query_is_removed_with_its_last_subscription(store: Faces) -> None:
    begin(store)
    for id in ("s1", "s2"):
        await store.reader.register(
            "odds", query_id="q1", text="text", subscription=id, ttl_ms=60_000, begun=False
        )
    assert await store.reader.end("odds", "s1")
    assert not await store.reader.end("odds", "s1")
    assert await store.reader.query_text("odds", "q1") is not None
    assert await store.reader.end("odds", "s2")
    assert await store.reader.query_text("odds", "q1") is None
    assert store.writer.registry("odds")[1] == []


async def test_subscription_begins_once(store: Faces) -> None:
    begin(store)
    await store.reader.register(
        "odds", query_id="q1", text="text", subscription="s1", ttl_ms=60_000, begun=False
    )
    assert (await store.reader.subscription("odds", "s1")).begun is False
    assert await store.reader.begin("odds", "s1", 60_000) is True
    assert await store.reader.begin("odds", "s1", 60_000) is False
    assert (await store.reader.subscription("odds", "s1")).begun is True
    with pytest.raises(KeyError):
        await store.reader.begin("odds", "nobody", 60_000)
    assert await store.reader.find_subscription("s1") == "odds"
    assert await store.reader.find_subscription("s9") is None


async def test_lapsed_subscriptions_are_swept_and_renewed_ones_stay(store: Faces) -> None:
    begin(store)
    await store.reader.register(
        "odds", query_id="q1", text="text", subscription="short", ttl_ms=1, begun=True
    )
    await store.reader.register(
        "odds", query_id="q2", text="text", subscription="long", ttl_ms=60_000, begun=True
    )
    while await store.reader.subscription("odds", "short") is not None:
        await asyncio.sleep(0.002)
    assert await store.reader.sweep("odds") == ["short"]
    assert await store.reader.sweep("odds") == []
    assert await store.reader.renew("odds", ["short", "long"], 60_000) == ["short"]
    assert [q.id for q in store.writer.registry("odds")[1]] == ["q2"]


async def test_sweep_removes_one_batch(store: Faces) -> None:
    begin(store)
    for number in range(SWEEP_BATCH + 5):
        await store.reader.register(
            "odds", query_id="q1", text="text", subscription=f"s{number}", ttl_ms=1, begun=True
        )
    while await store.reader.subscription("odds", f"s{SWEEP_BATCH + 4}") is not None:
        await asyncio.sleep(0.002)
    first, second = await store.reader.sweep("odds"), await store.reader.sweep("odds")
    assert (len(first), len(second)) == (SWEEP_BATCH, 5)
    assert len({*first, *second}) == SWEEP_BATCH + 5
    assert store.writer.registry("odds")[1] == []


async def test_revocation_is_per_user_and_never_goes_back(store: Faces) -> None:
    assert await store.reader.revoked(["ann", "bob"]) == {}
    first = await store.reader.revoke("ann")
    assert first > 0
    assert await store.reader.revoked(["bob", "ann"]) == {"ann": first}
    again = await store.reader.revoke("ann")
    assert again >= first
    assert await store.reader.revoked([f"user {n}" for n in range(2500)] + ["ann"]) == {"ann": again}
    assert await store.reader.revoked([]) == {}


async def test_old_revocations_are_deleted_with_the_next_one(store: Faces) -> None:
    revoked_at = max([await store.reader.revoke(user) for user in ("ann", "key:reports", "bob")])
    while await store.reader.revoke("eve", keep_ms=60_000) <= revoked_at + 20:
        await asyncio.sleep(0.001)
    assert sorted(await store.reader.revoked(["ann", "bob", "eve"])) == ["ann", "bob", "eve"]
    last = await store.reader.revoke("bob", keep_ms=20)
    found = await store.reader.revoked(["ann", "bob", "key:reports"])
    assert found.pop("bob") == last
    assert list(found) == ["key:reports"], "a key has no end, so what ended it has none"


async def test_register_fails_for_an_unknown_view(store: Faces) -> None:
    with pytest.raises(KeyError):
        await store.reader.register(
            "nope", query_id="q1", text="text", subscription="s1", ttl_ms=60_000, begun=True
        )
    assert await store.reader.view("nope") is None


async def test_trimmed_log_reports_its_floor(store: Faces) -> None:
    claimed, opened = begin(store)
    for number in range(1, 400):
        write(store, claimed, opened, number, change("a", {"n": number}), new=False)
    read = await store.reader.log(BUILD, 0, 10_000)
    assert read.seq == 399
    assert 0 < read.floor <= 399 - 50
    assert read.entries[0].first == read.floor + 1
    assert [e.last for e in read.entries] == list(range(read.floor + 1, 400))


async def test_log_read_is_limited_in_changes_not_groups(store: Faces) -> None:
    claimed, opened = begin(store)
    for number in range(1, 6):
        write(store, claimed, opened, number, *(change(f"k{n}", {"n": number}) for n in range(10)))
    read = await store.reader.log(BUILD, 0, 25)
    assert [entry.last for entry in read.entries] == [10, 20, 30]
    read = await store.reader.log(BUILD, 30, 1)
    assert ([entry.last for entry in read.entries], read.seq) == ([40], 50)
    assert (await store.reader.log(BUILD, 35, 1)).entries[0].last == 40, "whole groups"
    assert (await store.reader.log(BUILD, 50, 25)).entries == []


async def test_log_read_is_limited_in_bytes(store: Faces) -> None:
    claimed, opened = begin(store)
    large = {"filler": "x" * (LOG_BYTES // 4)}
    for number in range(1, 11):
        write(store, claimed, opened, number, change("a", large | {"n": number}))
    numbers: list[int] = []
    while len(numbers) < 10:
        entries = (await store.reader.log(BUILD, len(numbers), 1_000)).entries
        assert 1 <= len(entries) <= 4
        numbers += [entry.last for entry in entries]
    assert numbers == list(range(1, 11))
    huge = {"filler": "x" * LOG_BYTES * 2}
    write(store, claimed, opened, 11, change("a", huge))
    assert len((await store.reader.log(BUILD, 10, 1_000)).entries) == 1, "one group always comes"


async def test_pages_contain_every_row(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, *(change(f"k{i}", {"n": i}) for i in range(1000)))
    cursor, rows_read = 0, {}
    while True:
        page = await store.reader.page(BUILD, cursor, 100)
        rows_read.update(page.rows)
        assert page.seq == 1000
        cursor = page.cursor
        if not cursor:
            break
    assert len(rows_read) == 1000
    found = await store.reader.rows(BUILD, ["nope", "k1", "nor this"])
    assert (found.epoch, found.seq) == (page.epoch, 1000)
    assert [(key, row.json) for key, row in found.rows] == [("k1", b'{"n":1}')]


async def test_pages_contain_a_row_that_stays_while_others_are_removed(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, *(change(f"k{i}", {"n": i}) for i in range(1000)))
    page = await store.reader.page(BUILD, 0, 100)
    rows_read = dict(page.rows)
    gone = list(rows_read)[:50]
    write(store, claimed, opened, 2, *(change(key, None) for key in gone))
    while page.cursor:
        page = await store.reader.page(BUILD, page.cursor, 100)
        rows_read.update(page.rows)
    assert set(rows_read) >= {f"k{i}" for i in range(1000)} - set(gone)


def test_expired_rows_are_listed(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}), expires=5)
    write(store, claimed, opened, 2, change("b", {"n": 1}), expires=2**50)
    now, due = store.writer.expired(BUILD, 0, 10)
    assert due == ["a"]
    assert now > 1_700_000_000_000
    assert store.writer.expired(BUILD, 1, 10)[1] == []
    write(store, claimed, opened, 3, change("a", None))
    assert store.writer.expired(BUILD, 0, 10)[1] == []


def test_epoch_is_renewed_after_the_server_restarted(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    store.restart()
    writer = store.another_writer()
    later = writer.claim(BUILD, "topic-id", 2, "me")
    assert later.renewed
    assert later.claim.epoch != claimed.claim.epoch
    assert writer.open(BUILD, 1, later.claim).epoch == later.claim.epoch
    with pytest.raises(Fenced):
        writer.write(
            group(BUILD, opened, claimed.claim.generation, 2, 20, [change("a", {"n": 2})], follows=Mark(10))
        )
    assert writer.claim(BUILD, "topic-id", 2).renewed is False


def test_open_is_fenced_after_the_server_restarted_until_a_driver_claims(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    store.restart()
    writer = store.another_writer()
    with pytest.raises(Fenced):
        writer.open(BUILD, 0, claimed.claim)
    with pytest.raises(Fenced):
        writer.open(BUILD, 1, claimed.claim)
    assert writer.build(BUILD).epoch == claimed.claim.epoch, "only a claim renews it"
    assert writer.open(BUILD, 0, writer.claim(BUILD, "topic-id", 2).claim).mark == Mark(10)


def test_filtered_records_move_the_mark_at_the_end_of_a_batch(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    assert store.writer.advance(BUILD, claimed.claim, {0: 30, 1: 5})
    assert dict(store.writer.build(BUILD).marks) == {0: Mark(30), 1: Mark(5)}
    assert store.writer.advance(BUILD, claimed.claim, {0: 20})
    assert store.writer.build(BUILD).marks[0] == Mark(30), "marks never go back"
    write(store, claimed, opened, 2, change("a", {"n": 2}))
    assert not store.writer.advance(BUILD, claimed.claim._replace(epoch="another"), {0: 99})
    assert not store.writer.advance(BUILD, claimed.claim._replace(generation=9), {0: 99})
    store.restart()
    assert not store.another_writer().advance(BUILD, claimed.claim, {})


def test_rule_state_is_stored_with_its_row(store: Faces) -> None:
    claimed, opened = begin(store)
    one = group(BUILD, opened, claimed.claim.generation, 1, 10, [change("a", {"n": 1})])
    one = replace(one, rows={"a": (0, b'{"n":1}\n{"sum":3}', 0, True)})
    store.writer.write(one)
    assert store.writer.rows(BUILD, ["a"]) == [Row(1, 0, 0, b'{"n":1}', b'{"sum":3}')]


def test_claim_refuses_another_topic_or_fewer_partitions(store: Faces) -> None:
    begin(store)
    with pytest.raises(TopicReplaced):
        store.writer.claim(BUILD, "another-topic", 2)
    with pytest.raises(TopicReplaced):
        store.writer.claim(BUILD, "topic-id", 1)
    store.writer.claim(BUILD, "topic-id", 3)


def test_rebuild_is_fenced_for_a_superseded_driver(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    newer = store.writer.claim(BUILD, "topic-id", 2)
    with pytest.raises(Fenced):
        store.writer.rebuild(BUILD, claimed.claim.generation, "topic replaced")
    assert store.writer.open(BUILD, 0, newer.claim).mark == Mark(10)


def test_update_does_not_recreate_a_dropped_build(store: Faces) -> None:
    begin(store)
    store.writer.define("odds", "b2", "{}")
    store.writer.go_live(Build("odds", "b2"))
    assert store.writer.drop(BUILD)
    store.writer.update_build(BUILD, reason="late")
    assert store.writer.build(BUILD) is None


async def test_rebuild_deletes_rows_but_keeps_the_count(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    before = store.writer.build(BUILD)
    store.writer.rebuild(BUILD, claimed.claim.generation, "topic replaced")
    after = store.writer.build(BUILD)
    assert (after.epoch != before.epoch, after.seq, after.floor, after.rows) == (True, 1, 1, 0)
    assert (after.status, after.reason, dict(after.marks)) == ("building", "topic replaced", {})
    with pytest.raises(Fenced):
        store.writer.open(BUILD, 1, claimed.claim)
    store.writer.claim(BUILD, "another-topic", 1)
    with pytest.raises(Fenced):
        write(store, claimed, opened, 2, change("a", {"n": 2}))


async def test_next_build_goes_live(store: Faces) -> None:
    begin(store)
    store.writer.go_live(BUILD)
    store.writer.define("odds", "b2", '{"view":{"n":2}}')
    info = await store.reader.view("odds")
    assert (info.live, info.next) == ("b1", "b2")
    await store.reader.register(
        "odds", query_id="q1", text="text", subscription="s1", ttl_ms=60_000, begun=True
    )
    assert store.writer.go_live(Build("odds", "b2")) == "b1"
    info = await store.reader.view("odds")
    assert (info.live, info.next, info.definition) == ("b2", "", '{"view":{"n":2}}')
    assert info.displaced == ("b1",)
    assert store.writer.drop(BUILD)
    assert store.writer.build(BUILD) is None
    assert (await store.reader.view("odds")).displaced == ()
    assert store.writer.build(Build("odds", "b2")).status == "live"


def test_next_build_is_displaced_when_another_is_defined(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    store.writer.go_live(BUILD)
    for build in ("b2", "b3", "b2", "b4"):
        store.writer.define("odds", build, "{}")
        store.writer.claim(Build("odds", build), "topic-id", 2)
    info = store.writer.views()["odds"]
    assert (info.live, info.next, sorted(info.displaced)) == ("b1", "b4", ["b2", "b3"])
    assert store.writer.drop(Build("odds", "b2"))
    assert store.writer.build(Build("odds", "b2")) is None
    store.writer.define("odds", "b3", "{}")
    assert not store.writer.drop(Build("odds", "b3")), "it is wanted again"
    assert not store.writer.drop(BUILD), "it is served"
    store.writer.define("odds", "b1", "{}")
    info = store.writer.views()["odds"]
    assert (info.live, info.next, sorted(info.displaced)) == ("b1", "", ["b3", "b4"])
    for build in info.displaced:
        assert store.writer.drop(Build("odds", build))
    assert store.writer.views()["odds"].displaced == ()
    assert store.writer.build(BUILD).rows == 1


async def test_quiet_reducer_is_fenced_once_its_build_is_live(store: Faces) -> None:
    """What a quiet build's tasks still have in hand would change rows without a word to subscribers."""
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    store.writer.go_live(BUILD, fence=True)
    with pytest.raises(Fenced):
        write(store, claimed, opened, 2, change("a", {"n": 2}))
    with pytest.raises(Fenced):
        store.writer.open(BUILD, 0, claimed.claim)
    again = store.writer.claim(BUILD, "topic-id", 2)
    assert again.claim.generation > claimed.claim.generation + 1
    assert again.claim.epoch == claimed.claim.epoch


async def test_rows_are_found_by_an_indexed_value(store: Faces) -> None:
    claimed, opened = begin(store)

    def put(number: int, key: str, found: list[tuple[str, str]], lost: list[tuple[str, str]]) -> None:
        follows = Mark(number - 1) if number > 1 else None
        row = change(key, {"n": number} if found else None)
        made = group(
            BUILD, opened, claimed.claim.generation, number, number, [row], follows=follows, new=False
        )
        index = [[entry(field, value, key) for field, value in some] for some in (found, lost)]
        store.writer.write(replace(made, index_added=index[0], index_removed=index[1]))

    async def keys(field: str, value: str, limit: int = 10) -> Any:
        read = await store.reader.find_by_index(BUILD, field, value, limit)
        return None if read is None else (read.seq, [(key, row.json) for key, row in read.rows])

    put(1, "a", [("sport", "sgolf"), ("n", "n1")], [])
    put(2, "b", [("sport", "sgolf")], [])
    put(3, "c", [("sport", "sgolfing")], [])
    put(4, "d\x01 é", [("sport", "s" + "long" * 99)], [])
    assert await keys("sport", "sgolf") == (4, [("a", b'{"n":1}'), ("b", b'{"n":2}')])
    assert await keys("sport", "sgolf", limit=1) is None
    assert await keys("sport", "sgolfing") == (4, [("c", b'{"n":3}')])
    assert await keys("sport", "s" + "long" * 99) == (4, [("d\x01 é", b'{"n":4}')])
    assert await keys("n", "n1") == (4, [("a", b'{"n":1}')])
    assert await keys("spor", "tsgolf") == await keys("sport", "") == (4, [])
    put(5, "a", [("sport", "stennis")], [("sport", "sgolf")])
    put(6, "b", [], [("sport", "sgolf")])
    assert await keys("sport", "sgolf") == (6, [])
    assert await keys("sport", "stennis") == (6, [("a", b'{"n":5}')])
    store.writer.rebuild(BUILD, store.writer.build(BUILD).generation)
    assert (await keys("sport", "stennis"))[1] == []


async def test_rows_are_read_with_the_time_at_which_timed_queries_were_matched(store: Faces) -> None:
    claimed, opened = begin(store)
    assert opened.clock == 0
    first = group(BUILD, opened, claimed.claim.generation, 1, 1, [change("a", {"n": 1})])
    store.writer.write(replace(first, clock=5_000))
    assert (await store.reader.page(BUILD, 0, 10)).clocks == {0: 5_000}
    assert (await store.reader.rows(BUILD, ["a"])).clocks == {0: 5_000}
    assert (await store.reader.find_by_index(BUILD, "f", "v", 1)).clocks == {0: 5_000}
    # A clock may move alone, but not past a query that the writer does not know, whose transition it would
    # miss.
    alone = group(BUILD, opened, claimed.claim.generation, 2, 1, follows=Mark(1))
    await store.reader.register(
        "odds", query_id="q1", text="text", subscription="s1", ttl_ms=60_000, begun=True
    )
    with pytest.raises(Behind):
        store.writer.write(replace(alone, clock=6_000))
    store.writer.write(replace(alone, clock=6_000, version=1))
    store.writer.write(replace(alone, clock=0, version=1, number=3, follows=Mark(1)))
    assert store.writer.open(BUILD, 0, claimed.claim).clock == 6_000
    assert (await store.reader.page(BUILD, 0, 10)).seq == 1
    assert abs(store.writer.now() - (await store.reader.view("odds")).now) < 5_000
    assert [key for key, _ in store.writer.scan(BUILD, 0, 10)[1]] == ["a"]


async def test_dropped_view_leaves_no_keys(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}), expires=5)
    await store.reader.register(
        "odds", query_id="q1", text="text", subscription="s1", ttl_ms=60_000, begun=True
    )
    store.writer.drop_view("odds")
    assert await store.reader.views() == []
    assert store.writer.views() == {}
    assert await store.reader.build(BUILD) is None
    assert await store.reader.subscription("odds", "s1") is None


async def test_last_record_time_is_by_the_stores_clock(store: Faces) -> None:
    begin(store)
    store.writer.mark_source_active("odds")
    info = await store.reader.view("odds")
    assert 0 <= info.now - info.last_record < 60_000


async def test_heartbeats_are_read_back(store: Faces) -> None:
    store.writer.heartbeat("reducers", "1", '{"a":1}')
    await store.reader.heartbeat("publisher", "2", "{}")
    heartbeats = await store.reader.heartbeats()
    assert [(b.component, b.id, b.stats) for b in heartbeats] == [
        ("publisher", "2", "{}"),
        ("reducers", "1", '{"a":1}'),
    ]


async def next_of(tail: AsyncIterator[Any], kind: type) -> Any:
    async with asyncio.timeout(10):
        while True:
            event = await anext(tail)
            if isinstance(event, kind):
                return event


async def test_tail_yields_all_events_in_order(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    tail = store.reader.tail("odds")
    attached = await next_of(tail, Attached)
    assert (attached.build, attached.epoch, attached.seq) == (BUILD, opened.epoch, 1)
    write(store, claimed, opened, 2, change("a", {"n": 2}), change("b", {"n": 1}))
    write(store, claimed, opened, 3, change("a", {"n": 3}))
    got = list((await next_of(tail, Entries)).entries)
    while got[-1].last < 4:
        got += (await next_of(tail, Entries)).entries
    assert [seq for e in got for seq, _ in e.numbered()] == [2, 3, 4]
    await store.reader.register(
        "odds", query_id="q1", text="text", subscription="s1", ttl_ms=60_000, begun=False
    )
    await store.reader.begin("odds", "s1", 60_000)
    assert (await next_of(tail, Begun)).subscription == "s1"
    await store.reader.register(
        "odds", query_id="q1", text="text", subscription="s2", ttl_ms=60_000, begun=False
    )
    assert await store.reader.end("odds", "s2")
    assert not await store.reader.end("odds", "s2", notify=True), "an unknown subscription notifies nobody"
    assert await store.reader.end("odds", "s1", notify=True)
    assert (await next_of(tail, Ended)).subscription == "s1"
    await store.reader.register("odds", query_id="q1", text="text", subscription="s3", ttl_ms=1, begun=False)
    while not await store.reader.sweep("odds"):
        await asyncio.sleep(0.002)
    assert (await next_of(tail, Lapsed)).subscriptions == ("s3",)
    store.writer.rebuild(BUILD, store.writer.build(BUILD).generation)
    assert (await next_of(tail, Attached)).epoch != opened.epoch
    store.writer.drop_view("odds")
    assert (await next_of(tail, Gone)).view == "odds"
    await tail.aclose()


async def test_tail_of_an_unknown_view_yields_gone(store: Faces) -> None:
    tail = store.reader.tail("nope")
    assert isinstance(await anext(tail), Gone)
    await tail.aclose()


async def test_tail_continues_through_a_restart_of_the_server(store: Faces) -> None:
    begin(store)
    tail = store.reader.tail("odds")
    await next_of(tail, Attached)
    store.restart()
    writer = store.another_writer()
    again = writer.claim(BUILD, "topic-id", 2)
    later = writer.open(BUILD, 0, again.claim)
    attached = await next_of(tail, Attached)
    while attached.epoch != later.epoch:
        attached = await next_of(tail, Attached)
    writer.write(group(BUILD, later, again.claim.generation, 1, 10, [change("a", {"n": 1})]))
    assert (await next_of(tail, Entries)).entries[0].last == 1
    await tail.aclose()


async def _passed(store: Faces) -> int:
    """Wait until the store's clock has moved on; return a time that nothing happens at."""
    before = now = store.writer.now()
    while now <= before + 1:
        await asyncio.sleep(0.001)
        now = store.writer.now()
    return int(now) - 1


async def test_log_and_registry_report_the_same_history(store: Faces) -> None:
    begin(store)
    tail = store.reader.tail("odds")
    try:
        attached = await anext(tail)
        registered = await store.reader.register(
            "odds", query_id="q1", text="text", subscription="s1", ttl_ms=60_000, begun=True
        )
        state = await store.reader.query_state("odds", "q1")
        assert attached.history_id == registered.state.history_id == state.history_id != ""
        store.restart()
        again = await asyncio.wait_for(anext(tail), 10)
        assert isinstance(again, Attached)
        assert again.epoch == attached.epoch, "no driver has claimed the build since"
        assert again.history_id != attached.history_id
    finally:
        await tail.aclose()


async def test_checkpoint_is_found_by_count_and_by_time(store: Faces) -> None:
    claimed, opened = begin(store)
    assert await store.reader.find_checkpoint(BUILD, seq=99) is None
    times = []
    for number in range(1, 13):
        write(store, claimed, opened, number, change("a", {"n": number}))
        store.writer.save_checkpoint(BUILD, 0, 10)
        times.append(await _passed(store))
    for number in (3, 9, 10, 12):
        by_seq = await store.reader.find_checkpoint(BUILD, seq=number)
        assert by_seq == await store.reader.find_checkpoint(BUILD, time=times[number - 1])
        assert (by_seq.epoch, by_seq.seq, dict(by_seq.marks)) == (
            opened.epoch,
            number,
            {0: Mark(number * 10)},
        )
    assert await store.reader.find_checkpoint(BUILD, seq=2) is None, "only ten are kept"
    assert await store.reader.find_checkpoint(BUILD, time=times[1]) is None
    assert (await store.reader.find_checkpoint(BUILD, seq=1000)).seq == 12


async def test_checkpoint_is_saved_at_intervals_and_only_after_a_change(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    store.writer.save_checkpoint(BUILD, 60_000, 10)
    await _passed(store)
    write(store, claimed, opened, 2, change("a", {"n": 2}))
    store.writer.save_checkpoint(BUILD, 60_000, 10)
    assert (await store.reader.find_checkpoint(BUILD, seq=2)).seq == 1
    store.writer.save_checkpoint(BUILD, 1, 10)
    saved = await store.reader.find_checkpoint(BUILD, seq=2)
    assert saved.seq == 2
    await _passed(store)
    store.writer.save_checkpoint(BUILD, 1, 10)
    assert await store.reader.find_checkpoint(BUILD, seq=2) == saved
    # Filtered records move the checkpoint, though no change was counted.
    store.writer.advance(BUILD, claimed.claim, {0: 30, 1: 7})
    store.writer.save_checkpoint(BUILD, 1, 10)
    assert (await store.reader.find_checkpoint(BUILD, seq=2)).marks == {0: Mark(30), 1: Mark(7)}


async def test_checkpoints_are_deleted_with_their_epoch(store: Faces) -> None:
    claimed, opened = begin(store)
    write(store, claimed, opened, 1, change("a", {"n": 1}))
    store.writer.save_checkpoint(BUILD, 1, 10)
    store.writer.rebuild(BUILD, store.writer.build(BUILD).generation)
    assert await store.reader.find_checkpoint(BUILD, seq=99) is None
    claimed = store.writer.claim(BUILD, "topic-id", 2)
    store.writer.save_checkpoint(BUILD, 1, 10)
    found = await store.reader.find_checkpoint(BUILD, seq=99)
    assert (found.epoch, found.seq, dict(found.marks)) == (claimed.claim.epoch, 1, {})


def test_go_live_is_fenced_for_another_generation(store: Faces) -> None:
    """A driver that is late must not bring a deleted view back, nor end the building of one made again."""
    claimed, _ = begin(store)
    store.writer.drop_view("odds")
    with pytest.raises(Fenced):
        store.writer.go_live(BUILD, claimed.claim.generation, fence=True)
    assert store.writer.views() == {}
    assert store.writer.build(BUILD) is None
    store.writer.define("odds", BUILD.id, "{}")
    with pytest.raises(Fenced):
        store.writer.go_live(BUILD, claimed.claim.generation, fence=True)
    found = store.writer.build(BUILD)
    assert found is not None
    assert (found.status, found.generation) == ("building", 0)
