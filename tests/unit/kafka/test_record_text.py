from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import UsageError
from distributary.kafka.record_text import (
    FORMATS,
    ConsumedRecord,
    ParsedRecord,
    as_json,
    as_line,
    from_json,
    keyed,
    plain,
    text,
)

optional_bytes = st.none() | st.binary(max_size=20)
consumed = st.builds(
    ConsumedRecord,
    topic=st.just("t"),
    partition=st.integers(0, 99),
    offset=st.integers(0, 1 << 60),
    timestamp=st.integers(0, 1 << 50),
    key=optional_bytes,
    value=optional_bytes,
    headers=st.lists(st.tuples(st.text("ab", max_size=3), optional_bytes), max_size=3).map(tuple),
)


@given(consumed)
def test_record_printed_as_json_parses_to_itself(one: ConsumedRecord) -> None:
    assert from_json(as_json(one)) == ParsedRecord(
        one.key, one.value, one.headers, one.partition, one.timestamp or 0
    )


@given(consumed, st.sampled_from(FORMATS))
def test_any_record_can_be_printed(one: ConsumedRecord, format: str) -> None:
    shown = as_line(one, format, ("timestamp", "partition", "offset", "headers", "key"))
    shown.encode()


@given(st.text())
def test_any_line_is_parsed_or_refused(line: str) -> None:
    with contextlib.suppress(UsageError):
        from_json(line)


def test_lines_are_parsed_by_their_format() -> None:
    assert plain("a:b") == ParsedRecord(None, b"a:b")
    assert keyed("k:a:b", ":") == ParsedRecord(b"k", b"a:b")
    assert keyed("k=>", "=>") == ParsedRecord(b"k", b"")
    assert keyed("k:-", ":", null="-") == ParsedRecord(b"k", None)
    assert plain("\udcff") == ParsedRecord(None, b"\xff"), "bytes that are not UTF-8 stay as they are"
    assert from_json('{"value": {"n": 1.50}, "key": 7}') == ParsedRecord(b"7", b'{"n":1.5}')
    for bad in (
        "",
        "7",
        "{}",
        '{"value": 1, "kay": 2}',
        '{"value": 1, "partition": "x"}',
        '{"value": 1, "headers": 3}',
    ):
        with pytest.raises(UsageError):
            from_json(bad)
    with pytest.raises(UsageError, match="':'"):
        keyed("none", ":")
    assert text(b"\xff\x00", "text") == "\\xff\x00"
    assert text(b"not json", "json") == "not json"
