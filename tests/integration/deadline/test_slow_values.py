"""Untrusted values by an operator's schema: one that takes forever becomes a dead letter, in time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.deadline import DeadlinePool
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_router import RecordRouter, TopicRules
from distributary.kafka.value_schema import SchemaReader, avro_reader, json_reader
from distributary.model.filter import compiled, normalize, parse

PATTERN = {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}, "n": {"type": "integer"}}}
TREE = {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}
EVIL = json.dumps({"a": "a" * 60 + "!"}).encode()


@pytest.fixture
async def deadline() -> AsyncIterator[DeadlinePool]:
    pool = DeadlinePool(0.2)
    yield pool
    await pool.close()


def router(reader: SchemaReader, **routes: str) -> RecordRouter:
    tests = tuple((compiled(normalize(parse(text))), topic) for topic, text in routes.items())
    return RecordRouter({"t": TopicRules(reader, tests, "t.dead")})


async def test_value_that_a_pattern_backtracks_on_is_a_dead_letter(deadline: DeadlinePool) -> None:
    slow = router(json_reader(PATTERN))
    assert not slow.is_cheap(OutgoingRecord("t", EVIL))
    found = await slow.route_in_time(OutgoingRecord("t", EVIL, b"k"), deadline)
    assert (found.topic, found.key) == ("t.dead", b"k")
    assert "takes too long to check" in found.reason


async def test_event_loop_runs_while_a_value_is_checked(deadline: DeadlinePool) -> None:
    checking = asyncio.create_task(
        router(json_reader(PATTERN)).route_in_time(OutgoingRecord("t", EVIL), deadline)
    )
    turns = 0
    while not checking.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 3  # checked in the loop itself it would be two


async def test_avro_value_that_crashes_the_decoder_is_a_dead_letter(deadline: DeadlinePool) -> None:
    found = await router(avro_reader(TREE)).route_in_time(OutgoingRecord("t", b"\x02" * 200_000), deadline)
    assert found.topic == "t.dead"
    assert "cannot be checked" in found.reason


async def test_avro_array_of_nulls_is_a_dead_letter(deadline: DeadlinePool) -> None:
    endless = b"\xfe\xff\xff\xff\xff\xff\xff\x7f\x00"
    found = await router(avro_reader({"type": "array", "items": "null"})).route_in_time(
        OutgoingRecord("t", endless), deadline
    )
    assert found.topic == "t.dead"


async def test_slow_value_is_routed_by_its_fields(deadline: DeadlinePool) -> None:
    chosen = router(json_reader(PATTERN), big="n > 5")
    for number, topic in ((1, "t"), (9, "big")):
        one = OutgoingRecord("t", json.dumps({"a": "aa", "n": number}).encode())
        assert (await chosen.route_in_time(one, deadline)).topic == topic


async def test_records_of_one_sender_stay_in_order(deadline: DeadlinePool) -> None:
    slow, passed = router(json_reader(PATTERN)), []

    async def send(number: int) -> None:
        one = OutgoingRecord("t", json.dumps({"n": number, "a": "a" * 10}).encode(), sender="ann")
        passed.append((await slow.route_in_time(one, deadline)).value)

    await asyncio.gather(*map(send, range(50)))
    assert [json.loads(value or b"")["n"] for value in passed] == list(range(50))


SCHEMAS: list[Any] = [
    PATTERN,
    {"type": "object", "patternProperties": {"^n": {"type": "integer"}}, "required": ["a"]},
    {"uniqueItems": True},
    {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "integer"}]},
]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(st.sampled_from("ab")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(("a", "n", "nn")), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from(SCHEMAS), VALUES), min_size=5, max_size=30))
def test_result_with_a_deadline_equals_the_one_without(cases: list[tuple[Any, Any]]) -> None:
    async def compare() -> None:
        deadline = DeadlinePool(20.0)
        try:
            for schema, value in cases:
                checked, one = router(json_reader(schema)), OutgoingRecord("t", json.dumps(value).encode())
                assert not checked.is_cheap(one)
                inline, timed = checked.route(one), await checked.route_in_time(one, deadline)
                assert (timed.topic, timed.reason) == (inline.topic, inline.reason)
        finally:
            await deadline.close()

    asyncio.run(compare())
