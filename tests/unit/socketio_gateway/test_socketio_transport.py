from __future__ import annotations

import asyncio
from decimal import Decimal
from types import SimpleNamespace

import pytest
from tests.support.clock import LIMIT

from distributary.socketio_gateway.socketio_transport import Outbox, Packet


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


async def test_what_was_taken_waits_until_more_is_asked_for() -> None:
    box = Outbox()
    for _ in range(3):
        box.put_nowait(SimpleNamespace(data="x" * 10))
    box.put_nowait(None)
    assert box.waiting == 30
    await box.get()
    box.get_nowait()
    assert box.waiting == 30, "both are on their way"
    room = asyncio.create_task(box.room(10))
    await asyncio.sleep(0)
    assert not room.done()
    await box.get()
    async with asyncio.timeout(5 * LIMIT):
        await room
    assert box.waiting == 10
    box.drop()
    assert box.empty()
