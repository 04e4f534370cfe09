"""Subscribe, then begin: through control API, Kafka, Spark, store and publishers; nothing stays behind."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import pytest
import redis
import websockets
from tests.support.clock import LIMIT
from tests.support.serving_publisher import Raw
from tests.support.stack import Feeding, RunningStack
from tests.support.wait import eventually

from distributary.kafka.commands_topic import CommandsReader
from distributary.model.command import Command

pytestmark = pytest.mark.slow

TEAMS = "abcdefgh"
TTL_AND_SWEEPS = 3 + 2 * 5


class Held(NamedTuple):
    """All that anybody holds of a view's queries."""

    stored: dict[str, int]
    reducers: dict[str, tuple[int, ...]]
    publishers: tuple[int, int]


SIZES = ("queries", "fields_read", "fields", "values", "bounds", "rest", "times")
"""What a reducer reports about its queries."""


def in_reducers(found: Held) -> set[tuple[int, int]]:
    """How many queries each reducer knows, and under how many values."""
    return {(one[SIZES.index("queries")], one[SIZES.index("values")]) for one in found.reducers.values()}


async def current(stack: RunningStack, view: str) -> Held:
    """Ask the store, the reducers and the publishers.

    Of the rows and the log only that they exist; the short logs of the registry's changes and of checkpoints
    stay.
    """
    reader, store = stack.reader(), redis.Redis.from_url(stack.config.store.url)
    try:
        names = sorted(name.decode() for name in store.scan_iter(f"d:{{{view}}}:*", 1_000))
        sizes = {
            name: size
            for name in names
            if not name.endswith((":q:steps", ":ctl", ":checkpoints"))
            and (size := _size(store, name)) is not None
        }
        reducers, subscribers, queries = {}, 0, 0
        for beat in await reader.heartbeats():
            message = json.loads(beat.stats)
            if beat.component == "reducer" and beat.id.startswith(f"{view}/") and "queries" in message:
                reducers[beat.id] = tuple(message[size] for size in SIZES)
            elif beat.component == "publisher" and view in message["views"]:
                subscribers += message["views"][view]["subscribers"]
                queries += message["views"][view]["queries"]
        return Held(sizes, reducers, (subscribers, queries))
    finally:
        store.close()
        await reader.close()


def _size(store: Any, name: str) -> int | None:
    """Return how much a key has; None when it was removed since the keys were listed."""
    kind = name.split(":", 2)[2]
    if kind.startswith(("q:", "s:")) or kind.endswith((":last", ":since")):
        count = {b"hash": store.hlen, b"zset": store.zcard, b"list": store.llen, b"stream": store.xlen}
        type_name = store.type(name)
        return None if type_name == b"none" else int(count[type_name](name))
    return 1


@pytest.fixture
def commands(stack: RunningStack) -> Iterator[list[Command]]:
    """What comes on the commands topic from now on."""
    received: list[Command] = []
    reader = CommandsReader(stack.config.kafka, received.append).start()
    assert reader.wait(20 * LIMIT)
    yield received
    reader.close()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Raw]:
    async with websockets.connect(url, proxy=None) as socket:
        client = Raw(socket)
        await client.connect()
        yield client


class Api:
    """The control API's subscriptions; every call has the status that it expects."""

    def __init__(self, http: aiohttp.ClientSession, view: str) -> None:
        self._http = http
        self._view = view

    async def make(self, **query: Any) -> Any:
        return await self._call("POST", "", 201, {"view": self._view, **query})

    async def begin(self, id: str, expected: int = 200) -> Any:
        return await self._call("POST", f"/{id}/begin", expected)

    async def end(self, id: str, expected: int = 204) -> Any:
        return await self._call("DELETE", f"/{id}", expected)

    async def _call(self, method: str, path: str, expected: int, body: Any = None) -> Any:
        async with self._http.request(method, f"/v1/subscriptions{path}", json=body) as reply:
            assert reply.status == expected, await reply.text()
            return await reply.json() if expected != 204 else None


