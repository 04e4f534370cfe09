from __future__ import annotations

import asyncio
from types import SimpleNamespace

from tests.support.clock import LIMIT

from distributary.socketio_gateway.socketio_transport import Outbox


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
