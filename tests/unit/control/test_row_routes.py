"""``GET /v1/views/{name}``: rows, formats, pages and caching."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from aiohttp import ClientResponse
from tests.support.control_api import Api, check
from tests.support.fake_view import FakeView
from yarl import URL

from distributary.config import Control
from distributary.control import row_routes as rows_module
from distributary.control.row_routes import RESULTS
from distributary.httpd.cors import CORS, OriginPolicy
from distributary.store import consistent_read
from distributary.store.build_scan import StaleRead

PATH = "/v1/views/odds"


class Rows:
    """The API over a view that the test writes; time is what the test says."""

    def __init__(self, api: Api, fake_view: FakeView) -> None:
        self.api, self.fake_view = api, fake_view
        self.now = 1_700_000_000_000
        fake_view.store.clock = lambda: self.now / 1000
        api.context.reader, api.context.writer = fake_view.reader, fake_view.writer
        self.results = api.client.app[RESULTS]

    def put(self, **rows: dict[str, Any] | None) -> None:
        self.fake_view.put(*rows.items())

    async def ask(self, query: str = "", method: str = "GET", **headers: str) -> tuple[ClientResponse, bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = URL(PATH + query, encoded="%" in query)
        async with self.api.client.request(method, url, headers=named) as reply:
            return reply, await reply.read()

    async def get(self, query: str = "", **headers: str) -> Any:
        reply, body = await self.ask(query, **headers)
        assert reply.status == 200, body
        return json.loads(body)

    async def refused(self, status: int, query: str = "", **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.api.client.get(PATH + query, headers=named) as reply:
            assert reply.headers["Cache-Control"] == "no-store"
            return await check(reply, status)

    async def status(self, query: str = "", **headers: str) -> int:
        return (await self.ask(query, **headers))[0].status


@pytest.fixture
async def rows(tmp_path: Path) -> AsyncIterator[Rows]:
    api = Api(tmp_path)
    async with api.client:
        found = Rows(api, FakeView())
        found.put(
            b={"sport": "golf", "price": msgspec.Raw(b"1.50"), "match": {"id": 2, "name": "x"}},
            a={"sport": "football", "price": msgspec.Raw(b"12345678901234567890.10")},
            c={"sport": "golf", "price": 3},
        )
        yield found


async def test_all_rows_with_their_position(rows: Rows) -> None:
    reply, body = await rows.ask()
    assert body == (
        b'{"view":"odds","position":"%b:3","time":1700000000000,"stale":false,"count":3,"rows":['
        b'["a",{"sport":"football","price":12345678901234567890.10}],'
        b'["b",{"sport":"golf","price":1.50,"match":{"id":2,"name":"x"}}],'
        b'["c",{"sport":"golf","price":3}]]}' % rows.fake_view.epoch.encode()
    )
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["Distributary-Position"] == f"{rows.fake_view.epoch}:3"
    assert reply.headers["Cache-Control"] == "public, max-age=1, stale-while-revalidate=5"
    assert reply.headers["Vary"] == "Accept, Origin"
    assert reply.headers["Last-Modified"] == "Tue, 14 Nov 2023 22:13:20 GMT"
    assert "Link" not in reply.headers


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("?where=sport='golf'", "bc"),
        ("?where=sport='golf' and price=1.5", "b"),
        ("?keys=c,a,z", "ac"),
        ("?key=c&key=b", "bc"),
        ("?where=", "abc"),
        ("?where=sport='chess'", ""),
    ],
)
async def test_rows_of_a_query_are_returned(rows: Rows, query: str, keys: str) -> None:
    found = await rows.get(query)
    assert [key for key, _ in found["rows"]] == list(keys)
    assert (found["count"], found["position"]) == (len(keys), f"{rows.fake_view.epoch}:3")


async def test_only_requested_fields_are_returned(rows: Rows) -> None:
    _, body = await rows.ask("?fields=match.id,price&keys=b,c")
    assert b'[["b",{"match":{"id":2},"price":1.50}],["c",{"price":3}]]' in body


async def test_format_is_chosen_by_accept(rows: Rows) -> None:
    reply, body = await rows.ask("?keys=b", Accept="application/x-ndjson")
    assert reply.headers["Content-Type"] == "application/x-ndjson"
    assert body == b'{"key":"b","row":{"sport":"golf","price":1.50,"match":{"id":2,"name":"x"}}}\n'
    assert reply.headers["Distributary-Position"] == f"{rows.fake_view.epoch}:3"
    reply, body = await rows.ask("?fields=price", Accept="text/html, text/csv;q=0.5")
    assert reply.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"
    assert body == b"key,price\r\na,12345678901234567890.10\r\nb,1.50\r\nc,3\r\n"
    reply, body = await rows.ask("?fields=sport", Accept="application/vnd.apache.arrow.stream")
    assert reply.headers["Content-Type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(io.BytesIO(body)).read_all()
    assert table.to_pydict() == {"key": ["a", "b", "c"], "sport": ["football", "golf", "golf"]}


async def test_unknown_format_is_refused(rows: Rows) -> None:
    error = await rows.refused(406, Accept="text/html")
    assert error["code"] == "format-not-offered"
    assert all(name in error["hint"] for name in ("application/json", "x-ndjson", "text/csv", "arrow"))


# --- what caches ask ------------------------------------------------------------------------------------


async def test_the_tag_stays_until_the_rows_change(rows: Rows) -> None:
    query = "?where=sport='golf'"
    first, body = await rows.ask(query)
    tag = first.headers["ETag"]
    rows.put(a={"sport": "football", "price": 9}, d={"sport": "chess"})
    again, same = await rows.ask(query)
    assert (again.headers["ETag"], same) == (tag, body)
    assert again.headers["Distributary-Position"] == f"{rows.fake_view.epoch}:5"
    reply, nothing = await rows.ask(query, If_None_Match=tag)
    assert (reply.status, nothing, reply.headers["ETag"]) == (304, b"", tag)
    assert reply.headers["Cache-Control"].startswith("public")
    assert reply.headers["Vary"] == "Accept, Origin"
    left: dict[str, Any] = {"sport": "chess"}
    changed, joined = {"sport": "golf", "price": 2}, {"sport": "golf"}
    for key, row in (("b", changed), ("b", None), ("b", joined), ("c", left)):
        rows.put(**{key: row})
        reply, _ = await rows.ask(query, If_None_Match=tag)
        assert reply.status == 200
        assert reply.headers["ETag"] != tag
        tag = reply.headers["ETag"]


async def test_the_tag_is_the_same_in_every_process(rows: Rows) -> None:
    tag = (await rows.ask())[0].headers["ETag"]
    rows.results._entries.clear()
    rows.results._newest.clear()
    assert await rows.status(If_None_Match=tag) == 304


async def test_etag_differs_by_format_page_and_fields(rows: Rows) -> None:
    tags = [
        (await rows.ask(query, Accept=accept))[0].headers["ETag"]
        for query in ("", "?fields=price", "?limit=2", "?where=sport='golf'")
        for accept in ("application/json", "text/csv")
    ]
    assert len(set(tags)) == len(tags)
    assert all(tag.startswith('"') and tag.endswith('"') for tag in tags)


async def test_tag_changes_with_the_epoch(rows: Rows) -> None:
    tag = (await rows.ask())[0].headers["ETag"]
    rows.fake_view.crash()
    reply, body = await rows.ask(If_None_Match=tag)
    assert reply.status == 200
    assert json.loads(body)["position"] == f"{rows.fake_view.epoch}:3"


@pytest.mark.parametrize(
    ("form", "status"),
    [("{}", 304), ("W/{}", 304), ('"x", {}', 304), ("*", 304), ('"x"', 200), ("x", 200)],
)
async def test_if_none_match_is_parsed_in_all_forms(rows: Rows, form: str, status: int) -> None:
    tag = (await rows.ask())[0].headers["ETag"]
    assert await rows.status(If_None_Match=form.format(tag)) == status


async def test_if_modified_since(rows: Rows) -> None:
    # Within the second in which the rows were first seen another change may come: it is not promised.
    told = (await rows.ask())[0].headers["Last-Modified"]
    assert await rows.status(If_Modified_Since=told) == 200
    rows.now += 1_000
    told = (await rows.ask())[0].headers["Last-Modified"]
    assert told == "Tue, 14 Nov 2023 22:13:21 GMT"
    assert await rows.status(If_Modified_Since=told) == 304
    rows.now += 100
    rows.put(a={"price": 1})
    reply, _ = await rows.ask(If_Modified_Since=told)
    assert reply.status == 200
    assert reply.headers["Last-Modified"] == told  # not ahead of the clock
    assert await rows.status(If_Modified_Since=told) == 200
    rows.now += 900
    told = (await rows.ask())[0].headers["Last-Modified"]
    rows.now += 60_000
    rows.put(d={"price": 1})
    assert await rows.status("?keys=a", If_Modified_Since=told) == 200  # first seen only now
    assert (await rows.ask())[0].headers["Last-Modified"] > told


async def test_last_modified_covers_changes_that_were_undone(rows: Rows) -> None:
    query = "?where=sport='golf'"
    tag = (await rows.ask(query))[0].headers["ETag"]
    rows.now += 5_000
    rows.put(d={"sport": "golf"})
    # Another process may have shown that state, at any moment until it was gone.
    rows.now += 5_000
    told = formatdate(rows.now // 1000, usegmt=True)
    rows.now += 500
    rows.put(d=None)
    reply, _ = await rows.ask(query, If_Modified_Since=told)
    assert (reply.status, reply.headers["ETag"]) == (200, tag)


async def test_timed_query_is_evaluated_at_one_time(rows: Rows) -> None:
    rows.put(e={"until": rows.now + 1_500}, f={"until": rows.now + 3_000})
    query = "?where=until > now()"
    first, body = await rows.ask(query)
    assert [key for key, _ in json.loads(body)["rows"]] == ["e", "f"]
    tag, told = first.headers["ETag"], first.headers["Last-Modified"]
    rows.now += 1_000
    assert await rows.status(query, If_None_Match=tag) == 304
    rows.now += 1_000
    reply, body = await rows.ask(query, If_Modified_Since=told)
    assert [key for key, _ in json.loads(body)["rows"]] == ["f"]
    assert reply.headers["ETag"] != tag
    rows.now += 2_000
    assert (await rows.get(query))["rows"] == []


async def test_if_none_match_has_priority_over_if_modified_since(rows: Rows) -> None:
    await rows.ask()
    rows.now += 5_000
    told = (await rows.ask())[0].headers["Last-Modified"]
    assert await rows.status(If_None_Match='"other"', If_Modified_Since=told) == 200
    assert await rows.status(If_Modified_Since="yesterday") == 200


async def test_head_returns_the_headers_of_get(rows: Rows) -> None:
    whole, body = await rows.ask()
    reply, nothing = await rows.ask(method="HEAD")
    assert (reply.status, nothing) == (200, b"")
    assert int(reply.headers["Content-Length"]) == len(body)
    assert reply.headers["ETag"] == whole.headers["ETag"]
    assert (await rows.ask(method="HEAD", If_None_Match=whole.headers["ETag"]))[0].status == 304


async def test_cache_control_follows_the_configuration(rows: Rows) -> None:
    control = replace(rows.api.config.control, cache_max_age=30.9, cache_stale_while_revalidate=0.0)
    rows.api.context.config = replace(rows.api.config, control=control)
    assert (await rows.ask())[0].headers["Cache-Control"] == "public, max-age=30"


async def test_pages_of_other_sites_may_read_the_headers(rows: Rows) -> None:
    rows.api.client.app[CORS].policy = OriginPolicy("control", Control(origins=("https://app.example",)))
    reply, _ = await rows.ask(Origin="https://app.example")
    assert reply.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "Distributary-Position" in reply.headers["Access-Control-Expose-Headers"]
    assert reply.headers.getall("Vary") == ["Accept, Origin"]


# --- pages ----------------------------------------------------------------------------------------------


async def walk(rows: Rows, query: str, between: Any = lambda: None, **headers: str) -> list[bytes]:
    """Follow the links from the first page to the last."""
    pages: list[bytes] = []
    url = URL(PATH + query)
    while True:
        reply, body = await rows.ask(str(url).removeprefix(PATH), **headers)
        assert reply.status == 200, body
        pages.append(body)
        following = reply.links.get("next")
        if following is None:
            return pages
        linked = URL(str(following["url"]))
        url = URL(PATH, encoded=True).with_query(linked.query)
        between()


async def test_all_pages_show_the_first_ones_position(rows: Rows) -> None:
    for n in range(50):
        rows.put(**{f"k{n:02}": {"sport": "golf", "n": n}})
    position, before = rows.fake_view.seq, dict(rows.fake_view.rows())
    changes = iter(range(1000))

    def between() -> None:
        n = next(changes)
        rows.put(**{f"k{n * 7 % 50:02}": {"sport": "chess"}, f"new{n:02}": {"sport": "golf"}, "k00": None})

    pages = [json.loads(page) for page in await walk(rows, "?limit=7&fields=sport,n", between)]
    assert len(pages) == 8
    assert {page["position"] for page in pages} == {f"{rows.fake_view.epoch}:{position}"}
    assert {page["count"] for page in pages} == {53}
    shown = [pair for page in pages for pair in page["rows"]]
    assert [key for key, _ in shown] == sorted(before)
    assert all(before[key][name] == value for key, row in shown for name, value in row.items())  # type: ignore[index]
    assert (await rows.get("?limit=7"))["position"] == f"{rows.fake_view.epoch}:{rows.fake_view.seq}"


async def test_next_is_the_page_that_the_link_leads_to(rows: Rows) -> None:
    query = "?where=sport='golf'&limit=1"
    first = await rows.get(query)
    second = await rows.get(f"{query}&page={first['next']}")
    assert [first["rows"][0][0], second["rows"][0][0], "next" in second] == ["b", "c", False]
    assert [json.loads(page)["rows"][0][0] for page in await walk(rows, query)] == ["b", "c"]


async def test_pages_in_every_format(rows: Rows) -> None:
    assert await walk(rows, "?limit=2&fields=sport", Accept="text/csv") == [
        b"key,sport\r\na,football\r\nb,golf\r\n",
        b"key,sport\r\nc,golf\r\n",
    ]
    lines = await walk(rows, "?limit=1", Accept="application/x-ndjson")
    assert [json.loads(line)["key"] for line in lines] == ["a", "b", "c"]


async def test_pages_have_tags_too(rows: Rows) -> None:
    token = (await rows.get("?limit=2"))["next"]
    first = (await rows.ask("?limit=2"))[0].headers["ETag"]
    tag = (await rows.ask(f"?limit=2&page={token}"))[0].headers["ETag"]
    assert tag != first
    assert await rows.status(f"?limit=2&page={token}", If_None_Match=tag) == 304


async def test_page_of_an_evicted_result_is_gone(rows: Rows) -> None:
    token = (await rows.get("?limit=2"))["next"]
    clock = 0.0
    rows.results.clock = lambda: clock
    rows.results._entries[token.split("-")[0]].used = 0.0
    clock = 59.0
    assert await rows.status(f"?limit=2&page={token}") == 200
    clock = 120.0
    error = await rows.refused(410, f"?limit=2&page={token}")
    assert error["code"] == "page-gone"
    assert "start again with the first page" in error["hint"]


async def test_token_serves_its_own_query_only(rows: Rows) -> None:
    token = (await rows.get("?limit=2"))["next"]
    error = await rows.refused(400, f"?limit=2&where=sport='golf'&page={token}")
    assert "another query" in error["message"]
    assert "only 3 rows" in (await rows.refused(400, f"?page={token.split('-')[0]}-3"))["message"]
    rows.fake_view.writer.define("other", "b1", "{}")
    async with rows.api.client.get(f"/v1/views/other?page={token}") as reply:
        await check(reply, 400)


# --- what goes wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("?where=sport >>", "bad-query"),
        ("?where=a=1&keys=a", "bad-query"),
        ("?limit=0", "bad-request"),
        ("?limit=10001", "bad-request"),
        ("?fields=a..b", "bad-query"),
        ("?wher=a=1", "bad-request"),
        ("?page=nonsense", "bad-request"),
        ("?keys=", "bad-request"),
    ],
)
async def test_invalid_parameters_are_refused(rows: Rows, query: str, code: str) -> None:
    error = await rows.refused(400, query)
    assert error["code"] == code
    assert error["hint"]


async def test_unknown_views_are_404(rows: Rows) -> None:
    async with rows.api.client.get("/v1/views/ods") as reply:
        error = await check(reply, 404)
    assert (error["code"], error["hint"]) == ("view-not-found", 'did you mean "odds"?')


@pytest.mark.parametrize(("status", "said"), [("building", "is being built"), ("stopped", "is stopped")])
async def test_view_that_is_not_live_has_no_rows_yet(rows: Rows, status: str, said: str) -> None:
    rows.fake_view.writer.update_build(rows.fake_view.build, status=status, reason="no topic")
    async with rows.api.client.get(PATH) as reply:
        assert reply.headers["Retry-After"] == "1"
        error = await check(reply, 503)
    assert (error["code"], error["retry"]) == ("view-building", True)
    assert said in error["message"]
    assert "no topic" not in error["message"]  # why may name rows of others


async def test_result_that_is_too_large_is_refused(rows: Rows) -> None:
    rows.results.max_bytes = 400
    error = await rows.refused(413)
    assert error["code"] == "result-too-large"
    assert "narrow" in error["hint"]
    rows.results.max_bytes = 4_000
    assert (await rows.get("?keys=a"))["count"] == 1


async def test_response_reports_stale_and_incomplete(rows: Rows) -> None:
    rows.fake_view.writer.define("odds", "b1", json.dumps({"stale_after": 5}))
    rows.fake_view.writer.mark_source_active("odds")
    reply, _ = await rows.ask()
    assert "Distributary-State" not in reply.headers
    tag = reply.headers["ETag"]
    rows.now += 6_000
    rows.fake_view.writer.update_build(rows.fake_view.build, incomplete="1")
    reply, body = await rows.ask(If_None_Match=tag)
    found = json.loads(body)
    assert (found["stale"], found["incomplete"]) == (True, True)
    assert reply.headers["Distributary-State"] == "stale, incomplete"


async def test_view_that_changes_too_fast_is_busy(rows: Rows, monkeypatch: Any) -> None:
    async def moved(*args: Any, **words: Any) -> Any:
        raise StaleRead

    monkeypatch.setattr(rows_module, "read_unregistered", moved)
    assert (await rows.refused(503))["code"] == "view-busy"


async def test_concurrent_requests_read_the_view_once(rows: Rows, monkeypatch: Any) -> None:
    reads: list[object] = []
    inner = consistent_read.read_unregistered

    async def counted(*args: Any, **words: Any) -> Any:
        reads.append(args)
        await asyncio.sleep(0)
        return await inner(*args, **words)

    monkeypatch.setattr(rows_module, "read_unregistered", counted)
    replies = await asyncio.gather(*(rows.ask() for _ in range(10)))
    assert len({body for _, body in replies}) == 1
    assert len(reads) == 1


@pytest.mark.parametrize(("changes", "by_changes"), [(rows_module.NEAR, True), (rows_module.NEAR + 1, False)])
async def test_cached_result_is_updated_while_changes_are_few(
    rows: Rows, monkeypatch: Any, changes: int, by_changes: bool
) -> None:
    befores: list[object] = []
    inner = consistent_read.read_unregistered

    async def noted(*args: Any, **words: Any) -> Any:
        befores.append(args[3])
        return await inner(*args, **words)

    monkeypatch.setattr(rows_module, "read_unregistered", noted)
    await rows.get()
    for n in range(changes):
        rows.put(a={"n": n})
    found = await rows.get()
    assert dict(found["rows"])["a"] == {"n": changes - 1}
    assert befores[0] is None
    assert (befores[1] is not None) is by_changes


async def test_rows_by_key_do_not_wait_for_whole_views(rows: Rows) -> None:
    async with rows.results.reading, rows.results.reading:
        waiting = asyncio.create_task(rows.ask())
        assert (await rows.get("?keys=a"))["count"] == 1
        assert not waiting.done()
    assert (await waiting)[0].status == 200
