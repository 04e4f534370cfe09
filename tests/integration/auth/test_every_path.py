"""Every way to a row, listed from the code: none may be without its case here.

ann may read the columns ``c`` and ``n`` of ``odds`` where ``c = 'DE'`` and nothing else; the row ``fr``, the
column ``s`` and all of the view ``bets`` are not hers. A case does with ann's token whatever its route or
command can do, and shows that she gets her own or is refused. Control API and publisher are real servers
over one store in memory.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pyarrow as pa
import pytest
from aiohttp.test_utils import TestServer
from tests.integration.publisher.test_publisher_authorization import AUTH, keys_of, token
from tests.support.control_api import Announced
from tests.support.fake_view import VIEW, FakeTopicWriter, FakeView
from tests.support.serving_publisher import WAIT, Raw, raw, serving
from tests.support.wire_formats import CODECS

from distributary.config import Config
from distributary.control.app_context import Context
from distributary.control.control_app import ROUTES, make_app
from distributary.control.view_description import COUNTS
from distributary.demo.page import PAGE_FOLDER
from distributary.docgen.rest_page import publisher_server
from distributary.model.build import Build, Definition
from distributary.model.feed import Feed
from distributary.model.query import Query
from distributary.model.view import View
from distributary.publisher.codec.client_commands import Command
from distributary.publisher.codec.codec import Codec
from distributary.publisher.publisher_server import PublisherServer
from distributary.publisher.websocket.client_publish import ClientPublisher
from distributary.publisher.websocket.rpc import METHODS

ODDS = Definition(View(VIEW, VIEW, key="id"), Feed(VIEW, "t"))
BETS = Definition(View("bets", "bets", key="id"), Feed("bets", "t2"))
FEEDS = (Feed("moves", "game.moves", publish=True), Feed("orders", "orders", publish=True))
SECRETS = ("fr", "bets", "FR", "s", "hidden")
"""What no answer to ann may say."""
SHOWN = {VIEW: ["c", "n"]}


def german(user: str = "ann", **more: Any) -> str:
    return token(user, rows="c = 'DE'", columns=SHOWN, **more)


def french(user: str = "bob", **more: Any) -> str:
    return token(user, rows="c = 'FR'", columns=SHOWN, **more)


class Stand:
    """Both servers, and ann before them."""

    def __init__(
        self, fake_view: FakeView, publisher: PublisherServer, control: str, http: aiohttp.ClientSession
    ) -> None:
        self.fake_view = fake_view
        self.publisher = publisher
        self.bases = {"control": control, "publisher": publisher.addresses["http"]}
        self.http = http
        self.taken = FakeTopicWriter()
        self.wire: Codec = CODECS[0]

    @asynccontextmanager
    async def client(self, shown: str = "") -> AsyncIterator[Raw]:
        async with raw(self.publisher, self.wire) as client:
            await client.connect(shown or german())
            yield client

    async def ask(
        self, server: str, route: str, status: int = 200, *, shown: str = "", body: Any = None, **more: Any
    ) -> bytes:
        """Make a call as ann; what comes back says nothing that is not hers."""
        method, _, path = route.partition(" ")
        headers = {"Authorization": f"Bearer {shown or german()}", **more.pop("headers", {})}
        url = self.bases[server] + path
        async with self.http.request(method, url, json=body, headers=headers, **more) as reply:
            text = await reply.read()
            assert reply.status == status, (route, text)
        return text

    async def json(self, *args: Any, **more: Any) -> Any:
        return json.loads(await self.ask(*args, **more))

    async def subscription(self, shown: str, view: str = VIEW) -> Any:
        return await self.json("control", "POST /v1/subscriptions", 201, shown=shown, body={"view": view})

    def change(self, n: int) -> None:
        """A change that is not ann's, then one that is."""
        self.fake_view.put(("fr", row("FR", n)), ("de", row("DE", n)))


def row(country: str, n: int) -> dict[str, Any]:
    return {"c": country, "n": n, "s": "hidden"}


def hers(*texts: bytes | str) -> None:
    for text in texts:
        said = text.decode(errors="replace") if isinstance(text, bytes) else text
        for secret in SECRETS:
            assert f'"{secret}"' not in said, said


