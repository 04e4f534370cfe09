"""The clients that people use, unmodified: centrifuge-python, and npm centrifuge under Node."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from centrifuge import Client, SubscriptionEventHandler
from tests.integration.publish.serving import WAIT, serving
from tests.unit.publish.world import VIEW, World, until

from distributary.model.query import Query

NODE = Path(__file__).parents[2] / "node"


class Notes(SubscriptionEventHandler):  # type: ignore[misc]
    """Writes down what the SDK says."""

    def __init__(self) -> None:
        self.subscribed: list[Any] = []
        self.pubs: list[tuple[int, Any]] = []
        self.unsubscribed: list[int] = []
        self.errors: list[Any] = []

    async def on_subscribed(self, ctx: Any) -> None:
        self.subscribed.append(ctx)

    async def on_publication(self, ctx: Any) -> None:
        self.pubs.append((ctx.pub.offset, ctx.pub.data))

    async def on_unsubscribed(self, ctx: Any) -> None:
        self.unsubscribed.append(ctx.code)

    async def on_error(self, ctx: Any) -> None:
        self.errors.append(ctx.error)


async def test_python_recovers_after_a_disconnect_and_an_epoch() -> None:
    world = World()
    world.put(("a", {"n": 0}))
    async with serving(world) as publisher:
        client = Client(publisher.addresses["websocket"], min_reconnect_delay=0.01)
        notes = Notes()
        await client.connect()
        await client.new_subscription(VIEW, notes).subscribe()
        await until(lambda: notes.subscribed)
        assert notes.subscribed[0].data["rows"] == [["a", {"n": 0}]]
        world.put(("a", {"n": 1}))
        await until(lambda: notes.pubs)
        await client.disconnect()
        world.put(("a", {"n": 2}), ("b", {"n": 1}))
        await client.connect()
        await until(lambda: len(notes.subscribed) == 2)
        assert notes.subscribed[1].recovered
        await until(lambda: [offset for offset, _ in notes.pubs] == [2, 3, 4])
        world.crash()
        await until(lambda: len(notes.subscribed) == 3)
        assert notes.subscribed[2].was_recovering
        assert not notes.subscribed[2].recovered
        assert dict(notes.subscribed[2].data["rows"]) == world.rows()
        world.put(("b", {"n": 5}))
        await until(lambda: len(notes.pubs) == 4)
        await client.disconnect()


async def test_python_goes_on_at_another_publisher() -> None:
    world = World()
    async with serving(world) as one, serving(world) as other:
        addresses = [one.addresses["websocket"], other.addresses["websocket"]]
        epoch, seen = "", [0]
        for address in addresses:
            client = Client(address)
            notes = Notes()
            sub = client.new_subscription(VIEW, notes)
            if epoch:  # what an application does that keeps its position
                sub._recover, sub._offset, sub._epoch = True, seen[-1], epoch
            await client.connect()
            await sub.subscribe()
            await until(lambda notes=notes: notes.subscribed)  # type: ignore[misc]
            epoch = notes.subscribed[0].stream_position.epoch
            last = world.put(("a", {"n": len(seen)}))
            await until(lambda notes=notes, last=last: last in [n for n, _ in notes.pubs])  # type: ignore[misc]
            seen += [offset for offset, _ in notes.pubs]
            await client.disconnect()
            world.put(("a", {"n": -1}))
        assert seen == [0, 1, 2, 3]


async def test_python_two_steps() -> None:
    world = World()
    world.put(("a", {"s": "f"}))
    query = Query.parse(VIEW, "s = 'f'")
    await world.reader.register(VIEW, query.id, query.text, "G", 60_000, False)
    async with serving(world) as publisher:
        client = Client(publisher.addresses["websocket"])
        notes = Notes()
        await client.connect()
        await client.new_subscription(query.channel, notes, data={"subscription": "G"}).subscribe()
        await until(lambda: notes.subscribed)
        assert notes.subscribed[0].data == {"op": "waiting"}
        await world.reader.begin(VIEW, "G", 60_000)
        await until(lambda: len(notes.pubs) == 2)
        assert [data["op"] for _, data in notes.pubs] == ["snapshot", "ready"]
        await client.disconnect()
        world.put(("b", {"s": "f"}))
        await client.connect()
        await until(lambda: len(notes.subscribed) == 2)
        assert notes.subscribed[1].recovered
        await until(lambda: len(notes.pubs) == 3)
        await client.disconnect()


async def test_python_is_told_what_is_wrong() -> None:
    world = World(live=False)
    async with serving(world) as publisher:
        client = Client(publisher.addresses["websocket"])
        building, unknown = Notes(), Notes()
        await client.connect()
        retried = client.new_subscription(VIEW, building, min_resubscribe_delay=0.01)
        await retried.subscribe()
        await client.new_subscription("nothing", unknown).subscribe()
        await until(lambda: building.errors and unknown.unsubscribed)
        assert unknown.unsubscribed == [102]
        assert building.errors[0].code == 1100
        world.store.writer.go_live(world.build)
        await until(lambda: building.subscribed)
        world.store.writer.drop_view(VIEW)
        await until(lambda: building.unsubscribed == [2000])
        await client.disconnect()


@pytest.mark.skipif(
    shutil.which("node") is None or not (NODE / "node_modules" / "centrifuge").is_dir(),
    reason="needs node and tests/node/node_modules (make test installs them)",
)
async def test_node() -> None:
    """The script says what it sees, a line each; the test acts in between."""
    world = World()
    world.put(("a", {"n": 0}))
    async with serving(world) as publisher:
        process = await asyncio.create_subprocess_exec(
            "node",
            str(NODE / "follow.mjs"),
            publisher.addresses["websocket"],
            VIEW,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None

        async def heard(event: str) -> Any:
            """Read on to the next line that tells of this event."""
            assert process.stdout is not None
            async with asyncio.timeout(3 * WAIT):
                while True:
                    said = json.loads(await process.stdout.readline())
                    if said["event"] == event:
                        return said

        async def say(word: str) -> None:
            assert process.stdin is not None
            process.stdin.write(word.encode() + b"\n")
            await process.stdin.drain()

        try:
            assert (await heard("subscribed"))["data"]["rows"] == [["a", {"n": 0}]]
            world.put(("a", {"n": 1}))
            pub = await heard("publication")
            assert (pub["offset"], pub["data"]["changed"]) == (2, {"n": 1})
            await say("disconnect")
            await heard("subscribing")
            await until(lambda: not publisher.stats.connections)
            world.put(("a", {"n": 2}))
            await say("connect")
            again = await heard("subscribed")
            assert (again["wasRecovering"], again["recovered"]) == (True, True)
            assert (await heard("publication"))["offset"] == 3
            world.crash()
            assert (await heard("subscribing"))["code"] == 2500
            again = await heard("subscribed")
            assert (again["wasRecovering"], again["recovered"]) == (True, False)
            assert again["data"]["rows"] == [["a", {"n": 2}]]
            world.put(("a", {"n": 3}))
            await heard("publication")
            await say("history")
            assert (await heard("history"))["offsets"][-1] == 4
            await say("end")
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
