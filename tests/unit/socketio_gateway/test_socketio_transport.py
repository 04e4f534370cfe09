from __future__ import annotations

import asyncio
from decimal import Decimal
from types import SimpleNamespace

import pytest
from tests.support.clock import LIMIT

from distributary.socketio_gateway.socketio_transport import ExactPacket, SendQueue


def test_numbers_keep_their_digits() -> None:
    assert ExactPacket(encoded_packet='2["subscribe",{"n":1.10}]').data == [
        "subscribe",
        {"n": Decimal("1.10")},
    ]


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
def test_invalid_packet_is_refused(text: str) -> None:
    """Announced attachments would be buffered until all have come."""
    with pytest.raises(ValueError, match=r"\w"):
        ExactPacket(encoded_packet=text)


@pytest.mark.parametrize("number", ["1e2233720368547758088", "-1e-99999999999999999999"])
def test_number_out_of_range_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match="out of range"):
        ExactPacket(encoded_packet=f'2["publish",{{"data":{number}}}]')


async def test_item_counts_as_waiting_until_the_next_is_taken() -> None:
    box = SendQueue()
    for _ in range(3):
        box.put_nowait(SimpleNamespace(data="x" * 10))
    box.put_nowait(None)
    assert box.waiting == 30
    await box.get()
    box.get_nowait()
    assert box.waiting == 30, "both are on their way"
    room = asyncio.create_task(box.wait_below(10))
    await asyncio.sleep(0)
    assert not room.done()
    await box.get()
    async with asyncio.timeout(5 * LIMIT):
        await room
    assert box.waiting == 10
    box.clear()
    assert box.empty()
