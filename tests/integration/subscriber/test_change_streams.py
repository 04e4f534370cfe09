"""The code of the page about MongoDB change streams works."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from tests.support.clock import LIMIT
from tests.support.doc_blocks import blocks
from tests.support.stack import Feeding
from tests.support.wait import eventually

PAGE = "docs/how-to/change-streams.md"


def _as_shown() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in blocks(PAGE):
        if block.language == "python":
            exec(compile(block.text, block.place, "exec"), names)
    return names


async def test_changes_convert_to_change_stream_events(
    feeding: Feeding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISTRIBUTARY_CONTROL_URL", feeding.stack.addresses["control"])
    shown, seen, some, copy = _as_shown(), list[Any](), list[Any](), dict[str, Any]()
    await feeding.view(name="orders", feed={"partitions": 1})

    async def note(events: Any, into: list[Any]) -> None:
        async for event in events:
            into.append(event)

    async def state() -> Any:
        return seen, some, copy

    async with asyncio.TaskGroup() as tasks, asyncio.timeout(60 * LIMIT):
        feeding.produce([("o1", {"status": "new", "note": "x"})])
        await feeding.rows_become("orders", {"o1": {"status": "new", "note": "x"}})
        work = [note(shown["watch"](), seen), note(shown["watch"](where="status = 'open'"), some)]
        running = [tasks.create_task(one) for one in (*work, shown["mirror"](copy))]
        for n in itertools.count():  # until all three have their snapshots
            feeding.produce([("warm", {"status": "open", "n": n})])
            while copy.get("warm", {}).get("n") != n:
                await asyncio.sleep(0.02)
            if all(into and into[-1]["fullDocument"]["n"] == n for into in (seen, some)):
                break
        seen.clear()
        some.clear()
        feeding.produce(
            [("o2", {"status": "open"}), ("o1", {"status": "open", "note": None}), ("o1", {"total": 5})]
        )
        feeding.produce([("o2", {"status": "done"}), ("o1", None)])
        await eventually(state, lambda _: len(seen) == 5 and len(some) == 5)
        for one in running:
            one.cancel()
    assert [event.pop("_id").partition(":")[1] for event in seen] == [":"] * 5
    o1, o2 = {"_id": "o1"}, {"_id": "o2"}
    assert seen == [
        {"documentKey": o2, "operationType": "insert", "fullDocument": {"status": "open"}},
        {
            "documentKey": o1,
            "operationType": "update",
            "fullDocument": {"status": "open"},
            "updateDescription": {"updatedFields": {"status": "open"}, "removedFields": ["note"]},
        },
        {
            "documentKey": o1,
            "operationType": "update",
            "fullDocument": {"status": "open", "total": 5},
            "updateDescription": {"updatedFields": {"total": 5}, "removedFields": []},
        },
        {
            "documentKey": o2,
            "operationType": "update",
            "fullDocument": {"status": "done"},
            "updateDescription": {"updatedFields": {"status": "done"}, "removedFields": []},
        },
        {"documentKey": o1, "operationType": "delete"},
    ]
    kinds = [(event["documentKey"]["_id"], event["operationType"]) for event in some]
    assert kinds == [("o2", "insert"), ("o1", "insert"), ("o1", "update"), ("o2", "delete"), ("o1", "delete")]
    assert {key: row for key, row in copy.items() if key != "warm"} == {"o2": {"status": "done"}}
