"""The processes that share a port."""

from __future__ import annotations

import json

from tests.support.fake_view import FakeView

from distributary.publisher.hub.peers import SILENT_MS, heard, place_of


async def test_those_of_the_same_place_that_still_speak() -> None:
    fake_view = FakeView()
    clock = [1000.0]
    fake_view.store.clock = lambda: clock[0]
    here = place_of(8001)
    await fake_view.reader.beat("publisher", "silent", json.dumps({"place": here}))
    clock[0] += SILENT_MS / 1000
    await fake_view.reader.beat("publisher", "one", json.dumps({"place": here, "pid": 1}))
    await fake_view.reader.beat("publisher", "two", json.dumps({"place": here, "pid": 2}))
    await fake_view.reader.beat("publisher", "far", json.dumps({"place": "elsewhere:8001"}))
    await fake_view.reader.beat("publisher", "old", json.dumps({"pid": 3}))
    await fake_view.reader.beat("publisher", "odd", "nonsense")
    await fake_view.reader.beat("control", "other", json.dumps({"place": here}))
    found = await heard(fake_view.reader, here)
    assert {id: said["pid"] for id, said in found.items()} == {"one": 1, "two": 2}
