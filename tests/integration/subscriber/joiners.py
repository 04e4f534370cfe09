"""Subscribers that join a counted view in every way, again and again, and check what they get."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

import aiohttp
import websockets
from tests.support.counted_view import GROUPS, VIEW, Wanted, Witness, rows_at
from tests.support.fake_view import until
from tests.support.serving_publisher import Raw
from tests.support.sse_reader import Stream

from distributary.model.query import Query
from distributary.store.redis_reader import RedisReader


class CountedQuery(NamedTuple):
    """A query: its one-step channel, its parameters for SSE, itself, and which rows it wants."""

    channel: str
    parameters: str
    query: Query
    wanted: Wanted


def by_group(group: int) -> CountedQuery:
    where = f"g = {group}"
    return CountedQuery(
        f"{VIEW}?where={quote(where)}",
        f"where={quote(where)}",
        Query.parse(VIEW, where),
        lambda key, row: row["g"] == group,
    )


def by_keys(*keys: str) -> CountedQuery:
    text = "keys=" + ",".join(keys)
    return CountedQuery(f"{VIEW}?{text}", text, Query.of_keys(VIEW, keys), lambda key, row: key in keys)


WHOLE = CountedQuery(VIEW, "", Query.parse(VIEW, None), lambda key, row: True)
GROUPED = [by_group(group) for group in range(GROUPS)]
KEYED = [
    by_keys(*(f"h{row}" for row in range(12)), "c7", "none"),
    by_keys(*(f"h{row}" for row in range(8, 16))),
    by_keys("h2"),
]


@dataclass
class Tally:
    """What all subscribers found."""

    joins: dict[str, int] = field(default_factory=dict)
    changes: int = 0
    faults: list[str] = field(default_factory=list)

    def count(self, how: str, witness: Witness) -> None:
        """Take note of a join that is over."""
        self.joins[how] = self.joins.get(how, 0) + 1
        self.changes += witness.changes
        self.faults += [f"{how}: {fault}" for fault in witness.faults]
        witness.changes = 0
        witness.faults.clear()

    @property
    def total(self) -> int:
        return sum(self.joins.values())


class Joiners:
    """All kinds of subscribers of one publisher. A fault ends them all: there is nothing more to learn."""

    def __init__(self, addresses: dict[str, str], reader: RedisReader, seed: int) -> None:
        self.tally = Tally()
        self._addresses = addresses
        self._reader = reader
        self._random = random.Random(seed)

    async def run(
        self, *, sockets: tuple[int, int], steps: tuple[int, int], streams: tuple[int, int]
    ) -> None:
        """Run this many subscribers of each kind, with this many joins each."""
        async with asyncio.TaskGroup() as group:
            for _ in range(sockets[0]):
                group.create_task(self._sockets(sockets[1]))
            for _ in range(steps[0]):
                group.create_task(self._steps(steps[1]))
            for _ in range(streams[0]):
                group.create_task(self._streams(streams[1]))

    async def stay(self, asking: CountedQuery, joined: asyncio.Event, end: asyncio.Future[int]) -> Witness:
        """Join once and stay until the view has come to its end; give the account."""
        witness = Witness(asking.wanted)
        async with socket(self._addresses) as client:
            await client.send({"id": 2, "subscribe": {"channel": asking.channel}})
            take_reply(witness, (await client.next())["subscribe"])
            joined.set()
            listening = asyncio.create_task(self._listen(client, witness))
            try:
                last = await end
                await until(lambda: listening.done() or witness.rows == wanted_at(asking, last))
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
        witness.passed(last)
        return witness

    async def _listen(self, client: Raw, witness: Witness) -> None:
        while True:
            take(witness, await client.next())

    # --- the kinds --------------------------------------------------------------------------------------

    async def _sockets(self, joins: int) -> None:
        """One step over WebSocket; now and then it resumes where it left."""
        async with socket(self._addresses) as client:
            asking, witness, epoch = WHOLE, Witness(WHOLE.wanted), ""
            for _ in self._while_good(joins):
                if not epoch:
                    asking = self._choose()
                    witness = Witness(asking.wanted)
                request: dict[str, Any] = {"channel": asking.channel}
                if epoch:
                    request |= {"recover": True, "epoch": epoch, "offset": witness.seq}
                await client.send({"id": 2, "subscribe": request})
                reply = (await client.next())["subscribe"]
                how = take_reply(witness, reply)
                await self._follow(client, asking.channel, witness)
                self.tally.count(how, witness)
                epoch = reply["epoch"] if self._random.random() < 0.4 else ""
                await self._jitter()

    async def _steps(self, joins: int) -> None:
        """Two steps; the begin comes before, beside or after the subscribe."""
        async with socket(self._addresses) as client:
            for _ in self._while_good(joins):
                asking, id = self._choose(), str(uuid.uuid4())
                witness, query = Witness(asking.wanted), asking.query
                await self._reader.register(
                    VIEW, query_id=query.id, text=query.text, subscription=id, ttl_ms=60_000, begun=False
                )
                when = self._random.choices(("before", "beside", "after"), (1, 3, 6))[0]
                if when == "before":
                    await self._reader.begin(VIEW, id, 60_000)
                request = {"channel": query.channel, "data": {"subscription": id}}
                await client.send({"id": 2, "subscribe": request})
                if when == "beside":
                    await self._jitter()
                    await self._reader.begin(VIEW, id, 60_000)
                reply = (await client.next())["subscribe"]
                if when == "after":
                    await self._jitter()
                    assert await self._reader.begin(VIEW, id, 60_000)
                if reply["data"]["op"] == "waiting":
                    await self._state(client, witness)
                    how = "begun"
                else:
                    how = "begun early, " + take_reply(witness, reply)
                await self._follow(client, query.channel, witness)
                self.tally.count(how, witness)

    async def _streams(self, joins: int) -> None:
        """Server-sent events; the connection is cut, and now and then it resumes by its last id."""
        async with aiohttp.ClientSession() as http:
            asking, witness, last = WHOLE, Witness(WHOLE.wanted), ""
            for _ in self._while_good(joins):
                if not last:
                    asking = self._choose()
                    witness = Witness(asking.wanted)
                url = f"{self._addresses['http']}/v1/views/{VIEW}/events?{asking.parameters}"
                async with http.get(url, headers={"Last-Event-ID": last} if last else {}) as reply:
                    how, last = await self._events(Stream(reply), witness)
                self.tally.count(how, witness)
                if self._random.random() < 0.5:
                    last = ""
                await self._jitter()

    # --- common parts -----------------------------------------------------------------------------------

    def _while_good(self, joins: int) -> Iterator[int]:
        for n in range(joins):
            if not self.tally.faults:
                yield n

    def _choose(self) -> CountedQuery:
        """Choose a query; those that are read in pages cost more, so fewer ask for them."""
        kind = self._random.random()
        return WHOLE if kind < 0.03 else self._random.choice(GROUPED if kind < 0.15 else KEYED)

    async def _jitter(self) -> None:
        """Come at another moment each time."""
        await asyncio.sleep(self._random.random() * 0.004)

    async def _state(self, client: Raw, witness: Witness) -> None:
        rows: list[Any] = []
        while (pub := (await client.next())["push"]["pub"])["data"]["op"] == "snapshot":
            assert "offset" not in pub
            rows += pub["data"]["rows"]
        assert pub["data"]["op"] == "ready", pub
        witness.state(pub["offset"], rows)

    async def _follow(self, client: Raw, channel: str, witness: Witness) -> None:
        for _ in range(self._random.randrange(6)):
            take(witness, await client.next())
        await client.send({"id": 3, "unsubscribe": {"channel": channel}})
        while "push" in (message := await client.next()):
            take(witness, message)
        assert message == {"id": 3, "unsubscribe": {}}

    async def _events(self, stream: Stream, witness: Witness) -> tuple[str, str]:
        """Read a stream for a while; return how it began, and the last id."""
        how, last, rows, more = "", "", list[Any](), self._random.randrange(6)
        while not how or more > 0:
            event = await stream.next()
            last = event.id or last
            if event.name == "snapshot":
                rows += event.data["rows"]
            elif event.name == "ready":
                how = "stream resumed" if event.data["recovered"] else "stream"
                seq = int(event.id.rpartition(":")[2])
                witness.passed(seq) if event.data["recovered"] else witness.state(seq, rows)
            else:
                assert event.name == "change", event
                witness.change(int(event.id.rpartition(":")[2]), event.data)
                more -= bool(how)
        return how, last


def wanted_at(asking: CountedQuery, seq: int) -> dict[str, Any]:
    """A query's rows at a position."""
    return {key: row for key, row in rows_at(seq).items() if asking.wanted(key, row)}


@asynccontextmanager
async def socket(addresses: dict[str, str]) -> AsyncIterator[Raw]:
    """Open a connection and greet."""
    async with websockets.connect(
        addresses["websocket"], max_size=None, proxy=None, ping_interval=None
    ) as opened:
        client = Raw(opened)
        await client.connect()
        yield client


def take(witness: Witness, message: dict[str, Any]) -> None:
    """Take a push; it must be a change."""
    assert "pub" in message.get("push", {}), message
    pub = message["push"]["pub"]
    witness.change(pub["offset"], pub["data"])


def take_reply(witness: Witness, reply: dict[str, Any]) -> str:
    """Read the reply to a subscribe; return how it began."""
    if reply.get("recovered"):
        for pub in reply["publications"]:
            witness.change(pub["offset"], pub["data"])
        witness.passed(reply["offset"])
        return "recovered"
    witness.state(reply["offset"], reply["data"]["rows"])
    return "not recovered" if reply.get("was_recovering") else "snapshot"
