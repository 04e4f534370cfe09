from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gateway.refusals import refusal

from distributary.errors import GatewayError
from distributary.gateway.proxy.bodies import Splitter, batch, places, record

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


@pytest.mark.parametrize("raw", [b"[]", b"5", b'{"a"', b"{} x", b"\xff", b'{"a": nope}'])
def test_what_is_no_sequence_of_objects_is_refused(raw: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        list(Splitter(100).feed(raw, last=True))
    assert caught.value.number == 400


def test_an_object_without_an_end_has_a_limit() -> None:
    splitter = Splitter(100)
    assert not list(splitter.feed(b'{"a": "'))
    assert refusal(list, splitter.feed(b"x" * 99)) == 413


@given(st.binary())
def test_any_body_is_read_or_refused(raw: bytes) -> None:
    for read in (batch, record):
        assert refusal(read, raw) in (None, 400, 422)


def test_keys_and_values_stay_as_they_were_written() -> None:
    read = batch(b'{"records": [{"value": 1.10}, {"key": {"a":  2}, "value": null}], "other": 1}')
    assert [(bytes(one.key), bytes(one.value)) for one in read.records] == [
        (b"null", b"1.10"),
        (b'{"a":  2}', b"null"),
    ]


def test_places() -> None:
    one = {"topic": "t", "partition": 0, "offset": 3}
    assert places({"offsets": [one]}, "offsets", "offset") == [("t", 0, 3)]
    odd: list[dict[str, Any]] = [
        {},
        {"offsets": {}},
        {"offsets": [5]},
        {"offsets": [{"topic": "t", "partition": 0}]},
        {"offsets": [{**one, "offset": -1}]},
        {"offsets": [{**one, "partition": True}]},
        {"offsets": [{**one, "topic": ""}]},
    ]
    assert {refusal(places, body, "offsets", "offset") for body in odd} == {422}
