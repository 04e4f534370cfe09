"""Authorization of a publisher: tokens and keys over real sockets, with row filters."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.fake_view import VIEW, FakeTopicWriter, FakeView, until
from tests.support.serving_publisher import WAIT, Raw, raw, serving
from tests.support.signed_tokens import SECRET, sign
from tests.support.wire_formats import CODECS

from distributary.auth import Grant, owned_id
from distributary.auth.api_keys import create_key
from distributary.config import Auth
from distributary.model.query import Query
from distributary.publisher.codec import codes
from distributary.publisher.codec.codec import Codec
from distributary.publisher.metrics import describe
from distributary.publisher.publisher_server import PublisherServer
from distributary.publisher.websocket.client_publish import ClientPublisher

KEY, HASH = create_key()
ENTRY = {"hash": HASH, "views": [VIEW], "rows": "c = 'DE'"}
AUTH = Auth(hmac_secret=SECRET, keys={"reports": json.dumps(ENTRY)}, leeway=0.0, revocation_delay=0.0)

both = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.subprotocol)


def token(user: str = "ann", *, lasts: float = 600, **claims: Any) -> str:
    now = time.time()
    return sign({"sub": user, "iat": int(now) - 1, "exp": now + lasts, "views": [VIEW], **claims})


def german(user: str = "ann", **more: Any) -> str:
    return token(user, rows="c = 'DE'", **more)


def french(user: str = "bob", **more: Any) -> str:
    return token(user, rows="c = 'FR'", **more)


def two_rows() -> FakeView:
    fake_view = FakeView()
    fake_view.put(("de", {"c": "DE", "n": 0}), ("fr", {"c": "FR", "n": 0}))
    return fake_view


@asynccontextmanager
async def connected(
    publisher: PublisherServer, shown: str, codec: Codec = CODECS[0], **more: Any
) -> AsyncIterator[Raw]:
    async with raw(publisher, codec, **more) as client:
        await client.connect(shown)
        yield client


async def keys_of(client: Raw, channel: str = VIEW, id: int = 2, **more: Any) -> list[str]:
    """Subscribe; gives the keys of the rows that come."""
    reply = await client.ask(id, subscribe={"channel": channel, **more})
    assert "subscribe" in reply, reply
    return [key for key, _ in reply["subscribe"]["data"]["rows"]]


def none_left(publisher: PublisherServer) -> bool:
    message = describe(publisher.hub, publisher.stats, "")
    access = publisher.access
    return not (
        message["subscribers"]
        or message["queries"]
        or len(access.sessions)
        or len(access.limiter.reservations)
    )


@both
async def test_one_name_and_two_filters_never_share_a_row(codec: Codec) -> None:
    fake_view = two_rows()
    async with (
        serving(fake_view, auth=AUTH) as publisher,
        connected(publisher, german(), codec) as ann,
        connected(publisher, french(), codec) as bob,
        connected(publisher, token("cid"), codec) as cid,
        connected(publisher, german("dan"), codec) as dan,
    ):
        assert await keys_of(ann) == await keys_of(dan) == ["de"]
        assert await keys_of(bob) == ["fr"]
        assert await keys_of(cid) == ["de", "fr"]
        fake_view.put(("de", {"c": "DE", "n": 1}), ("fr", {"c": "FR", "n": 1}), ("de", {"c": "FR", "n": 2}))
        seen = {
            ann: [("change", "de"), ("remove", "de")],
            dan: [("change", "de"), ("remove", "de")],
            bob: [("change", "fr"), ("add", "de")],
            cid: [("change", "de"), ("change", "fr"), ("change", "de")],
        }
        for client, changes in seen.items():
            for change in changes:
                push = (await client.next())["push"]
                data = push["pub"]["data"]
                assert (push["channel"], (data["op"], data["key"])) == (VIEW, change)
        # The next message of each is the answer to its question: nothing else came in between.
        for client in seen:
            assert "rpc" in await client.ask(9, rpc={"method": "status", "data": {"view": VIEW}})
        message = describe(publisher.hub, publisher.stats, "")
        assert (message["queries"], message["channels"]) == (3, 3), "equal filters share one encoding"


@both
async def test_valid_credentials_are_accepted(codec: Codec) -> None:
    fake_view = two_rows()
    async with serving(fake_view, auth=AUTH) as publisher:
        for hello, headers, rows in (
            ({"token": german()}, {}, ["de"]),
            ({"data": {"api_key": KEY}}, {}, ["de"]),
            ({}, {"X-API-Key": KEY}, ["de"]),
            ({}, {"Authorization": f"Bearer {french()}"}, ["fr"]),
            ({"token": french(), "data": {"own": 1}}, {"X-API-Key": KEY}, ["fr"]),
        ):
            async with raw(publisher, codec, additional_headers=headers) as client:
                # Both at once, as SDKs do: the second waits for the authentication.
                await client.send({"id": 1, "connect": hello}, {"id": 2, "subscribe": {"channel": VIEW}})
                assert "expires" in (await client.next())["connect"] or KEY in str((hello, headers))
                assert [key for key, _ in (await client.next())["subscribe"]["data"]["rows"]] == rows
        for hello, why in (
            ({}, "a token or an API key is needed"),
            ({"token": "x"}, "invalid token: malformed"),
            ({"token": token(aud="other")}, "invalid token: audience"),
            ({"data": {"api_key": KEY + "x"}}, "invalid token: api-key"),
        ):
            async with raw(publisher, codec) as client:
                await client.send({"id": 1, "connect": hello}, {"id": 2, "subscribe": {"channel": VIEW}})
                assert await client.closed() == (3500, why)
        async with raw(publisher, codec) as client:
            late = await client.ask(1, connect={"token": german(lasts=-1)})
            assert late["error"]["code"] == 109
            assert "connect" in await client.ask(2, connect={"token": german()}), "it may show another"
        await until(lambda: none_left(publisher))
        assert publisher.stats.refused_access == 5


async def test_client_that_does_not_authenticate_in_time_is_closed() -> None:
    async with serving(two_rows(), auth=AUTH, auth_timeout=0.3) as publisher, raw(publisher) as ann:
        assert (await ann.ask(1, connect={"token": german(lasts=-1)}))["error"]["code"] == 109
        assert await ann.closed() == (3502, "stale")


async def test_connection_that_ends_as_its_reading_pauses_leaves_nothing_behind() -> None:
    """Coroutines that are never awaited are warnings, which are errors here."""
    async with serving(two_rows(), auth=AUTH) as publisher, connected(publisher, german()) as ann:
        (connection,) = publisher.websocket.connections
        connection.pause_reading()
        connection.end(codes.SHUTDOWN)
        assert (await ann.closed())[0] == codes.SHUTDOWN.code
        gc.collect()


async def test_forbidden_view_is_refused_whether_it_exists_or_not() -> None:
    fake_view = two_rows()
    async with serving(fake_view, auth=AUTH) as publisher, connected(publisher, token(views=[])) as client:
        for n, channel in enumerate((VIEW, "nothing", f"{VIEW}?keys=de", f"q:{VIEW}:0123456789abcdef")):
            error = (await client.ask(n + 2, subscribe={"channel": channel}))["error"]
            assert error["code"] == 103
            assert "may not read the view" in error["message"]
        assert publisher.hub.followers == {}
        await until(lambda: publisher.access.limiter.reservations.count_of("queries:user:ann") == 0)


@both
async def test_positions_history_and_resume_are_of_allowed_rows(codec: Codec) -> None:
    fake_view = two_rows()
    async with serving(fake_view, auth=AUTH) as publisher:
        async with connected(publisher, german(), codec) as ann:
            reply = (await ann.ask(2, subscribe={"channel": VIEW}))["subscribe"]
            position = {"epoch": reply["epoch"], "offset": reply["offset"]}
            fake_view.put(("de", {"c": "DE", "n": 1}), ("fr", {"c": "FR", "n": 1}))
            await ann.next()
            read = (await ann.ask(3, history={"channel": VIEW, "limit": 9, "since": position}))["history"]
            assert [pub["data"]["key"] for pub in read["publications"]] == ["de"]
            assert read["epoch"] == position["epoch"]
            back = await ann.ask(4, history={"channel": VIEW, "limit": 9, "reverse": True})
            assert [pub["data"]["key"] for pub in back["history"]["publications"]] == ["de"]
        recover = {"channel": VIEW, "recover": True, **position}
        async with connected(publisher, german(), codec) as ann:
            again = (await ann.ask(2, subscribe=recover))["subscribe"]
            assert again["recovered"]
            assert [pub["data"]["key"] for pub in again["publications"]] == ["de"]
        # Under another filter the rows that were had before are not those that are had now.
        for shown, rows in ((french("ann"), ["fr"]), (token(), ["de", "fr"])):
            async with connected(publisher, shown, codec) as ann:
                again = (await ann.ask(2, subscribe=recover))["subscribe"]
                assert not again.get("recovered")
                assert again["was_recovering"]
                assert [key for key, _ in again["data"]["rows"]] == rows
                assert again["epoch"] != position["epoch"]
                assert (await ann.ask(3, history={"channel": VIEW, "limit": 1, "since": position}))["error"][
                    "code"
                ] == 112


@both
async def test_position_is_valid_only_under_its_row_filter(codec: Codec) -> None:
    fake_view = two_rows()
    async with serving(fake_view, auth=AUTH) as publisher:
        async with connected(publisher, german(), codec) as ann:
            reply = (await ann.ask(2, subscribe={"channel": VIEW}))["subscribe"]
        fake_view.put(("de", {"c": "DE", "n": 1}), ("fr", {"c": "FR", "n": 1}))
        since = {"channel": VIEW, "data": {"from": f"{reply['epoch']}:{reply['offset']}"}}
        async with connected(publisher, german(), codec) as ann:
            newer = (await ann.ask(2, subscribe=since))["subscribe"]
            assert newer["recovered"]
            assert [pub["data"]["key"] for pub in newer["publications"]] == ["de"]
        for shown, rows in ((french("ann"), ["fr"]), (token(), ["de", "fr"])):
            async with connected(publisher, shown, codec) as ann:
                anew = (await ann.ask(2, subscribe=since))["subscribe"]
                assert not anew.get("recovered")
                assert [key for key, _ in anew["data"]["rows"]] == rows


async def test_subscription_belongs_to_its_creator() -> None:
    fake_view = two_rows()
    query = Query.parse(VIEW, "c = 'DE'")
    whole = Query.parse(VIEW, None)
    mine, his, all_rows = owned_id("ann"), owned_id("bob"), owned_id("ann")
    for id, request in ((mine, query), (his, query), (all_rows, whole), ("G", query)):
        await fake_view.reader.register(
            VIEW, query_id=request.id, text=request.text, subscription=id, ttl_ms=60_000, begun=True
        )
    async with serving(fake_view, auth=AUTH) as publisher, connected(publisher, german()) as ann:
        assert await keys_of(ann, query.channel, data={"subscription": mine}) == ["de"]
        await ann.ask(3, unsubscribe={"channel": query.channel})
        for n, (channel, data) in enumerate(
            (
                (query.channel, {"subscription": his}),
                (query.channel, {"subscription": "G"}),
                (whole.channel, {"subscription": all_rows}),
                (whole.channel, {}),
            )
        ):
            error = (await ann.ask(n + 4, subscribe={"channel": channel, "data": data}))["error"]
            assert error["code"] == 102, (channel, data)
        assert await keys_of(ann, query.channel, 10) == ["de"]
        url = f"{publisher.addresses['http']}/v1/views/{VIEW}/events"
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {german()}"}) as http:
            for id in (his, all_rows, "G"):
                async with http.get(url, params={"subscription": id}) as reply:
                    assert reply.status == 404


# --- while connected ------------------------------------------------------------------------------------


@both
async def test_refresh_changes_what_is_served(codec: Codec) -> None:
    fake_view = two_rows()
    async with serving(fake_view, auth=AUTH) as publisher:
        async with raw(publisher, codec) as ann:
            message = await ann.connect(german(lasts=5))
            assert (message["expires"], 1 <= message["ttl"] <= 5) == (True, True)
            await keys_of(ann)
            reply = (await ann.ask(3, refresh={"token": german()}))["refresh"]
            assert 590 <= reply["ttl"] <= 600
            fake_view.put(("de", {"c": "DE", "n": 1}))
            pushed = (await ann.next())["push"]["pub"]
            # Another filter: the client must subscribe again, and its rows are not continued.
            assert "refresh" in await ann.ask(4, refresh={"token": french("ann")})
            ending = (await ann.next())["push"]
            assert (ending["channel"], ending["unsubscribe"]["code"]) == (VIEW, 2502)
            fake_view.put(("de", {"c": "DE", "n": 2}))
            recover = {"recover": True, "epoch": "e", "offset": pushed["offset"]}
            assert await keys_of(ann, id=5, **recover) == ["fr"]
            # Another view: this one is over for good.
            assert "refresh" in await ann.ask(6, refresh={"token": token(views=["bets"])})
            assert (await ann.next())["push"]["unsubscribe"]["code"] == 2001
            assert (await ann.ask(7, subscribe={"channel": VIEW}))["error"]["code"] == 103
        await until(lambda: none_left(publisher))
        for shown, code in (
            (german("bob"), 3500),
            ("", 3500),
            ("x", 3500),
            (german(lasts=-1), 3005),
        ):
            async with connected(publisher, german(), codec) as ann:
                await ann.send({"id": 2, "refresh": {"token": shown}})
                assert (await ann.closed())[0] == code
        await until(lambda: none_left(publisher))


async def test_refresh_during_a_join_applies_to_it() -> None:
    fake_view = two_rows()
    async with serving(fake_view, auth=AUTH) as publisher, connected(publisher, german()) as ann:
        await ann.send(
            {"id": 2, "subscribe": {"channel": VIEW}}, {"id": 3, "refresh": {"token": french("ann")}}
        )
        got = [await ann.next() for _ in range(3)]
        assert [one["push"]["unsubscribe"]["code"] for one in got if "push" in one] == [2502]
        assert await keys_of(ann, id=4) == ["fr"]


async def test_waiting_subscription_is_rechecked() -> None:
    fake_view = two_rows()
    query, id = Query.parse(VIEW, "c = 'DE'"), owned_id("ann")
    await fake_view.reader.register(
        VIEW, query_id=query.id, text=query.text, subscription=id, ttl_ms=60_000, begun=False
    )
    async with serving(fake_view, auth=AUTH) as publisher, connected(publisher, german()) as ann:
        request = {"channel": query.channel, "data": {"subscription": id}}
        assert (await ann.ask(2, subscribe=request))["subscribe"]["data"] == {"op": "waiting"}
        assert "refresh" in await ann.ask(3, refresh={"token": german()})
        assert "rpc" in await ann.ask(4, rpc={"method": "status", "data": {"view": VIEW}}), "it goes on"
        assert "refresh" in await ann.ask(5, refresh={"token": french("ann")})
        assert (await ann.next())["push"]["unsubscribe"]["code"] == 2502
        assert (await ann.ask(6, subscribe=request))["error"]["code"] == 102


async def test_expiry_and_revocation_end_open_sessions() -> None:
    fake_view = two_rows()
    async with (
        serving(fake_view, auth=AUTH) as publisher,
        raw(publisher) as short,
        connected(publisher, german("bob")) as bob,
        connected(publisher, german("cid")) as cid,
        aiohttp.ClientSession() as http,
    ):
        url = f"{publisher.addresses['http']}/v1/views/{VIEW}/events"
        soon, his = {"token": german(lasts=1)}, {"token": german("bob")}
        async with http.get(url, params=soon) as brief, http.get(url, params=his) as longer:
            await short.connect(german(lasts=1))
            assert await keys_of(short) == ["de"]
            assert await short.closed() == (3005, "connection expired")
            assert b'"code":3005' in await text_of(brief)
            await keys_of(bob)
            await keys_of(cid)
            await fake_view.reader.revoke("bob")
            assert await bob.closed() == (3500, "token revoked")
            assert b'"code":3500' in await text_of(longer)
        async with http.get(url, params=his) as again:
            assert again.status == 401
        fake_view.put(("de", {"c": "DE", "n": 1}))
        assert (await cid.next())["push"]["pub"]["data"]["key"] == "de"
        await cid.socket.close()
        await until(lambda: none_left(publisher))


async def text_of(reply: aiohttp.ClientResponse) -> bytes:
    async with asyncio.timeout(WAIT):
        return await reply.read()


async def test_expired_token_has_a_grace_period() -> None:
    auth = Auth(hmac_secret=SECRET, leeway=60.0, revocation_delay=0.0)
    async with serving(two_rows(), auth=auth) as publisher, raw(publisher) as ann:
        assert (await ann.connect(german(lasts=-5)))["ttl"] == 1
        await publisher.access.sessions.check()
        assert await keys_of(ann) == ["de"]


@both
async def test_channel_may_have_its_own_token(codec: Codec) -> None:
    fake_view = two_rows()
    fake_view.put(("de2", {"c": "DE", "n": 5}))
    async with serving(fake_view, auth=AUTH) as publisher, connected(publisher, german(), codec) as ann:
        # It can only restrict.
        assert await keys_of(ann, token=token(rows="n = 5")) == ["de2"]
        own = {"channel": VIEW, "token": token(rows="n = 5", channel=VIEW)}
        message = (await ann.ask(3, sub_refresh=own))["sub_refresh"]
        assert (message["expires"], message["ttl"] > 500) == (True, True)
        fake_view.put(("de2", {"c": "DE", "n": 5, "m": 1}), ("de", {"c": "DE", "n": 1}))
        assert (await ann.next())["push"]["pub"]["data"]["key"] == "de2"
        assert "sub_refresh" in await ann.ask(4, sub_refresh={"channel": VIEW, "token": token(rows="n = 1")})
        assert (await ann.next())["push"]["unsubscribe"]["code"] == 2502
        assert await keys_of(ann, id=5, token=token(rows="n = 1", lasts=1)) == ["de"]
        ending = (await ann.next())["push"]["unsubscribe"]
        assert (ending["code"], ending["reason"]) == (2501, "subscription expired")
        for n, (shown, code) in enumerate(
            (
                (token("bob"), 103),
                ("x", 103),
                (token(views=["bets"]), 103),
                (token(channel="other"), 103),
                (token(lasts=-1), 109),
            )
        ):
            request = {"channel": VIEW, "token": shown}
            assert (await ann.ask(n + 6, subscribe=request))["error"]["code"] == code, shown
        await keys_of(ann, id=20, token=token())
        for shown in ("", "x", token("bob")):
            request = {"channel": VIEW, "token": shown}
            assert (await ann.ask(21, sub_refresh=request))["error"]["code"] == 103
        await ann.send({"id": 22, "sub_refresh": {"channel": VIEW, "token": token(lasts=-1)}})
        assert (await ann.next())["push"]["unsubscribe"]["code"] == 2501
        assert (await ann.next())["error"]["code"] == 109
        await ann.socket.close()
        await until(lambda: none_left(publisher))


async def test_channel_token_does_not_connect() -> None:
    async with serving(two_rows(), auth=AUTH) as publisher, raw(publisher) as ann:
        await ann.send({"id": 1, "connect": {"token": token(channel=VIEW)}})
        assert (await ann.closed())[0] == 3500


# --- limits ---------------------------------------------------------------------------------------------


async def test_limits_of_a_token_apply() -> None:
    fake_view = two_rows()
    limits = {"channels": 1, "queries": 2, "rate": 5}
    async with (
        serving(fake_view, auth=AUTH) as publisher,
        connected(publisher, token(limits=limits)) as one,
        connected(publisher, token(limits=limits)) as two,
        connected(publisher, token(limits=limits)) as three,
        connected(publisher, token("bob", limits=limits)) as bob,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {token(limits=limits)}"}) as http,
    ):
        await keys_of(one)
        assert (await one.ask(3, subscribe={"channel": f"{VIEW}?keys=de"}))["error"]["code"] == 106
        await keys_of(two)
        await keys_of(bob)
        assert (await three.ask(2, subscribe={"channel": VIEW}))["error"]["code"] == 106
        url = f"{publisher.addresses['http']}/v1/views/{VIEW}/events"
        async with http.get(url) as reply:
            assert reply.status == 429
            assert (await reply.json())["error"]["code"] == "limit-exceeded"
        await one.ask(4, unsubscribe={"channel": VIEW})
        await keys_of(three, id=3)
        await two.socket.close()
        await until(lambda: publisher.access.limiter.reservations.count_of("queries:user:ann") == 1)
        async with http.get(url) as reply:
            assert reply.status == 200
        errors = [await bob.ask(n + 3, rpc={"method": "x"}) for n in range(9)]
        assert [one["error"]["code"] for one in errors][-1] == 111


# --- streams --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
async def test_stream_has_only_allowed_rows(accept: str) -> None:
    fake_view = two_rows()
    async with serving(fake_view, auth=AUTH) as publisher, aiohttp.ClientSession() as http:
        url = f"{publisher.addresses['http']}/v1/views/{VIEW}/events"
        shown: tuple[tuple[dict[str, str], dict[str, str], str], ...] = (
            ({"Authorization": f"Bearer {german()}"}, {}, "de"),
            ({"X-API-Key": KEY}, {}, "de"),
            ({}, {"token": french()}, "fr"),
        )
        for n, (headers, query, row) in enumerate(shown):
            async with http.get(url, headers={"Accept": accept, **headers}, params=query) as stream:
                read = await until_seen(stream, b"ready")
                await until(lambda: describe(publisher.hub, publisher.stats, "")["channels"] == 1)
                fake_view.put(("de", {"c": "DE", "n": n + 1}), ("fr", {"c": "FR", "n": n + 1}))
                read += await until_seen(stream, b'"op":"change"')
                assert f'"{row}"'.encode() in read
                assert (b'"de"' in read, b'"fr"' in read) == (row == "de", row == "fr")
            await until(lambda: none_left(publisher))
        for headers, query, status in (
            ({}, {}, 401),
            ({}, {"token": "x"}, 401),
            ({}, {"token": ""}, 401),
            ({"Authorization": f"Bearer {german(lasts=-1)}"}, {}, 401),
            ({"X-API-Key": KEY}, {"token": german()}, 401),
            ({}, {"token": token(views=["bets"])}, 403),
        ):
            async with http.get(url, headers={"Accept": accept, **headers}, params=query) as reply:
                assert reply.status == status
                assert "WWW-Authenticate" in reply.headers
                assert set((await reply.json())["error"]) == {"code", "message", "hint", "retry"}


async def until_seen(stream: aiohttp.ClientResponse, what: bytes) -> bytes:
    assert stream.status == 200
    read = b""
    async with asyncio.timeout(WAIT):
        while what not in read:
            chunk = await stream.content.readany()
            assert chunk, read
            read += chunk
    return read


async def test_stream_resumes_only_under_its_row_filter() -> None:
    fake_view = two_rows()
    async with serving(fake_view, auth=AUTH) as publisher, aiohttp.ClientSession() as http:
        url = f"{publisher.addresses['http']}/v1/views/{VIEW}/events"
        async with http.get(url, params={"token": german()}) as stream:
            read = await until_seen(stream, b"event: ready")
            # Another user with the same rows but no filter: positions have another epoch.
            async with http.get(url, params={"token": token(), "where": "c = 'DE'"}) as other:
                first = await until_seen(other, b"event: ready")
                fake_view.put(("de", {"c": "DE", "n": 1}))
                changed = await until_seen(stream, b"event: change")
                assert f"id: {fake_view.epoch}:3\n".encode() in await until_seen(other, b"event: change")
            assert f"id: {fake_view.epoch}:2\n".encode() in first
        id = next(line for line in read.split(b"\n") if line.startswith(b"id: "))[4:].decode()
        assert id.split(":")[0] != fake_view.epoch
        assert id.split(":")[0].encode() in changed
        for shown, resumed in ((german(), b"true"), (french("ann"), b"false"), (token(), b"false")):
            async with http.get(url, params={"token": shown, "last_event_id": id}) as stream:
                assert b'"recovered":' + resumed in await until_seen(stream, b"event: ready")


async def test_stats_and_metrics_need_an_operator() -> None:
    async with serving(two_rows(), auth=AUTH) as publisher, aiohttp.ClientSession() as http:
        base = publisher.addresses["http"]
        for path in ("/v1/stats", "/metrics"):
            for shown, status in (("", 401), (token(), 403), (token(operator="read"), 200)):
                headers = {"Authorization": f"Bearer {shown}"} if shown else {}
                async with http.get(base + path, headers=headers) as reply:
                    assert reply.status == status
            async with http.get(base + path, params={"token": token(operator="read")}) as reply:
                assert reply.status == 401, "in the address a token is for streams only"
        request = {"Access-Control-Request-Method": "GET", "Origin": "http://127.0.0.1"}
        async with http.options(f"{base}/v1/views/{VIEW}/events", headers=request) as reply:
            assert "Authorization" in reply.headers["Access-Control-Allow-Headers"]


async def test_clients_are_temporarily_refused_when_the_store_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def down(users: object) -> Any:
        raise ConnectionError("gone")

    fake_view = two_rows()
    monkeypatch.setattr(fake_view.reader, "revoked", down)
    async with serving(fake_view, auth=AUTH) as publisher, raw(publisher) as ann:
        error = (await ann.ask(1, connect={"token": german()}))["error"]
        assert (error["code"], error["temporary"]) == (100, True)
        url = f"{publisher.addresses['http']}/v1/views/{VIEW}/events"
        headers = {"Authorization": f"Bearer {german()}"}
        async with aiohttp.ClientSession(headers=headers) as http:
            async with http.get(url) as reply:
                assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
            async with http.get(url, headers={"Accept": "text/event-stream"}) as reply:
                assert reply.status == 200, "or a browser would not come back"
                assert b'event: end\ndata: {"code":100' in await reply.read()


async def test_refusals_are_in_the_audit_log(tmp_path: Path) -> None:
    moves = ClientPublisher((), FakeView().reader, FakeTopicWriter().produce)
    async with (
        serving(two_rows(), auth=AUTH, data_dir=tmp_path, client_publisher=moves) as publisher,
        aiohttp.ClientSession() as http,
    ):
        async with raw(publisher, CODECS[0]) as client:
            await client.send({"id": 1, "connect": {"token": "abracadabra"}})
            await client.closed()
        async with connected(publisher, token()) as ann:
            await ann.ask(2, subscribe={"channel": "bets"})
            await ann.ask(3, publish={"channel": "feed:moves", "data": {}})
        async with http.get(f"{publisher.addresses['http']}/metrics") as reply:
            assert reply.status == 401
    text = (tmp_path / "audit.log").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    assert [
        (one["component"], one["user"], one["action"], one["target"], one["result"]) for one in found
    ] == [
        ("publisher", "", "connect", "", "refused"),
        ("publisher", "ann", "subscribe", "bets", "refused"),
        ("publisher", "ann", "publish", "feed:moves", "refused"),
        ("publisher", "", "GET /metrics", "", "refused"),
    ]
    assert {one["address"] for one in found} == {"127.0.0.1"}
    assert "abracadabra" not in text


async def test_user_in_debt_of_processor_time_is_read_later() -> None:
    async with (
        serving(FakeView(), auth=AUTH) as publisher,
        connected(publisher, token()) as ann,
        connected(publisher, token("bob")) as bob,
    ):
        limiter = publisher.websocket.access.limiter
        limiter.charge(Grant("ann"), 0.34)  # it may take 0.3 s at once, and 0.03 s in a second
        clock = asyncio.get_running_loop().time
        began = clock()
        first = await ann.ask(2, unsubscribe={"channel": "x"})
        await ann.send({"id": 3, "unsubscribe": {"channel": "x"}})
        assert await keys_of(bob) == []
        others = clock() - began
        assert (await ann.next()).keys() == first.keys()
        assert clock() - began > max(1.0, 2 * others), "bob pays for nothing"
        assert not limiter.is_in_debt(Grant("ann"))


async def test_stream_of_a_user_over_its_limits_is_refused_before_its_query_is_read() -> None:
    async with serving(two_rows(), auth=AUTH) as publisher, aiohttp.ClientSession() as http:
        url = f"{publisher.addresses['http']}/v1/views/{VIEW}/events?where=no+filter+at+all"
        for limits, status in (({}, 400), ({"connections": 0}, 429)):
            headers = {"Authorization": f"Bearer {token(limits=limits)}"}
            async with http.get(url, headers=headers) as reply:
                assert reply.status == status, await reply.text()
