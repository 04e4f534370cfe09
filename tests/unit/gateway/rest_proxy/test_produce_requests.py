from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gateway.error_code import error_code

from distributary.errors import GatewayError
from distributary.gateway.rest_proxy import produce_requests
from distributary.gateway.rest_proxy.produce_requests import (
    COMMITTED,
    OFFSET,
    PARTITION,
    Item,
    Place,
    Record,
    Splitter,
    batch,
    places,
    record,
)

OBJECTS = st.lists(
    st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text()), max_size=3), max_size=6
)


@settings(max_examples=50)
@given(OBJECTS, st.sampled_from(("", "\n", " \r\n")), st.lists(st.integers(0, 200)), st.booleans())
def test_objects_are_cut_wherever_the_bytes_are(
    objects: list[Any], between: str, cuts: list[int], ascii: bool
) -> None:
    raw = between.join(json.dumps(one, ensure_ascii=ascii) for one in objects).encode(
        "utf-8", "surrogatepass"
    )
    try:
        raw.decode()
    except UnicodeDecodeError:
        return
    splitter, at = Splitter(10_000), 0
    found: list[bytes] = []
    for cut in [*sorted(min(cut, len(raw)) for cut in cuts), len(raw)]:
        found += splitter.feed(raw[at:cut])
        at = cut
    found += splitter.feed(b"", last=True)
    assert [json.loads(one) for one in found] == objects


@pytest.mark.parametrize(
    "raw", [b"[]", b"5", b'{"a"', b"{} x", b"\xff", b'{"a": nope}', b'{"a": "\xff"}', b"{]", b'{"a": [}}']
)
def test_what_is_no_sequence_of_objects_is_refused(raw: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        list(map(record, Splitter(100).feed(raw, last=True)))
    assert caught.value.number == 400


def test_depth_of_an_object_has_a_limit() -> None:
    assert error_code(list, Splitter(10_000).feed(b'{"a":' * 1_000)) == 400


def test_body_that_comes_byte_by_byte_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before is not looked at again: 2 MB in one object, then a byte at a time."""
    looked = []

    class Looking:
        def __init__(self, pattern: re.Pattern[bytes]) -> None:
            self._pattern = pattern

        def match(self, text: bytearray, at: int) -> re.Match[bytes] | None:
            found = self._pattern.match(text, at)
            looked.append(found.end() - at if found else 0)
            return found

    monkeypatch.setattr(produce_requests, "_OUT_OF_TEXT", Looking(produce_requests._OUT_OF_TEXT))
    monkeypatch.setattr(produce_requests, "_IN_TEXT", Looking(produce_requests._IN_TEXT))
    splitter = Splitter(10_000_000)
    assert not list(splitter.feed(b'{"value":"' + b"x" * 2_000_000))
    for _ in range(1_000):
        assert not list(splitter.feed(b"\\"))
        assert not list(splitter.feed(b"n"))
    (found,) = splitter.feed(b'"}', last=True)
    assert sum(looked) <= len(found)


def test_an_object_without_an_end_has_a_limit() -> None:
    splitter = Splitter(100)
    assert not list(splitter.feed(b'{"a": "'))
    assert error_code(list, splitter.feed(b"x" * 99)) == 413


@given(st.binary())
def test_any_body_is_read_or_refused(raw: bytes) -> None:
    for read in (batch, record):
        assert error_code(read, raw) in (None, 400, 422)


def test_keys_and_values_stay_as_they_were_written() -> None:
    read = batch(b'{"records": [{"value": 1.10}, {"key": {"a":  2}, "value": null}]}')
    assert [(bytes(one.key), bytes(one.value)) for one in read.records] == [
        (b"null", b"1.10"),
        (b'{"a":  2}', b"null"),
    ]


@pytest.mark.parametrize(
    ("read", "body", "said"),
    [
        (batch, {"records": [{"value": 1}, {"key": 1, "valeu": 2}]}, ["'valeu'", "records[1]", '"value"']),
        (batch, {"records": [], "value_shema": "x"}, ["'value_shema'", "the body", '"value_schema"']),
        (batch, {"value": {"type": "JSON", "data": 1}}, ["'value'", "records, key_schema"]),
        (
            record,
            {"records": [{"value": {"type": "JSON", "data": 1}}]},
            ["'records'", "partition_id, headers"],
        ),
        (record, {"value": {"type": "JSON", "dta": 1}}, ["'dta'", "at value", '"data"']),
        (record, {"key": {"Type": "JSON", "data": 1}}, ["'Type'", "at key", '"type"']),
        (record, {"headers": [{"name": "h", "vlaue": "x"}]}, ["'vlaue'", "headers[0]", '"value"']),
        (record, {"partition": 0}, ["'partition'", '"partition_id"']),
    ],
)
def test_unknown_field_is_refused_by_name_with_nearest(
    read: Callable[[bytes], Any], body: Any, said: list[str]
) -> None:
    with pytest.raises(GatewayError) as caught:
        read(json.dumps(body).encode())
    assert caught.value.number == 400
    assert not [part for part in said if part not in str(caught.value)], str(caught.value)


@given(st.text())
def test_no_field_is_passed_over(name: str) -> None:
    raw = json.dumps({name: None}).encode()
    assert error_code(record, raw) == (None if name in Record.__struct_fields__ else 400)
    inner = json.dumps({"records": [{name: None}]}).encode()
    assert error_code(batch, inner) == (None if name in Item.__struct_fields__ else 400)


def test_places() -> None:
    one = {"topic": "t", "partition": 0, "offset": 3}
    assert places({"offsets": [one]}, "offsets", OFFSET) == [Place("t", 0, 3)]
    noted = {**one, "metadata": "here"}
    assert places({"offsets": [noted, one]}, "offsets", COMMITTED) == [("t", 0, 3, "here"), ("t", 0, 3, "")]
    odd: list[dict[str, Any]] = [
        {},
        {"offsets": {}},
        {"offsets": [5]},
        {"offsets": [{"topic": "t", "partition": 0}]},
        {"offsets": [{**one, "offset": -1}]},
        {"offsets": [{**one, "partition": True}]},
        {"offsets": [{**one, "topic": ""}]},
        {"offsets": [{**one, "metadata": 5}]},
    ]
    assert {error_code(places, body, "offsets", COMMITTED) for body in odd} == {422}
    assert error_code(places, {"offsets": [noted]}, "offsets", OFFSET) == 400
    assert error_code(places, {"partitions": [one]}, "partitions", PARTITION) == 400
