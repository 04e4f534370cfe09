"""Invalid input of clients: each gets its code, and others are not affected."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import websockets
from tests.integration.conftest import Database
from tests.integration.subscriber.conftest import Start
from tests.support.counted_view import COUNTED, VIEW
from tests.support.reducer_harness import ReducerHarness
from tests.support.serving_publisher import Raw

from distributary.store.redis_writer import RedisWriter


@asynccontextmanager
async def connected(url: str, *, greet: bool = True) -> AsyncIterator[Raw]:
    async with websockets.connect(url, proxy=None, max_size=None) as socket:
        client = Raw(socket)
        if greet:
            await client.connect()
        yield client


async def test_bad_input_gets_documented_codes(database: Database, publish: Start) -> None:
    writer = RedisWriter(database.url)
    writer.define(VIEW, COUNTED.build, COUNTED.text)
    writer.close()
    folding = ReducerHarness(database.url, COUNTED)
    folding.go_live()
    folding.fold(a={"n": 0})
    addresses = (await asyncio.to_thread(publish, database.url)).addresses
    url = addresses["websocket"]
    async with connected(url) as good:
        await good.send({"id": 2, "subscribe": {"channel": VIEW}})
        assert "subscribe" in await good.next()
        n = 0

        async def unaffected() -> None:
            nonlocal n
            n += 1
            folding.fold(a={"n": n})
            assert (await good.next())["push"]["pub"]["data"]["changed"] == {"n": n}

        await refused_commands(url)
        await unaffected()
        for frame, code in (
            ('{"id":1,"subscribe":{"channel":"counted"}}', 3501),  # before connect
            ("{not json", 3501),
            ("[]", 3501),
            ('{"id":1,"connect":{}}\n{"id":2}', 3501),
            ('{"id":1,"connect":{}}\n{"id":2,"subscribe":{"channel":7}}', 3501),
            ('{"id":1,"connect":{}}\n' + "[" * 20_000, 3501),
            (json.dumps({"id": 1, "connect": {"token": "x" * 65_536}}), 1009),
            (b'{"id":1,"connect":{}}', 3501),  # binary
        ):
            async with connected(url, greet=False) as bad:
                await bad.socket.send(frame)
                assert (await bad.closed())[0] == code, frame[:40]
            await unaffected()
        await too_many(url)
        await unaffected()
        async with aiohttp.ClientSession() as http, http.get(addresses["http"] + "/v1/stats") as reply:
            message = await reply.json()
        assert (message["connections"], message["subscribers"], list(message["views"])) == (1, 1, [VIEW])
        assert message["closes"]["3501"] == 7
    folding.store.close()


async def refused_commands(url: str) -> None:
    """Refusals end a command, not the connection."""
    async with connected(url) as bad:
        for id, (request, code) in enumerate(
            [
                ({"channel": "no-such-view"}, 102),
                ({"channel": "no-such-view?keys=a"}, 102),
                ({"channel": f"q:{VIEW}:ffffffff"}, 102),
                ({"channel": "q:nonsense"}, 107),
                ({"channel": f"q:{VIEW}:x", "data": {"subscription": "none"}}, 102),
                ({"channel": VIEW, "data": {"subscription": "none"}}, 102),
                ({"channel": VIEW, "data": [1]}, 107),
                ({"channel": f"{VIEW}?where=n%20%3E"}, 107),
                ({"channel": f"{VIEW}?where=n%20likes%20'x'"}, 107),
                ({"channel": f"{VIEW}?where=n%20%3D%201&keys=a"}, 107),
                ({"channel": f"{VIEW}?what=n"}, 107),
                ({"channel": VIEW + "?where=%ff"}, 107),
                ({"channel": "x" * 20_000}, 107),
            ],
            10,
        ):
            await bad.send({"id": id, "subscribe": request})
            reply = await bad.next()
            assert (reply["id"], reply["error"]["code"]) == (id, code), request
            assert not reply["error"].get("temporary")
        await bad.send({"id": 99, "rpc": {"method": "x"}})
        assert (await bad.next())["error"]["code"] == 104
        missing: dict[str, Any] = {"channel": f"{VIEW}?where=no_such_field%20%3D%201"}
        await bad.send({"id": 100, "subscribe": missing})
        reply = await bad.next()
        assert reply["subscribe"]["data"]["rows"] == [], (
            "a field that no row has yet is a filter like another"
        )


async def too_many(url: str) -> None:
    """The 129th channel is refused; one that is left makes room."""
    async with connected(url) as bad:
        names = [f"{VIEW}?keys=k{n}" for n in range(129)]
        await bad.send(*({"id": n + 2, "subscribe": {"channel": name}} for n, name in enumerate(names)))
        replies = {(reply := await bad.next())["id"]: reply for _ in names}
        errors = {id: reply["error"]["code"] for id, reply in replies.items() if "error" in reply}
        assert errors == {130: 106}
        await bad.send({"id": 200, "unsubscribe": {"channel": names[0]}})
        await bad.send({"id": 201, "subscribe": {"channel": names[-1]}})
        assert "unsubscribe" in await bad.next()
        assert "subscribe" in await bad.next()
