from __future__ import annotations

from datetime import UTC, datetime

import pytest

from distributary.client.record import Record, outgoing_record
from distributary.kafka.outgoing_record import OutgoingRecord


def test_outgoing_record_is_built_from_what_callers_give() -> None:
    at = datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    built = outgoing_record("t", memoryview(b"v"), "ké", 1, {"h": b"x"}, at)  # type: ignore[arg-type]
    assert built == OutgoingRecord("t", b"v", "ké".encode(), 1, (("h", b"x"),), 1500)
    with pytest.raises(TypeError, match="send_string"):
        outgoing_record("t", "text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="0 or more"):
        outgoing_record("t", b"", partition=-1)


def test_header_returns_the_last_one_of_that_name() -> None:
    one = Record("t", 0, 0, None, None, (("a", b"1"), ("a", None)))
    assert one.header("a") is None
    assert one.header("b") is None
    assert one.text == ""
