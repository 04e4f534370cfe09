"""Server-sent events on real sockets."""

from __future__ import annotations

import asyncio
import json
import os
import socket as sockets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.serving_publisher import WAIT, serving
from tests.support.sse_reader import Event, Stream
from yarl import URL

from distributary.model.query import Query
from distributary.publisher.metrics import describe
from distributary.publisher.publisher_server import PublisherServer


@asynccontextmanager
async def stream(
    publisher: PublisherServer, query: str = "", view: str = VIEW, **headers: str
) -> AsyncIterator[Stream]:
    url = f"{publisher.addresses['http']}/v1/views/{view}/events?{query}"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers={k.replace("_", "-"): v for k, v in headers.items()}) as response,
    ):
        yield Stream(response)


@asynccontextmanager
async def unread(publisher: PublisherServer, query: str = "") -> AsyncIterator[sockets.socket]:
    """A stream that is read only by the test, from its socket."""
    with sockets.socket() as found:
        found.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        found.setblocking(False)
        await asyncio.get_running_loop().sock_connect(found, ("127.0.0.1", publisher.http.port))
        found.send(f"GET /v1/views/{VIEW}/events?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await until(lambda: publisher.stats.streams)
        yield found


async def test_stream_has_snapshot_ready_and_changes() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}), ("b", {"s": "g"}))
    async with serving(fake_view) as publisher:
        async with stream(publisher, "where=s%20%3D%20'f'") as events:
            headers = events.response.headers
            assert headers["Content-Type"].startswith("text/event-stream")
            assert (headers["Cache-Control"], headers["X-Accel-Buffering"]) == ("no-store", "no")
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Content-Security-Policy"].startswith("default-src 'none'")
            state, ready = await events.next(), await events.next()
            assert state == Event(
                "snapshot",
                {"op": "snapshot", "rows": [["a", {"s": "f"}]], "stale": False, "tier": "snapshot"},
                "",
            )
            position = f"{fake_view.epoch}:2"
            assert ready == Event(
                "ready",
                {"op": "ready", "position": position, "recovered": False, "tier": "snapshot"},
                position,
            )
            fake_view.put(("b", {"s": "f"}))
            change = await events.next()
            assert (change.name, change.data["op"], change.id) == ("change", "add", f"{fake_view.epoch}:3")
            assert describe(publisher.hub, publisher.stats, "")["streams"] == 1
        await until(lambda: not publisher.stats.streams)
        assert describe(publisher.hub, publisher.stats, "")["subscribers"] == 0


async def lines(events: Stream, count: int) -> list[Any]:
    """Read lines of JSON, without heartbeats."""
    found: list[Any] = []
    async with asyncio.timeout(WAIT):
        while len(found) < count:
            line = json.loads(await events.response.content.readline())
            if line["event"] != "heartbeat":
                found.append(line)
    return found


async def test_stream_has_lines_of_json() -> None:
    """The same stream without the framing of events, for programs that read a body as it comes."""
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}), ("b", {"s": "g"}))
    async with serving(fake_view) as publisher:
        async with stream(publisher, "where=s%20%3D%20'f'", Accept="application/x-ndjson") as events:
            assert events.response.headers["Content-Type"] == "application/x-ndjson"
            state, ready = await lines(events, 2)
            position = f"{fake_view.epoch}:2"
            assert state == {
                "event": "snapshot",
                "data": {"op": "snapshot", "rows": [["a", {"s": "f"}]], "stale": False, "tier": "snapshot"},
            }
            assert ready == {
                "event": "ready",
                "id": position,
                "data": {"op": "ready", "position": position, "recovered": False, "tier": "snapshot"},
            }
            fake_view.put(("b", {"s": "f"}))
            (change,) = await lines(events, 1)
            assert (change["event"], change["data"]["op"]) == ("change", "add")
            assert change["id"] == f"{fake_view.epoch}:3"
        fake_view.put(("a", {"s": "f", "n": 1}), ("b", {"s": "f", "n": 1}))
        for more in ({"Last_Event_ID": change["id"]}, {}):
            query = "where=s%20%3D%20'f'" + ("" if more else f"&last_event_id={change['id']}")
            async with stream(publisher, query, Accept="application/x-ndjson", **more) as events:
                *missed, ready = await lines(events, 3)
                assert [one["id"] for one in missed] == [f"{fake_view.epoch}:4", f"{fake_view.epoch}:5"]
                assert ready["data"]["recovered"]
        async with stream(publisher, view="nothing", Accept="application/x-ndjson") as events:
            assert events.response.status == 404