async def test_two_step_subscription_leaves_nothing_when_it_ends(
    feeding: Feeding, commands: list[Command]
) -> None:
    stack = feeding.stack
    view = await feeding.view(key="id", feed={"partitions": 2, "partitioned_by": "id"})
    rows: dict[str, Any] = {}

    def produce(**changes: Any) -> None:
        feeding.produce([(id, {"id": id, **fields}) for id, fields in changes.items()])
        for id, fields in changes.items():
            rows[id] = rows.get(id, {"id": id}) | fields

    produce(**{id: {"sport": "fg"[n % 2], "n": 0} for n, id in enumerate(TEAMS)})
    await feeding.rows_become(view, rows)

    async def look() -> Held:
        return await current(stack, view)

    def nothing_left(found: Held) -> bool:
        # A task that had no record yet since its batch began has not opened its partition.
        return found._replace(reducers=before.reducers | found.reducers) == before

    before = await eventually(look, lambda found: len(found.reducers) == 2)
    assert set(before.reducers.values()) == {(0,) * len(SIZES)}
    assert before.publishers == (0, 0)

    async with aiohttp.ClientSession(stack.addresses["control"]) as http:
        api = Api(http, view)
        made = await api.make(where="sport = 'f'")
        id, channel = made["id"], made["channel"]
        assert made["state"] == "waiting"
        assert json.loads(made["query"]) == {"where": ["in", "sport", "text", "f"]}
        await eventually(look, lambda found: in_reducers(found) == {(1, 1)})

        async with connected(made["publisher"]) as client:
            requested = {"channel": channel, "data": {"subscription": id}}
            await client.send({"id": 2, "subscribe": requested})
            reply = (await client.next())["subscribe"]
            assert (reply["data"], reply["offset"]) == ({"op": "waiting"}, 0)
            produce(a={"n": 1}, b={"sport": "f"})
            await feeding.rows_become(view, rows)

            assert (await api.begin(id))["state"] == "begun"
            assert (await api.begin(id, 409))["error"]["code"] == "already-begun"
            assert (await api.begin("none", 404))["error"]["code"] == "subscription-not-found"
            got = (await client.next())["push"]["pub"]
            assert "offset" not in got, "no change came before the state"
            football = {key: row for key, row in rows.items() if row["sport"] == "f"}
            assert dict(got["data"]["rows"]) == football
            ready = (await client.next())["push"]["pub"]
            position = f"{reply['epoch']}:{ready['offset']}"
            assert ready["data"] == {"op": "ready", "position": position, "tier": "snapshot"}
            assert ready["offset"] == len(TEAMS) + 2, "the position counts the whole view's changes"

            seqs = [ready["offset"]]
            for n in range(2, 6):
                produce(a={"n": n}, d={"sport": "fg"[n % 2]}, f={"n": n})
                received = [(await client.next())["push"]["pub"] for _ in range(2)]
                result = {pub["data"]["key"]: pub["data"] for pub in received}
                assert result["a"]["changed"] == {"n": n}
                assert result["d"]["op"] == ("add" if n % 2 == 0 else "remove")
                seqs += [pub["offset"] for pub in received]
            assert seqs == sorted(set(seqs)), "positions grow"

            await api.end(id)
            ended = await client.next()
            assert ended["push"]["unsubscribe"]["code"] == 2002
            await client.send({"id": 3, "subscribe": requested})
            assert (await client.next())["error"]["code"] == 102
        await api.end(id, 404)
        await eventually(look, nothing_left)

        lost = await api.make(keys=["a", "b"])
        async with connected(made["publisher"]) as client:
            requested = {"channel": lost["channel"], "data": {"subscription": lost["id"]}}
            await client.send({"id": 2, "subscribe": requested})
            await client.next()
            await api.begin(lost["id"])
            assert dict((await client.next())["push"]["pub"]["data"]["rows"]).keys() == {"a", "b"}
            await eventually(look, lambda found: in_reducers(found) == {(1, 2)})
            await eventually(look, lambda found: found.publishers == (1, 1))
            client.socket.transport.abort()
        await eventually(look, nothing_left, TTL_AND_SWEEPS + 10)
        await api.end(lost["id"], 404)

    async def recorded() -> list[tuple[str, str]]:
        return [(c.op, c.view) for c in commands if c.subscription in (id, lost["id"])]

    once = [("subscribe", view), ("begin", view), ("end", view)]
    await eventually(recorded, lambda found: found == once * 2)
