from __future__ import annotations

from decimal import Decimal

import pytest

from distributary.socketio_gateway.packets import Packet


def test_numbers_keep_their_digits() -> None:
    assert Packet(encoded_packet='2["subscribe",{"n":1.10}]').data == ["subscribe", {"n": Decimal("1.10")}]


@pytest.mark.parametrize(
    "text",
    [
        "2[]",
        '2["connect"]',
        "2{}",
        '2["a",NaN]',
        '51-["a",{"_placeholder":true,"num":0}]',
        '59999999999-["a"]',
    ],
)
def test_what_is_no_packet_of_ours_is_refused(text: str) -> None:
    """Announced attachments would each be kept until all have come."""
    with pytest.raises(ValueError, match=r"\w"):
        Packet(encoded_packet=text)


@pytest.mark.parametrize("number", ["1e2233720368547758088", "-1e-99999999999999999999"])
def test_number_beyond_all_bounds_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match="beyond all bounds"):
        Packet(encoded_packet=f'2["publish",{{"data":{number}}}]')
