"""SQL for values that name their schema, and why those cannot be read that are broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.model.feed import Feed
from distributary.reducers.confluent_framing import Known, decode_sql, explain, unknown_ids

AVRO, JSON = Feed("f", "t", "avro"), Feed("f", "t", framed=True)
BET = {"type": "record", "name": "Bet", "fields": [{"name": "id", "type": "string"}]}


@given(st.binary(max_size=12), st.dictionaries(st.integers(0, 2**32 - 1), st.just("why not")))
def test_explain_gives_a_reason_for_every_unreadable_value(value: bytes, unusable: dict[int, str]) -> None:
    assert explain(value, AVRO, unusable).startswith("not framed") == (len(value) < 5 or value[0] != 0)
    assert "JSON" in explain(value, JSON, unusable)


def test_explain_names_the_schema_of_a_value() -> None:
    assert explain(b"\0\0\0\1\2", AVRO, {258: "the schema registry has no schema 258"}).endswith(
        "no schema 258"
    )
    assert "Avro with the schema 258" in explain(b"\0\0\0\1\2\0", AVRO, {})


@given(st.lists(st.integers(0, 2**32 - 1), max_size=3))
def test_unknown_ids_are_read_from_the_text_of_a_failed_query(ids: list[int]) -> None:
    text = "\n".join(f"Exception: [USER_RAISED_EXCEPTION] SchemaUnknown:{id}: SQLSTATE: P0001" for id in ids)
    assert unknown_ids(f"Job aborted\n{text}\n") == set(ids)


def test_a_plan_has_a_branch_for_each_schema_and_one_for_those_that_cannot_be_used() -> None:
    written, decoded = decode_sql(AVRO, Known({1: BET, 300: BET}, {7: "gone", 9: "gone"}))
    assert written.count("from_avro") == 2
    assert "X'000000012C' THEN to_json" in written
    assert "IN (X'0000000007', X'0000000009') THEN null" in written
    assert decoded.endswith("AS decoded")


def test_decode_sql_of_framed_json_contains_no_schema() -> None:
    (text,) = decode_sql(JSON, Known())
    assert "from_avro" not in text


@pytest.mark.parametrize("doc", ["it's", "back\\slash", "${env:HOME}", 'a "word"', "two\nlines"])
def test_decode_sql_escapes_every_string_of_a_schema(doc: str) -> None:
    written, _ = decode_sql(AVRO, Known({1: {**BET, "doc": doc}}))
    assert "$" not in written
    assert written.replace("\\\\", "").replace("\\'", "").count("'") % 2 == 0