async def test_lines_and_events_share_a_channel() -> None:
    fake_view = FakeView()
    async with (
        serving(fake_view) as publisher,
        stream(publisher) as events,
        stream(publisher, Accept="application/x-ndjson") as plain,
    ):
        await events.next()
        await events.next()
        await lines(plain, 2)
        fake_view.put(("a", {"n": 1}))
        event, (line,) = await events.next(), await lines(plain, 1)
        assert (event.name, event.data, event.id) == (line["event"], line["data"], line["id"])
        assert describe(publisher.hub, publisher.stats, "")["channels"] == 2


async def test_lines_of_a_view_being_built_are_a_503() -> None:
    async with (
        serving(FakeView(live=False)) as publisher,
        stream(publisher, Accept="application/x-ndjson") as events,
    ):
        assert (events.response.status, events.response.headers["Retry-After"]) == (503, "1")


async def test_stream_resumes_by_last_event_id() -> None:
    fake_view = FakeView()
    async with serving(fake_view) as publisher:
        async with stream(publisher, "key=a&key=b") as events:
            await events.next()
            last = (await events.next()).id
        fake_view.put(("a", {"n": 1}), ("c", {"n": 1}), ("b", {"n": 1}))
        for more in ({"Last_Event_ID": last}, {}):
            query = "key=a&key=b" + ("" if more else f"&last_event_id={last}")
            async with stream(publisher, query, **more) as events:
                first, second, ready = [await events.next() for _ in range(3)]
                assert [e.id for e in (first, second)] == [f"{fake_view.epoch}:1", f"{fake_view.epoch}:3"]
                assert (ready.name, ready.data["recovered"]) == ("ready", True)
        for stale in ("other:1", "nonsense", f"{fake_view.epoch}:99"):
            async with stream(publisher, "key=a&key=b", Last_Event_ID=stale) as events:
                assert (await events.next()).name == "snapshot"


async def test_stream_waits_for_a_begin() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}))
    query = Query.parse(VIEW, "s = 'f'")
    await fake_view.reader.register(
        VIEW, query_id=query.id, text=query.text, subscription="G", ttl_ms=60_000, begun=False
    )
    async with serving(fake_view) as publisher, stream(publisher, "subscription=G") as events:
        assert (await events.next()).name == "waiting"
        await fake_view.reader.begin(VIEW, "G", 60_000)
        assert (await events.next()).data["rows"] == [["a", {"s": "f"}]]
        assert (await events.next()).name == "ready"


async def test_invalid_requests_are_refused() -> None:
    async with serving(FakeView()) as publisher:
        for query, view, status, code in (
            ("", "nothing", 404, "not-found"),
            ("where=x", VIEW, 400, "bad-query"),
            ("nonsense=1", VIEW, 400, "bad-query"),
            ("where=a%3D1&key=b", VIEW, 400, "bad-query"),
            ("subscription=G&key=b", VIEW, 400, "bad-query"),
            ("subscription=none", VIEW, 404, "not-found"),
        ):
            async with stream(publisher, query, view) as events:
                assert events.response.status == status
                error = (await events.response.json())["error"]
                assert (error["code"], error["retry"]) == (code, False)


async def test_stream_of_a_view_being_built_ends() -> None:
    async with serving(FakeView(live=False)) as publisher:
        async with stream(publisher) as events:
            assert (events.response.status, events.response.headers["Retry-After"]) == (503, "1")
        async with stream(publisher, Accept="text/event-stream") as events:
            assert events.response.status == 200  # a browser would not try again otherwise
            assert (await events.next()).name == "end"


