"""The rows of a view by REST, from real store servers, while a reducer writes them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.support.reducer_harness import ReducerHarness
from tests.support.servers import StoreServer

from distributary.config import Config
from distributary.control.app_context import Context
from distributary.control.control_app import make_app
from distributary.control.row_routes import RESULTS
from distributary.model.build import Definition
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.store.redis_reader import RedisReader
from distributary.store.redis_writer import RedisWriter

PAIRS = 4_000
ODDS = Definition(View("odds", "odds", key="id"), Feed("odds", "sportsbook.odds"))


def pairs(first: int, count: int, n: int) -> dict[str, dict[str, Any] | None]:
    """Rows that are always written two and two, so that one state never shows halves of a pair."""
    numbers = [number % PAIRS for number in range(first, first + count)]
    rows: dict[str, dict[str, Any] | None] = {}
    for number in numbers:
        for side in "xy":
            gone = n % 5 == 4 and number % 3 == 0
            rows[f"{side}{number:05}"] = None if gone else {"n": n, "side": side, "even": n % 2 == 0}
    return rows


class Writing:
    """A reducer that writes on a thread until it is stopped."""

    def __init__(self, folding: ReducerHarness) -> None:
        self._folding = folding
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        n = 1
        while not self._over.is_set():
            n += 1
            self._folding.fold(**pairs(n * 37, 10, n))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def folding(store: StoreServer) -> Iterator[ReducerHarness]:
    writer = RedisWriter(store.url)
    writer.define("odds", ODDS.build, ODDS.text)
    writer.close()
    found = ReducerHarness(store.url, ODDS)
    for at in range(0, PAIRS, 1_000):
        found.fold(**pairs(at, 1_000, 0))
    found.go_live()
    yield found
    found.store.close()


@pytest.fixture
async def api(
    store: StoreServer, folding: ReducerHarness, tmp_path: Path
) -> AsyncIterator[TestClient[Any, Any]]:
    reader, writer = RedisReader(store.url), RedisWriter(store.url)
    nobody: Any = None
    app = make_app(Context(Config(data_dir=tmp_path), reader, writer, nobody))
    async with TestClient(TestServer(app)) as client:
        yield client
    await reader.close()
    writer.close()


async def get(api: TestClient[Any, Any], query: str) -> Any:
    async with api.get(f"/v1/views/odds{query}") as reply:
        body = await reply.read()
        assert reply.status == 200, body
        return json.loads(body)


async def walk(api: TestClient[Any, Any], query: str) -> tuple[str, dict[str, Any]]:
    """Read all pages; give their one position and the rows."""
    page = await get(api, f"?{query}")
    rows = dict(page["rows"])
    position, count = page["position"], page["count"]
    while "next" in page:
        page = await get(api, f"?{query}&page={page['next']}")
        assert page["position"] == position
        rows |= dict(page["rows"])
    assert len(rows) == count
    return position, rows


async def test_no_state_shows_half_a_group(api: TestClient[Any, Any], folding: ReducerHarness) -> None:
    seen: set[str] = set()
    with Writing(folding):
        for n in range(12):
            if n % 3 == 0:  # read anew; the others are brought up to date
                api.app[RESULTS]._newest.clear()
            for query in ("limit=3000", "limit=10000&where=even%20%3D%20true"):
                position, rows = await walk(api, query)
                seen.add(position)
                for key, row in rows.items():
                    other = ("y" if key[0] == "x" else "x") + key[1:]
                    assert rows.get(other, {}).get("n") == row["n"], (position, key, row)
    assert len(seen) > 4


async def test_rows_are_those_of_the_view(api: TestClient[Any, Any], folding: ReducerHarness) -> None:
    with Writing(folding):
        await walk(api, "limit=10000")
        await asyncio.sleep(0)
    _, rows = await walk(api, "limit=10000")
    stored = folding.store.rows(folding.build, sorted({*rows, *pairs(0, PAIRS, 0)}))
    held = [json.loads(row.json) for row in stored if row is not None]
    assert list(rows.values()) == held


async def test_tags_through_a_restart_of_the_store(
    api: TestClient[Any, Any], folding: ReducerHarness, store: StoreServer
) -> None:
    async with api.get("/v1/views/odds?keys=x00001") as reply:
        tag = reply.headers["ETag"]
    async with api.get("/v1/views/odds?keys=x00001", headers={"If-None-Match": tag}) as reply:
        assert reply.status == 304
    await asyncio.to_thread(store.kill)
    async with api.get("/v1/views/odds?keys=x00001") as reply:
        assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    await asyncio.to_thread(store.start)
    await asyncio.to_thread(folding.reopen)
    async with api.get("/v1/views/odds?keys=x00001", headers={"If-None-Match": tag}) as reply:
        assert reply.status == 200
        assert reply.headers["ETag"] != tag
