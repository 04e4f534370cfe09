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
    JsonSplitter,
    RecordV2,
    RecordV3,
    parse_record,
    parse_request,
)

OBJECTS = st.lists(
    st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text()), max_size=3), max_size=6
)


@settings(max_examples=50)
@given(OBJECTS, st.sampled_from(("", "\n", " \r\n")), st.lists(st.integers(0, 200)), st.booleans())
def test_splitter_yields_objects_however_bytes_are_chunked(
    objects: list[Any], between: str, cuts: list[int], ascii: bool
) -> None:
    raw = between.join(json.dumps(one, ensure_ascii=ascii) for one in objects).encode(
        "utf-8", "surrogatepass"
    )
    try:
        raw.decode()
    except UnicodeDecodeError:
        return
    splitter, at = JsonSplitter(10_000), 0
    found: list[bytes] = []
    for cut in [*sorted(min(cut, len(raw)) for cut in cuts), len(raw)]:
        found += splitter.feed(raw[at:cut])
        at = cut
    found += splitter.feed(b"", last=True)
    assert [json.loads(one) for one in found] == objects


@pytest.mark.parametrize(
    "raw", [b"[]", b"5", b'{"a"', b"{} x", b"\xff", b'{"a": nope}', b'{"a": "\xff"}', b"{]", b'{"a": [}}']
)
def test_splitter_rejects_input_that_is_not_a_sequence_of_objects(raw: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        list(map(parse_record, JsonSplitter(100).feed(raw, last=True)))
    assert caught.value.error_code == 400


def test_splitter_rejects_object_that_is_nested_too_deeply() -> None:
    assert error_code(list, JsonSplitter(10_000).feed(b'{"a":' * 1_000)) == 400


def test_splitter_scans_each_byte_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before is not scanned at again: 2 MB in one object, then a byte at a time."""
    scanned = []

    class CountingPattern:
        def __init__(self, pattern: re.Pattern[bytes]) -> None:
            self._pattern = pattern

        def match(self, text: bytearray, at: int) -> re.Match[bytes] | None:
            found = self._pattern.match(text, at)
            scanned.append(found.end() - at if found else 0)
            return found

    monkeypatch.setattr(
        produce_requests, "_OUTSIDE_STRING", CountingPattern(produce_requests._OUTSIDE_STRING)
    )
    monkeypatch.setattr(produce_requests, "_INSIDE_STRING", CountingPattern(produce_requests._INSIDE_STRING))
    splitter = JsonSplitter(10_000_000)
    assert not list(splitter.feed(b'{"value":"' + b"x" * 2_000_000))
    for _ in range(1_000):
        assert not list(splitter.feed(b"\\"))
        assert not list(splitter.feed(b"n"))
    (found,) = splitter.feed(b'"}', last=True)
    assert sum(scanned) <= len(found)


def test_splitter_rejects_object_that_is_too_large() -> None:
    splitter = JsonSplitter(100)
    assert not list(splitter.feed(b'{"a": "'))
    assert error_code(list, splitter.feed(b"x" * 99)) == 413


@given(st.binary())
def test_any_body_is_parsed_or_rejected(raw: bytes) -> None:
    for read in (parse_request, parse_record):
        assert error_code(read, raw) in (None, 400, 422)


def test_keys_and_values_are_not_rewritten() -> None:
    read = parse_request(b'{"records": [{"value": 1.10}, {"key": {"a":  2}, "value": null}]}')
    assert [(bytes(one.key), bytes(one.value)) for one in read.records] == [
        (b"null", b"1.10"),
        (b'{"a":  2}', b"null"),
    ]


@pytest.mark.parametrize(
    ("read", "body", "message"),
    [
        (
            parse_request,
            {"records": [{"value": 1}, {"key": 1, "valeu": 2}]},
            ["'valeu'", "records[1]", '"value"'],
        ),
        (parse_request, {"records": [], "value_shema": "x"}, ["'value_shema'", "the body", '"value_schema"']),
        (parse_request, {"value": {"type": "JSON", "data": 1}}, ["'value'", "records, key_schema"]),
        (
            parse_record,
            {"records": [{"value": {"type": "JSON", "data": 1}}]},
            ["'records'", "partition_id, headers"],
        ),
        (parse_record, {"value": {"type": "JSON", "dta": 1}}, ["'dta'", "at value", '"data"']),
        (parse_record, {"key": {"Type": "JSON", "data": 1}}, ["'Type'", "at key", '"type"']),
        (parse_record, {"headers": [{"name": "h", "vlaue": "x"}]}, ["'vlaue'", "headers[0]", '"value"']),
        (parse_record, {"partition": 0}, ["'partition'", '"partition_id"']),
    ],
)
def test_unknown_field_is_rejected_with_nearest_name(
    read: Callable[[bytes], Any], body: Any, message: list[str]
) -> None:
    with pytest.raises(GatewayError) as caught:
        read(json.dumps(body).encode())
    assert caught.value.error_code == 400
    assert not [part for part in message if part not in str(caught.value)], str(caught.value)


@given(st.text())
def test_no_field_is_ignored(name: str) -> None:
    raw = json.dumps({name: None}).encode()
    assert error_code(parse_record, raw) == (None if name in RecordV3.__struct_fields__ else 400)
    inner = json.dumps({"records": [{name: None}]}).encode()
    assert error_code(parse_request, inner) == (None if name in RecordV2.__struct_fields__ else 400)