@asynccontextmanager
async def standing(tmp_path: Path) -> AsyncIterator[Stand]:
    fake_view = FakeView()
    fake_view.writer.define(VIEW, "b1", ODDS.text)
    fake_view.writer.define("bets", "b2", BETS.text)
    fake_view.writer.go_live(Build("bets", "b2"))
    fake_view.put(("de", row("DE", 0)), ("fr", row("FR", 0)))
    taken = FakeTopicWriter()
    config = Config(auth=AUTH, data_dir=tmp_path)
    context = Context(config, fake_view.reader, fake_view.writer, Announced())
    client_publisher = ClientPublisher(FEEDS, fake_view.reader, taken.produce)
    async with (
        serving(
            fake_view, client_publisher=client_publisher, auth=AUTH, static_dir=str(PAGE_FOLDER)
        ) as publisher,
        TestServer(make_app(context)) as control,
        aiohttp.ClientSession() as http,
    ):
        stand = Stand(fake_view, publisher, str(control.make_url("")).rstrip("/"), http)
        stand.taken = taken
        yield stand


Case = Callable[[Stand], Awaitable[None]]
CASES: dict[str, Case] = {}


def case(*names: str) -> Callable[[Case], Case]:
    def note(test: Case) -> Case:
        for name in names:
            assert name not in CASES
            CASES[name] = test
        return test

    return note


def every_path() -> set[str]:
    """All there is, from the code."""
    found = {f"control {route.name}" for route in ROUTES}
    found |= {f"publisher {route.name}" for route in publisher_server().routes()}
    found |= {f"command {field.name}" for field in msgspec.structs.fields(Command)} - {"command id"}
    return found | {f"rpc {method}" for method in METHODS}


def test_every_route_has_a_case() -> None:
    assert every_path() - set(CASES) == set(), "write the case of a new route, command or method here"
    assert set(CASES) - every_path() == set(), "the path of a case is gone"


# --- control API ----------------------------------------------------------------------------------------


@case("control GET /", "control GET /v1", "control GET /healthz", "control GET /readyz")
async def _open(stand: Stand) -> None:
    for path in ("/", "/v1", "/healthz", "/readyz"):
        async with stand.http.get(stand.bases["control"] + path) as reply:
            text = await reply.text()
            hers(text)
            assert VIEW not in text.replace("/v1/views", "")


@case("control GET /metrics", "control GET /v1/status", "control GET /v1/feeds")
async def _of_all(stand: Stand) -> None:
    for path in ("/metrics", "/v1/status", "/v1/feeds"):
        hers(await stand.ask("control", f"GET {path}", 403))


@case("control GET /v1/views")
async def _views(stand: Stand) -> None:
    text = await stand.ask("control", "GET /v1/views")
    hers(text)
    (said,) = json.loads(text)["views"]
    assert (said["name"], said["rows"]) == (VIEW, None)


@case("control GET /v1/views/{name}")
async def _rows(stand: Stand) -> None:
    for query in ("", "?where=n%20%3D%200", "?keys=fr,de", "?limit=1"):
        for accept in ("application/json", "application/x-ndjson", "text/csv"):
            text = await stand.ask("control", f"GET /v1/views/{VIEW}{query}", headers={"Accept": accept})
            hers(text, text.replace(b",", b'"').replace(b"\n", b'"'))
            assert b"de" in text, (query, accept)
        arrow = await stand.ask(
            "control",
            f"GET /v1/views/{VIEW}{query}",
            headers={"Accept": "application/vnd.apache.arrow.stream"},
        )
        hers(json.dumps(pa.ipc.open_stream(io.BytesIO(arrow)).read_all().to_pylist()))
    found = await stand.json("control", f"GET /v1/views/{VIEW}?where=c%20%3D%20'FR'")
    assert found["rows"] == []
    await stand.ask("control", "GET /v1/views/bets", 403)
    # A page of somebody else's result is of another query.
    page = await stand.json("control", f"GET /v1/views/{VIEW}?limit=1", shown=token("boss"))
    hers(await stand.ask("control", f"GET /v1/views/{VIEW}?limit=1&page={page['next']}", 400))


@case("control GET /v1/views/{name}/status")
async def _view_status(stand: Stand) -> None:
    text = await stand.ask("control", f"GET /v1/views/{VIEW}/status")
    hers(text)
    said = json.loads(text)
    assert said["epoch"]
    assert {said[figure] for figure in COUNTS} == {None}, "how many rows are not hers"
    whole = await stand.json("control", f"GET /v1/views/{VIEW}/status", shown=token("boss"))
    assert whole["rows"] == 2
    await stand.ask("control", "GET /v1/views/bets/status", 403)


@case(
    "control PUT /v1/views/{name}",
    "control DELETE /v1/views/{name}",
    "control POST /v1/users/{user}/revoke",
    "control POST /v1/tokens/{id}/revoke",
)
async def _admins(stand: Stand) -> None:
    await stand.ask("control", f"PUT /v1/views/{VIEW}", 403, body={"feed": "moves", "key": "id"})
    await stand.ask("control", f"DELETE /v1/views/{VIEW}", 403)
    await stand.ask("control", "POST /v1/users/bob/revoke", 403)
    await stand.ask("control", "POST /v1/tokens/4f1c/revoke", 403)
    assert await stand.fake_view.reader.revoked(["bob"]) == {}


