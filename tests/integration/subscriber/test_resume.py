"""Event streams that break and resume by their last id, or start again where the log is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from tests.integration.conftest import Database
from tests.integration.subscriber.conftest import Start
from tests.support.counted_view import COUNTED, VIEW
from tests.support.reducer_harness import ReducerHarness
from tests.support.sse_reader import Event, Stream
from tests.support.stack import Feeding

from distributary.store.redis_writer import RedisWriter

pytestmark = pytest.mark.slow


@asynccontextmanager
async def events(http: str, view: str, last: str = "", query: str = "") -> AsyncIterator[Stream]:
    url = f"{http}/v1/views/{view}/events?{query}"
    headers = {"Last-Event-ID": last} if last else {}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        yield Stream(response)


async def begin(stream: Stream) -> tuple[list[Event], Event]:
    """Read up to ready; return what came before, and ready."""
    before = []
    while (event := await stream.next()).name != "ready":
        before.append(event)
    return before, event


async def test_cut_connection_resumes_from_the_log(feeding: Feeding) -> None:
    view = await feeding.view(key="id", feed={"partitioned_by": "id"})
    http = feeding.stack.addresses["http"]
    feeding.produce([("a", {"id": "a", "s": "f", "n": 0}), ("b", {"id": "b", "s": "g", "n": 0})])
    await feeding.rows_become(view, {"a": {"id": "a", "s": "f", "n": 0}, "b": {"id": "b", "s": "g", "n": 0}})
    query = "where=s%20%3D%20'f'"
    async with events(http, view, query=query) as stream:
        (state,), ready = await begin(stream)
        assert (state.data["rows"], ready.data["recovered"]) == (
            [["a", {"id": "a", "s": "f", "n": 0}]],
            False,
        )
        feeding.produce([("a", {"id": "a", "n": 1})])
        last = await stream.next()
        assert last.data["changed"] == {"n": 1}
        assert stream.response.connection is not None
        assert stream.response.connection.transport is not None
        stream.response.connection.transport.abort()
    feeding.produce(
        [(id, {"id": id, "n": n}) for n in range(2, 5) for id in "ab"] + [("b", {"id": "b", "s": "f"})]
    )
    row: dict[str, Any] = {"s": "f", "n": 4}
    await feeding.rows_become(view, {"a": {"id": "a", **row}, "b": {"id": "b", **row}})
    async with events(http, view, last.id, query) as stream:
        missed, ready = await begin(stream)
        assert ready.data["recovered"] is True
        of_a = [e.data["changed"]["n"] for e in missed if e.data["key"] == "a"]
        of_b = [(e.data["op"], e.data["row"]["n"]) for e in missed if e.data["key"] == "b"]
        assert (of_a, of_b) == ([2, 3, 4], [("add", 4)])
        seqs = [int(e.id.rpartition(":")[2]) for e in (last, *missed)]
        assert seqs == sorted(set(seqs)), "positions grow"
        feeding.produce([("a", {"id": "a", "n": 5})])
        after = await stream.next()
        assert (after.name, after.data["changed"]) == ("change", {"n": 5})
    epoch, _, seq = after.id.rpartition(":")
    for other in (f"other:{seq}", f"{epoch}:{int(seq) + 100}", "nonsense"):
        async with events(http, view, other, query) as stream:
            before, ready = await begin(stream)
            assert ([e.name for e in before], ready.data["recovered"]) == (["snapshot"], False)
            assert dict(before[0].data["rows"])["a"]["n"] == 5


async def test_trimmed_log_leads_to_a_new_snapshot(database: Database, publish: Start) -> None:
    writer = RedisWriter(database.url)
    writer.define(VIEW, COUNTED.build, COUNTED.text)
    writer.close()
    folding = ReducerHarness(database.url, COUNTED, log_length=100)
    folding.go_live()
    folding.fold(a={"n": 0}, b={"n": 0})
    http = (await asyncio.to_thread(publish, database.url)).addresses["http"]
    async with events(http, VIEW, query="keys=a") as a, events(http, VIEW, query="keys=b") as b:
        gone, materialized = (await begin(a))[1].id, (await begin(b))[1].id
        for n in range(1, 1_000):
            folding.fold(a={"n": n})
        while (await a.next()).data["changed"]["n"] < 999:
            pass
        async with events(http, VIEW, gone, "keys=a") as again:
            before, ready = await begin(again)
            assert ([e.name for e in before], ready.data["recovered"]) == (["snapshot"], False)
            assert before[0].data["rows"] == [["a", {"n": 999}]]
        async with events(http, VIEW, materialized, "keys=b") as again:
            before, ready = await begin(again)
            assert (before, ready.data["recovered"]) == ([], True), "nothing of it was in what is gone"
            folding.fold(b={"n": 1})
            assert (await again.next()).data["changed"] == {"n": 1}
    folding.store.close()