async def test_another_epoch_ends_the_stream() -> None:
    fake_view = FakeView()
    async with serving(fake_view) as publisher, stream(publisher) as events:
        await events.next()
        await events.next()
        fake_view.crash()
        end = await events.next()
        assert (end.name, end.data["code"], end.id) == ("end", 2500, "")


async def test_stale_notices_have_no_id() -> None:
    fake_view = FakeView(stale_after=5)
    clock = [1000.0]
    fake_view.store.clock = lambda: clock[0]
    fake_view.store.writer.mark_source_active(VIEW)
    async with serving(fake_view) as publisher, stream(publisher) as events:
        await events.next()
        await events.next()
        clock[0] += 6
        assert await events.next() == Event("stale", {"op": "stale", "since": 1_000_000}, "")


async def test_idle_stream_has_heartbeats() -> None:
    async with serving(FakeView()) as publisher:
        publisher.http._events._heartbeat = 0.01
        async with stream(publisher) as events, asyncio.timeout(WAIT):
            while b": " not in await events.response.content.readline():
                pass
        async with stream(publisher, Accept="application/x-ndjson") as events, asyncio.timeout(WAIT):
            while json.loads(await events.response.content.readline()) != {"event": "heartbeat"}:
                pass


async def test_reader_that_stops_is_closed() -> None:
    fake_view = FakeView()
    async with serving(fake_view, queue_bytes=65_536) as publisher, unread(publisher):
        async with asyncio.timeout(WAIT):
            while not publisher.stats.slow:
                fake_view.put(("a", {"filler": "x" * 50_000}))
                await asyncio.sleep(0)
        await until(lambda: not publisher.stats.streams)


async def test_too_slow_reader_is_closed() -> None:
    fake_view = FakeView()
    async with serving(fake_view, queue_bytes=200_000) as publisher, unread(publisher) as slow:
        async with asyncio.timeout(WAIT):
            while not publisher.stats.slow:
                fake_view.put(("a", {"filler": "x" * 50_000}))
                await asyncio.get_running_loop().sock_recv(slow, 25_000)
        await until(lambda: not publisher.stats.streams)


async def test_reader_that_does_not_read_its_state_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.publisher.hub.state_budget.STALL_SECONDS", 0.3)
    fake_view = FakeView()
    for n in range(60):
        fake_view.put((f"k{n}", {"filler": "x" * 100_000}))
    async with serving(fake_view) as publisher:
        async with unread(publisher):
            await until(lambda: publisher.hub.budget.used)
            await until(lambda: publisher.stats.slow)
            await until(lambda: not publisher.stats.streams)
        assert publisher.hub.budget.used == 0
        async with stream(publisher) as events:
            rows = 0
            while (event := await events.next()).name == "snapshot":
                rows += len(event.data["rows"])
            assert (rows, event.name) == (60, "ready")


async def test_origins_are_checked() -> None:
    async with serving(FakeView(), origins=("https://app.example.com",)) as publisher:
        async with stream(publisher, Origin="https://app.example.com") as events:
            assert events.response.headers["Access-Control-Allow-Origin"] == "https://app.example.com"
        async with stream(publisher, Origin="https://evil.example.com") as events:
            assert events.response.status == 403
            assert "Access-Control-Allow-Origin" not in events.response.headers


@pytest.mark.parametrize(
    "name", ["nothing.js", "code.py", "inner", "..%2Fsecret.txt", "a%00.js", f"{'9' * 4000}.js"]
)
async def test_only_the_files_of_the_static_folder_are_served(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "static"
    (folder / "inner").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "code.py").write_text("pass")
    (folder / "app.js").write_text("1")
    (folder / "index.html").write_text("hello")
    async with (
        serving(FakeView(), static_dir=str(folder)) as publisher,
        aiohttp.ClientSession(publisher.addresses["http"]) as session,
    ):
        async with session.get("/app.js") as reply:
            assert (reply.status, await reply.text()) == (200, "1")
        async with session.get("/") as reply:
            assert (reply.status, await reply.text()) == (200, "hello")
        async with session.get(URL(f"/{name}", encoded=True)) as reply:
            assert (reply.status, (await reply.text())[:11]) == (404, "there is no")


