"""From produced records to rows, through real Kafka, Spark and store."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.support.clock import LIMIT
from tests.support.stack import Feeding

import distributary
from distributary.model.build import Build


async def test_view_keyed_by_a_field_merges_records(feeding: Feeding) -> None:
    view = await feeding.view(key="market_id", where="price > 1.0", feed={"partitioned_by": "market_id"})
    feeding.produce(
        [
            ("a", b'{"market_id":"a","price":1.50}'),
            ("b", b'{"market_id":"b","price":0.50}'),
            ("a", b'{"market_id":"a","name":"x","price":12345678901234567890.10}'),
            ("c", b'{"market_id":"c","price":2}'),
            ("c", b'{"market_id":"c","price":"nothing"}'),
        ]
    )
    await feeding.rows_become(
        view,
        {
            "a": json.loads(b'{"market_id":"a","price":12345678901234567890.10,"name":"x"}'),
            "c": {"market_id": "c", "price": 2},
        },
    )
    async with distributary.subscribe(view, control=feeding.stack.addresses["control"]) as changes:
        assert str(changes.rows["a"]["price"]) == "12345678901234567890.10", "numbers keep their digits"


async def test_record_columns_can_be_used_in_key_where_and_select(feeding: Feeding) -> None:
    view = await feeding.view(
        key="concat(record_key, '-', record_partition)",
        where="record_offset >= 1 and record_headers is not null and record_timestamp > '2020-01-01'",
        select="n, record_key who, record_offset at, unix_millis(record_timestamp) t, n * 2 twice",
        feed={"partitions": 1},
    )
    feeding.produce(
        [("a", {"n": 1}), ("b", {"n": 2.50}), ("c", b'{"n":2.50}')],
        headers=[("h", b"1")],
        timestamp=1_700_000_000_000,
    )
    await feeding.rows_become(
        view,
        {
            "b-0": {"n": 2.5, "who": "b", "at": 1, "t": 1_700_000_000_000, "twice": 5.0},
            "c-0": {"n": 2.5, "who": "c", "at": 2, "t": 1_700_000_000_000, "twice": 5.0},
        },
    )


async def test_text_and_bytes_feeds_are_folded(feeding: Feeding) -> None:
    text = await feeding.view(reduce="latest", where="value like 'h%'", feed={"format": "text"})
    raw = Feeding(feeding.stack)
    data = await raw.view(reduce="latest", feed={"format": "bytes"})
    feeding.produce([("a", b"hello"), ("b", b"no"), ("a", "h\n\u00fc".encode()), ("c", b"hi"), ("c", None)])
    raw.produce([("a", b"\x00\xff")])
    await feeding.rows_become(text, {"a": {"value": "h\nü"}})
    await raw.rows_become(data, {"a": {"value": "AP8="}})
    await raw.drop()


async def test_aggregates_are_computed_by_group_and_window(feeding: Feeding) -> None:
    view = await feeding.view(
        key="sport",
        reduce="aggregate",
        aggregates={"bets": "count()", "total": "sum(stake)", "most": "max(stake)", "mean": "avg(stake)"},
        feed={"partitioned_by": "sport"},
    )
    windows = await feeding.view(
        key="sport",
        reduce="aggregate",
        aggregates={"bets": "count()"},
        window=60,
        time="at",
        feed={"partitioned_by": "sport"},
    )
    feeding.produce(
        [
            ("f", b'{"sport":"f","stake":0.10,"at":"2026-01-01T00:00:10Z"}'),
            ("f", b'{"sport":"f","stake":0.20,"at":"2026-01-01T00:00:50Z"}'),
            ("f", b'{"sport":"f","stake":0.30,"at":"2026-01-01T00:01:10Z"}'),
        ]
    )
    await feeding.rows_become(view, {"f": {"sport": "f", "bets": 3, "total": 0.6, "most": 0.3, "mean": 0.2}})
    start = 1767225600000
    await feeding.rows_become(
        windows,
        {
            f"f@{start}": {"sport": "f", "bets": 2, "window_start": start, "window_end": start + 60_000},
            f"f@{start + 60_000}": {
                "sport": "f",
                "bets": 1,
                "window_start": start + 60_000,
                "window_end": start + 120_000,
            },
        },
    )


async def test_exploded_record_gives_several_rows(feeding: Feeding) -> None:
    view = await feeding.view(
        key="item.id",
        select="explode(items) as item, match",
        reduce="latest",
        feed={"partitions": 1},
    )
    feeding.produce(
        [("m", b'{"match":7,"items":[{"id":"x","n":1},{"id":"y","n":2}]}'), ("m", b'{"match":8,"items":[]}')]
    )
    await feeding.rows_become(
        view, {"x": {"item": {"id": "x", "n": 1}, "match": 7}, "y": {"item": {"id": "y", "n": 2}, "match": 7}}
    )


async def test_python_function_folds_records(feeding: Feeding) -> None:
    view = await feeding.view(reduce="tests.support.fold_functions:longest")
    feeding.produce(
        [
            ("a", {"text": "one"}),
            ("a", {"text": "three"}),
            ("a", {"text": "two"}),
            ("b", {"text": "x"}),
            ("b", None),
        ]
    )
    await feeding.rows_become(view, {"a": {"text": "three", "seen": 3}})


async def test_unreadable_records_are_dead_letters_and_later_records_are_folded(feeding: Feeding) -> None:
    view = await feeding.view(key="id", where="n > 0", feed={"partitions": 1})
    feeding.produce(
        [("a", {"id": "a", "n": 1}), ("bad", b"{broken"), ("nokey", {"n": 5}), ("a", {"id": "a", "n": 2})],
        headers=[("h", b"v")],
    )
    await feeding.rows_become(view, {"a": {"id": "a", "n": 2}})
    letters = feeding.stack.read(f"{feeding.topic}.dead-letters", 2)
    got: dict[Any, Any] = {m.key(): (m.value(), dict(m.headers() or ())) for m in letters}
    value, headers = got[f"{feeding.topic}/0/1".encode()]
    assert value == b"{broken"
    assert headers["distributary-key"] == b"bad"
    assert headers["h"] == b"v"
    assert b"not JSON" in headers["distributary-reason"]
    value, headers = got[f"{feeding.topic}/0/2".encode()]
    assert json.loads(value) == {"n": 5}
    assert b"no row key: id is null or missing" in headers["distributary-reason"]
    await feeding.until(view, lambda status: status.get("dead_letters") == 2)


async def test_tombstone_removes_row_of_view_keyed_by_record_key(feeding: Feeding) -> None:
    view = await feeding.view(where="n > 0")
    feeding.produce([("a", {"n": 1}), ("b", {"n": 2}), ("a", None)])
    await feeding.rows_become(view, {"b": {"n": 2}})


@pytest.mark.parametrize("engine", ["realtime", "microbatch"])
async def test_tombstone_removes_row_of_view_keyed_by_the_field_that_partitions_its_feed(
    feeding: Feeding, engine: str
) -> None:
    by_id: dict[str, Any] = {"key": "id", "engine": engine, "feed": {"partitioned_by": "id"}}
    merged = await feeding.view(**by_id, where="text <> 'no'")
    latest = await feeding.view(**by_id, reduce="latest", select="id, text, upper(text) AS loud")
    folded = await feeding.view(**by_id, reduce="tests.support.fold_functions:longest")
    counted = await feeding.view(**by_id, reduce="aggregate", aggregates={"n": "count()"})
    feeding.produce([("a", {"id": "a", "text": "x"}), ("b", {"id": "b", "text": "y"}), ("c", None)])
    await feeding.rows_become(counted, {"a": {"id": "a", "n": 1}, "b": {"id": "b", "n": 1}})
    feeding.produce([("a", None)])
    await feeding.rows_become(merged, {"b": {"id": "b", "text": "y"}})
    await feeding.rows_become(latest, {"b": {"id": "b", "text": "y", "loud": "Y"}})
    await feeding.rows_become(folded, {"b": {"text": "y", "seen": 1}})
    status = await feeding.until(counted, lambda status: status.get("dead_letters") == 2)
    assert status["engine"] == engine
    await feeding.rows_become(counted, {"a": {"id": "a", "n": 1}, "b": {"id": "b", "n": 1}})
    letters = feeding.stack.read(f"{feeding.topic}.dead-letters", 3, limit=3)
    reasons = [dict(letter.headers() or ())["distributary-reason"] for letter in letters]
    assert reasons == [b"a record without a value cannot be aggregated"] * 2, "of the other views, none"


async def test_values_of_almost_a_megabyte_are_folded(feeding: Feeding) -> None:
    view = await feeding.view(key="id", feed={"partitioned_by": "id"})
    feeding.produce([("a", {"id": "a", "big": "x" * 900_000}), ("b", {"id": "b"})])
    await feeding.rows_become(view, {"a": {"id": "a", "big": "x" * 900_000}, "b": {"id": "b"}})


async def test_view_whose_sql_does_not_compile_stops_with_sparks_message(feeding: Feeding) -> None:
    broken = await feeding.view(wait=False, where="price >")
    wrong = await feeding.view(wait=False, where="no_such_function(price) = 1")
    good = await feeding.view()
    status = await feeding.until(broken, lambda status: status.get("status") == "stopped")
    assert "PARSE_SYNTAX_ERROR" in status["reason"]
    status = await feeding.until(wrong, lambda status: status.get("status") == "stopped")
    assert "UNRESOLVED_ROUTINE" in status["reason"]
    feeding.produce([("a", {"n": 1})])
    await feeding.rows_become(good, {"a": {"n": 1}})


async def test_a_changed_view_is_built_beside_the_old_one_and_takes_over(feeding: Feeding) -> None:
    view = await feeding.view(where="n > 1")
    feeding.produce([("a", {"n": 1}), ("b", {"n": 2})])
    await feeding.rows_become(view, {"b": {"n": 2}})
    async with distributary.subscribe(view, control=feeding.stack.addresses["control"]) as changes:
        assert changes.rows == {"b": {"n": 2}}
        await feeding.view(name=view, where="n > 0", wait=False)
        async for _ in changes:
            if "a" in changes.rows:
                break
        assert changes.rows == {"a": {"n": 1}, "b": {"n": 2}}
        feeding.produce([("c", {"n": 3})])
        async for _ in changes:
            if "c" in changes.rows:
                break


async def test_view_with_another_key_is_rekeyed(feeding: Feeding) -> None:
    view = await feeding.view(
        key="sport",
        where="stake > 0",
        reduce="aggregate",
        aggregates={"bets": "count()", "total": "sum(stake)"},
        feed={"partitions": 3},
    )
    assert (await feeding.live(view, "realtime"))["rekeyed"] is True
    records: list[tuple[str, dict[str, Any]]] = [
        (f"user-{i % 17}", {"sport": "fgt"[i % 3], "stake": i % 5}) for i in range(600)
    ]
    feeding.produce(records)
    expected: dict[str, dict[str, Any]] = {}
    for _, bet in records:
        if bet["stake"] > 0:
            row = expected.setdefault(str(bet["sport"]), {"sport": bet["sport"], "bets": 0, "total": 0})
            row["bets"] += 1
            row["total"] += bet["stake"]
    await feeding.rows_become(view, expected)
    feeding.produce([("x", b"{broken")])
    letters = feeding.stack.read(f"{feeding.topic}.dead-letters", 1)
    assert [m.value() for m in letters] == [b"{broken"], "a dead letter has the source's own bytes"


async def test_row_of_two_partitions_stops_the_view(feeding: Feeding) -> None:
    view = await feeding.view(key="id", feed={"partitions": 2, "partitioned_by": "id"})
    for partition in (0, 1):
        feeding.produce([("k", {"id": "same", "n": partition})], partition=partition)
    status = await feeding.until(view, lambda status: status.get("status") == "stopped")
    assert status["reason"].startswith("row-owner: row 'same' is owned by partition")
    assert "partitioned_by" in status["reason"]


async def test_rows_are_found_by_a_field_that_the_view_indexes(feeding: Feeding) -> None:
    view = await feeding.view(index=["sport"])
    feeding.produce((f"k{n}", {"sport": "xy"[n % 2], "n": n}) for n in range(6))
    rows = {f"k{n}": {"sport": "xy"[n % 2], "n": n} for n in range(6)}
    await feeding.rows_become(view, rows)
    control = feeding.stack.addresses["control"]
    async with distributary.subscribe(view, where="sport = 'x' and n > 0", control=control) as changes:
        assert set(changes.rows) == {"k2", "k4"}
        feeding.produce([("k2", {"sport": "y"})])
        async with asyncio.timeout(20 * LIMIT):
            async for change in changes:
                if change.op == "remove":
                    break
    async with distributary.subscribe(view, where="sport = 'y'", control=control) as changes:
        assert set(changes.rows) == {"k1", "k2", "k3", "k5"}
    reader = feeding.stack.reader()
    info = await reader.view(view)
    assert info is not None
    found = await reader.find_by_index(Build(view, info.live), "sport", "sx", 10)
    assert found is not None
    assert [key for key, _ in found.rows] == ["k0", "k4"]
    await reader.close()
