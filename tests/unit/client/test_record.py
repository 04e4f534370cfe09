"""Records as they are given and named."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from distributary.client.record import Record, draft
from distributary.kafka.draft import Draft


def test_a_record_is_named_so_that_it_can_be_found() -> None:
    assert str(draft("t", b"abc", "k")) == "the record of 3 bytes with key 'k' for topic t"
    assert str(draft("t", None, None, 4)) == "the record with no value without a key for topic t partition 4"
    assert len(str(draft("t", b"", b"\xff" * 1000))) < 120


def test_what_a_caller_gives_is_brought_into_form() -> None:
    at = datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    made = draft("t", memoryview(b"v"), "ké", 1, {"h": b"x"}, at)  # type: ignore[arg-type]
    assert made == Draft("t", b"v", "ké".encode(), 1, (("h", b"x"),), 1500)
    with pytest.raises(TypeError, match="send_string"):
        draft("t", "text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="0 or more"):
        draft("t", b"", partition=-1)


def test_the_last_header_of_a_name_counts() -> None:
    one = Record("t", 0, 0, None, None, (("a", b"1"), ("a", None)))
    assert one.header("a") is None
    assert one.header("b") is None
    assert one.text == ""