async def test_without_a_static_folder_no_file_is_served() -> None:
    async with (
        serving(FakeView()) as publisher,
        aiohttp.ClientSession(publisher.addresses["http"]) as session,
    ):
        for path in ("/", "/app.js"):
            async with session.get(path) as reply:
                assert reply.status == 404


async def test_port_serves_health_stats_and_metrics() -> None:
    fake_view = FakeView()
    async with serving(fake_view) as publisher, aiohttp.ClientSession(publisher.addresses["http"]) as session:
        async with session.get("/healthz") as reply:
            assert await reply.json() == {"status": "ok"}
        async with session.get("/readyz") as reply:
            assert reply.status == 200
        async with stream(publisher) as events:
            await events.next()
            fake_view.put(("a", {"n": 1}))
            await until(lambda: publisher.stats.deliveries)
            async with session.get("/v1/stats") as reply:
                message = await reply.json()
            assert (message["subscribers"], message["views"][VIEW]["published"]) == (1, 1)
            async with session.get("/metrics") as reply:
                text = await reply.text()
            assert f'distributary_publisher_deliveries_total{{process="{os.getpid()}"}} 1.0\n' in text
            labels = f'process="{os.getpid()}",view="{VIEW}"'
            assert f"distributary_publisher_delay_ms_count{{{labels}}} 1.0\n" in text
        for path in ("/../server.py", "/__init__.py", "/nothing.html", "/%2e%2e%2f__init__.py"):
            async with session.get(path) as reply:
                assert reply.status == 404


async def test_not_ready_without_a_store() -> None:
    fake_view = FakeView()
    async with serving(fake_view) as publisher, aiohttp.ClientSession(publisher.addresses["http"]) as session:

        async def broken() -> list[str]:
            raise ConnectionError("refused")

        fake_view.reader.views = broken  # type: ignore[method-assign]
        async with session.get("/readyz") as reply:
            assert reply.status == 503
            assert (await reply.json())["error"]["code"] == "store-unavailable"


async def test_stream_starts_from_a_position_with_some_fields() -> None:
    fake_view = FakeView(exact=True)
    fake_view.put(("a", {"n": 1, "z": 0}), ("b", {"n": 2, "z": 0}))
    position = f"{fake_view.epoch}:{fake_view.seq}"
    fake_view.put(("a", {"n": 5, "z": 1}), ("b", None))
    async with serving(fake_view) as publisher:
        async with stream(publisher, f"fields=n&from={position}") as events:
            missed = [await events.next(), await events.next()]
            assert [(one.id, one.data["key"], one.data.get("row")) for one in missed] == [
                ("", "a", {"n": 5}),
                ("", "b", None),
            ]
            ready = await events.next()
            assert ready.data["tier"] == "log"
            fake_view.put(("a", {"n": 5, "z": 2}), ("a", {"n": 6, "z": 2}))
            change = await events.next()
            assert change.data["changed"] == {"n": 6}
        # What a browser has seen last stands over where its address began.
        fake_view.put(("a", {"n": 7, "z": 2}))
        async with stream(publisher, f"fields=n&from={position}", Last_Event_ID=change.id) as events:
            again = await events.next()
            assert again.data["changed"] == {"n": 7}
            assert (await events.next()).data["tier"] == "log"


async def test_invalid_fields_and_starts_are_refused() -> None:
    async with serving(FakeView()) as publisher:
        for query, message in (
            ("fields=", "character 1"),
            ("fields=a,,b", "character 3"),
            ("fields=a&fields=b", "given 2 times"),
            ("from=yesterday", "neither a position nor a time"),
        ):
            async with stream(publisher, query) as events:
                assert events.response.status == 400
                assert message in (await events.response.json())["error"]["message"]