@case("control POST /v1/subscriptions")
async def _subscribe(stand: Stand) -> None:
    made = await stand.subscription(german())
    hers(json.dumps(made))
    async with stand.client() as ann:
        await stand.ask("control", f"POST /v1/subscriptions/{made['id']}/begin")
        assert await keys_of(ann, made["channel"], data={"subscription": made["id"]}) == ["de"]
    await stand.ask("control", "POST /v1/subscriptions", 403, body={"view": "bets"})


@case(
    "control GET /v1/subscriptions/{id}",
    "control DELETE /v1/subscriptions/{id}",
    "control POST /v1/subscriptions/{id}/begin",
)
async def _subscriptions(stand: Stand) -> None:
    his = await stand.subscription(french())
    path = f"/v1/subscriptions/{his['id']}"
    for route in (f"GET {path}", f"POST {path}/begin", f"DELETE {path}"):
        hers(await stand.ask("control", route, 404))
        hers(await stand.ask("control", route, 404, shown=french("ann")))
    assert (await stand.json("control", f"GET {path}", shown=french()))["state"] == "waiting"


# --- the publisher's HTTP side --------------------------------------------------------------------------


@case("publisher GET /v1/views/{view}/events")
async def _stream(stand: Stand) -> None:
    whole = await stand.subscription(token("bob"))
    url = f"{stand.bases['publisher']}/v1/views/{VIEW}/events"
    last = ""
    for n, (accept, params) in enumerate(
        (
            ("text/event-stream", {}),
            ("text/event-stream", {"keys": "de,fr"}),
            ("application/x-ndjson", {}),
            ("text/event-stream", {"last_event_id": "here"}),
        )
    ):
        params = {name: last if value == "here" else value for name, value in params.items()}
        headers = {"Accept": accept, "Authorization": f"Bearer {german()}"}
        async with stand.http.get(url, headers=headers, params=params) as stream, asyncio.timeout(WAIT):
            read = b""
            while b"ready" not in read:
                read += await stream.content.readany()
            stand.change(n + 1)
            while b'"n":%d' % (n + 1) not in read:
                read += await stream.content.readany()
            hers(read)
        if not last:
            last = next(line for line in read.decode().split("\n") if line.startswith("id: "))[4:]
    hers(await stand.ask("publisher", f"GET /v1/views/{VIEW}/events?subscription={whole['id']}", 404))
    await stand.ask("publisher", "GET /v1/views/bets/events", 403)
    async with stand.http.get(url) as reply:
        assert reply.status == 401


@case("publisher GET /v1/stats", "publisher GET /metrics")
async def _figures(stand: Stand) -> None:
    for path in ("/v1/stats", "/metrics"):
        hers(await stand.ask("publisher", f"GET {path}", 403))


@case("publisher GET /healthz", "publisher GET /readyz", "publisher GET /", "publisher GET /{file}")
async def _page(stand: Stand) -> None:
    for path in ("/healthz", "/readyz", "/", "/app.js"):
        async with stand.http.get(stand.bases["publisher"] + path) as reply:
            assert reply.status == 200
            hers(await reply.text())


# --- commands -------------------------------------------------------------------------------------------


@case("command connect")
async def _connect(stand: Stand) -> None:
    for hello in ({}, {"token": "x"}, {"data": {"api_key": "x"}}):
        async with raw(stand.publisher, stand.wire) as client:
            await client.send({"id": 1, "connect": hello}, {"id": 2, "subscribe": {"channel": VIEW}})
            assert (await client.closed())[0] == 3500


@case("command subscribe")
async def _channels(stand: Stand) -> None:
    whole, his = Query.parse(VIEW, None), await stand.subscription(french())
    async with stand.client(token("bob")) as bob, stand.client() as ann:
        assert await keys_of(bob) == ["de", "fr"]
        reply = (await ann.ask(2, subscribe={"channel": VIEW}))["subscribe"]
        assert [key for key, _ in reply["data"]["rows"]] == ["de"]
        assert await keys_of(ann, f"{VIEW}?keys=de,fr", 3) == ["de"]
        assert await keys_of(ann, f"{VIEW}?where=n%20%3D%200", 4) == ["de"]
        stand.change(1)
        seen = [await ann.next() for _ in range(3)]
        assert {push["push"]["pub"]["data"]["key"] for push in seen} == {"de"}
        for n, (channel, data) in enumerate(
            ((whole.channel, {}), (his["channel"], {}), (his["channel"], {"subscription": his["id"]}))
        ):
            asked = {"channel": channel, "data": data}
            assert (await ann.ask(n + 5, subscribe=asked))["error"]["code"] == 102
        assert (await ann.ask(9, subscribe={"channel": "bets"}))["error"]["code"] == 103
    async with stand.client() as ann:
        position = {"recover": True, "epoch": reply["epoch"], "offset": reply["offset"]}
        again = (await ann.ask(2, subscribe={"channel": VIEW, **position}))["subscribe"]
        assert again["recovered"]
        assert [pub["data"]["key"] for pub in again["publications"]] == ["de"]


