from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import UsageError
from distributary.kafka.record_text import (
    FORMATS,
    Record,
    Seen,
    as_json,
    as_line,
    from_json,
    keyed,
    plain,
    text,
)

some = st.none() | st.binary(max_size=20)
seen = st.builds(
    Seen,
    topic=st.just("t"),
    partition=st.integers(0, 99),
    offset=st.integers(0, 1 << 60),
    timestamp=st.integers(0, 1 << 50),
    key=some,
    value=some,
    headers=st.lists(st.tuples(st.text("ab", max_size=3), some), max_size=3).map(tuple),
)


@given(seen)
def test_what_is_printed_as_json_is_read_again(one: Seen) -> None:
    assert from_json(as_json(one)) == Record(
        one.key, one.value, one.headers, one.partition, one.timestamp or 0
    )


@given(seen, st.sampled_from(FORMATS))
def test_whatever_is_in_a_record_can_be_shown(one: Seen, format: str) -> None:
    shown = as_line(one, format, ("timestamp", "partition", "offset", "headers", "key"))
    shown.encode()


@given(st.text())
def test_whatever_line_comes_is_read_or_refused(line: str) -> None:
    with contextlib.suppress(UsageError):
        from_json(line)


def test_lines() -> None:
    assert plain("a:b") == Record(None, b"a:b")
    assert keyed("k:a:b", ":") == Record(b"k", b"a:b")
    assert keyed("k=>", "=>") == Record(b"k", b"")
    assert keyed("k:-", ":", null="-") == Record(b"k", None)
    assert plain("\udcff") == Record(None, b"\xff"), "bytes that are no text stay as they are"
    assert from_json('{"value": {"n": 1.50}, "key": 7}') == Record(b"7", b'{"n":1.5}')
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
