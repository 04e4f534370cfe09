"""Both servers of the fan-out send the same bytes: ours makes them of a record, the peer is given them."""

from __future__ import annotations

import pytest
from bench.payload import Payload

from distributary.model.change import Change, change_data
from distributary.reducers.row_json import describe_change, read_object


def test_the_peer_gets_what_our_reducer_makes_of_the_records() -> None:
    payload = Payload(150)
    for n in (1, 2, 999_999):
        fields = describe_change(read_object(payload.value(n - 1)), read_object(payload.value(n)))
        ours = change_data(
            Change(key="k", time=payload.time, fields=fields, row=b"", adds=[], changes=[1], removes=[])
        )
        assert payload.data(n) == ours
        assert len(ours) == 150


def test_a_payload_cannot_be_smaller_than_its_frame() -> None:
    with pytest.raises(ValueError, match="at least"):
        Payload(20)