@case("command unsubscribe")
async def _unsubscribe(stand: Stand) -> None:
    async with stand.client(french()) as bob, stand.client() as ann:
        await keys_of(bob)
        assert await ann.ask(2, unsubscribe={"channel": VIEW}) == {"id": 2, "unsubscribe": {}}
        stand.change(1)
        assert (await bob.next())["push"]["pub"]["data"]["key"] == "fr", "nobody else's is ended"


@case("command history")
async def _history(stand: Stand) -> None:
    async with stand.client(token("bob")) as bob, stand.client() as ann:
        await keys_of(bob)
        assert (await ann.ask(2, history={"channel": VIEW, "limit": 9}))["error"]["code"] == 103
        await keys_of(ann, id=3)
        stand.change(1)
        await ann.next()
        for n, more in enumerate(({}, {"reverse": True})):
            found = (await ann.ask(n + 4, history={"channel": VIEW, "limit": 9, **more}))["history"]
            assert [pub["data"]["key"] for pub in found["publications"]] == ["de"]


@case("command publish")
async def _publish(stand: Stand) -> None:
    async with stand.client(german(publish=["moves"])) as ann:
        assert "publish" in await ann.ask(2, publish={"channel": "feed:moves", "data": {}})
        for n, channel in enumerate(("feed:orders", "feed:nothing", VIEW)):
            refused = await ann.ask(n + 3, publish={"channel": channel, "data": {}})
            assert refused["error"]["code"] == 103
        assert [record.topic for record in stand.taken.records] == ["game.moves"]


@case("command rpc", *(f"rpc {method}" for method in METHODS))
async def _rpc(stand: Stand) -> None:
    async with stand.client() as ann:
        for n, method in enumerate(METHODS):
            own = await ann.ask(2 * n + 2, rpc={"method": method, "data": {"view": VIEW}})
            assert "rpc" in own, own
            hers(json.dumps(own))
            for view in ("bets", "nothing"):
                other = await ann.ask(2 * n + 3, rpc={"method": method, "data": {"view": view}})
                assert other["error"]["code"] == 103


@case("command ping", "command presence", "command presence_stats", "command send")
async def _nothing(stand: Stand) -> None:
    async with stand.client(french()) as bob, stand.client() as ann:
        await keys_of(bob)
        for n, name in enumerate(("ping", "presence", "presence_stats")):
            body: dict[str, Any] = {} if name == "ping" else {"channel": VIEW}
            assert (await ann.ask(n + 2, **{name: body}))["error"]["code"] == 108
        await ann.send({"send": {"data": {}}})
        assert "unsubscribe" in await ann.ask(9, unsubscribe={"channel": VIEW}), "it is passed over"


@case("command refresh")
async def _refresh(stand: Stand) -> None:
    async with stand.client() as ann:
        await keys_of(ann)
        await ann.send({"id": 3, "refresh": {"token": token("bob")}})
        assert (await ann.closed())[0] == 3500


@case("command sub_refresh")
async def _sub_refresh(stand: Stand) -> None:
    async with stand.client() as ann:
        assert await keys_of(ann, token=token()) == ["de"], "a channel's token can only take away"
        for n, shown in enumerate((token("bob"), "x")):
            refused = await ann.ask(n + 3, sub_refresh={"channel": VIEW, "token": shown})
            assert refused["error"]["code"] == 103
        assert "sub_refresh" in await ann.ask(5, sub_refresh={"channel": VIEW, "token": token()})
        stand.change(1)
        assert (await ann.next())["push"]["pub"]["data"]["key"] == "de"


ONCE = sorted({test: name for name, test in reversed(CASES.items())}.items(), key=lambda found: found[1])


@pytest.mark.parametrize(
    ("test", "codec"),
    [
        pytest.param(test, codec, id=f"{name} {codec.subprotocol}" if "command" in name else name)
        for test, name in ONCE
        for codec in (CODECS if "command" in name else CODECS[:1])
    ],
)
async def test_filtered_user_gets_its_own_or_is_refused(test: Case, codec: Codec, tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        stand.wire = codec
        await test(stand)
