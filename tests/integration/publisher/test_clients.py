"""The clients that people use, unmodified: centrifuge-python, and npm centrifuge under Node."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from centrifuge import Client, ReplyError, StreamPosition, SubscriptionEventHandler
from tests.support.fake_view import VIEW, FakeTopicWriter, FakeView, until
from tests.support.serving_publisher import WAIT, serving

from distributary.model.feed import Feed
from distributary.model.query import Query
from distributary.publisher.metrics import describe
from distributary.publisher.websocket.client_publish import ClientPublisher

NODE = Path(__file__).parents[2] / "node"


protobuf = pytest.mark.parametrize("protobuf", [False, True], ids=["json", "protobuf"])


class Notes(SubscriptionEventHandler):  # type: ignore[misc]
    """Records the SDK's events."""

    def __init__(self) -> None:
        self.subscribed: list[Any] = []
        self.states: list[Any] = []
        self.publications: list[tuple[int, Any]] = []
        self.unsubscribed: list[int] = []
        self.errors: list[Any] = []

    async def on_subscribed(self, ctx: Any) -> None:
        self.states.append(plain(ctx.data))
        self.subscribed.append(ctx)

    async def on_publication(self, ctx: Any) -> None:
        self.publications.append((ctx.pub.offset, plain(ctx.pub.data)))

    async def on_unsubscribed(self, ctx: Any) -> None:
        self.unsubscribed.append(ctx.code)

    async def on_error(self, ctx: Any) -> None:
        self.errors.append(ctx.error)


def plain(data: Any) -> Any:
    """Payloads are bytes in Protobuf: the same JSON."""
    return json.loads(data) if isinstance(data, bytes) else data


def packed(data: Any, protobuf: bool) -> Any:
    return json.dumps(data).encode() if protobuf else data


@protobuf
async def test_python_recovers_after_a_disconnect_and_an_epoch(protobuf: bool) -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 0}))
    async with serving(fake_view) as publisher:
        client = Client(publisher.addresses["websocket"], min_reconnect_delay=0.01, use_protobuf=protobuf)
        notes = Notes()
        await client.connect()
        sub = client.new_subscription(VIEW, notes)
        await sub.subscribe()
        await until(lambda: notes.subscribed)
        assert notes.states[0]["rows"] == [["a", {"n": 0}]]
        fake_view.put(("a", {"n": 1}))
        await until(lambda: notes.publications)
        await client.disconnect()
        fake_view.put(("a", {"n": 2}), ("b", {"n": 1}))
        await client.connect()
        await until(lambda: len(notes.subscribed) == 2)
        assert notes.subscribed[1].recovered
        assert notes.states[1] == {"op": "resumed", "tier": "log"}
        await until(lambda: [offset for offset, _ in notes.publications] == [2, 3, 4])
        fake_view.crash()
        await until(lambda: len(notes.subscribed) == 3)
        assert notes.subscribed[2].was_recovering
        assert not notes.subscribed[2].recovered
        assert dict(notes.states[2]["rows"]) == fake_view.rows()
        assert notes.states[2]["tier"] == "snapshot"
        fake_view.put(("b", {"n": 5}))
        await until(lambda: len(notes.publications) == 4)
        assert notes.publications[-1][1]["changed"] == {"n": 5}
        await sub.unsubscribe()
        await until(lambda: describe(publisher.hub, publisher.stats, "")["subscribers"] == 0)
        await client.disconnect()


@protobuf
async def test_python_continues_at_another_publisher(protobuf: bool) -> None:
    fake_view = FakeView()
    async with serving(fake_view) as one, serving(fake_view) as other:
        addresses = [one.addresses["websocket"], other.addresses["websocket"]]
        epoch, seen = "", [0]
        for address in addresses:
            client = Client(address, use_protobuf=protobuf)
            notes = Notes()
            sub = client.new_subscription(VIEW, notes)
            if epoch:  # as an application does that stores its position
                sub._recover, sub._offset, sub._epoch = True, seen[-1], epoch
            await client.connect()
            await sub.subscribe()
            await until(lambda notes=notes: notes.subscribed)  # type: ignore[misc]
            epoch = notes.subscribed[0].stream_position.epoch
            last = fake_view.put(("a", {"n": len(seen)}))
            await until(lambda notes=notes, last=last: last in [n for n, _ in notes.publications])  # type: ignore[misc]
            seen += [offset for offset, _ in notes.publications]
            await client.disconnect()
            fake_view.put(("a", {"n": -1}))
        assert seen == [0, 1, 2, 3]


@protobuf
async def test_python_starts_from_a_position_with_some_fields(protobuf: bool) -> None:
    fake_view = FakeView(exact=True)
    fake_view.put(("a", {"n": 1, "z": 0}), ("b", {"n": 2, "z": 0}))
    position = f"{fake_view.epoch}:{fake_view.seq}"
    fake_view.put(("a", {"n": 5, "z": 1}), ("b", None))
    async with serving(fake_view) as publisher:
        client = Client(publisher.addresses["websocket"], min_reconnect_delay=0.01, use_protobuf=protobuf)
        notes = Notes()
        await client.connect()
        data = packed({"from": position}, protobuf)
        await client.new_subscription(f"{VIEW}?fields=n", notes, data=data).subscribe()
        await until(lambda: notes.subscribed)
        assert notes.states[0] == {"op": "resumed", "tier": "log"}
        await until(lambda: len(notes.publications) == 2)
        result = {message["key"]: message.get("row") for _, message in notes.publications}
        assert result == {"a": {"n": 5}, "b": None}
        fake_view.put(("a", {"n": 5, "z": 2}), ("a", {"n": 6, "z": 2}))
        await until(lambda: notes.publications[-1][1].get("changed") == {"n": 6})
        assert len(notes.publications) == 3, "a change of another field is not sent"
        # It reconnects with its own position, though it still sends its start.
        await client.disconnect()
        fake_view.put(("a", {"n": 7, "z": 2}))
        await client.connect()
        await until(lambda: len(notes.publications) == 4)
        assert notes.publications[-1][1]["changed"] == {"n": 7}
        await client.disconnect()


@protobuf
async def test_python_waits_for_a_begin(protobuf: bool) -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f"}))
    query = Query.parse(VIEW, "s = 'f'")
    await fake_view.reader.register(
        VIEW, query_id=query.id, text=query.text, subscription="G", ttl_ms=60_000, begun=False
    )
    async with serving(fake_view) as publisher:
        client = Client(publisher.addresses["websocket"], use_protobuf=protobuf)
        notes = Notes()
        await client.connect()
        data = packed({"subscription": "G"}, protobuf)
        await client.new_subscription(query.channel, notes, data=data).subscribe()
        await until(lambda: notes.subscribed)
        assert notes.states[0] == {"op": "waiting"}
        await fake_view.reader.begin(VIEW, "G", 60_000)
        await until(lambda: len(notes.publications) == 2)
        assert [data["op"] for _, data in notes.publications] == ["snapshot", "ready"]
        await client.disconnect()
        fake_view.put(("b", {"s": "f"}))
        await client.connect()
        await until(lambda: len(notes.subscribed) == 2)
        assert notes.subscribed[1].recovered
        await until(lambda: len(notes.publications) == 3)
        await client.disconnect()


@protobuf
async def test_python_gets_errors(protobuf: bool) -> None:
    fake_view = FakeView(live=False)
    async with serving(fake_view) as publisher:
        client = Client(publisher.addresses["websocket"], use_protobuf=protobuf)
        building, unknown = Notes(), Notes()
        await client.connect()
        retried = client.new_subscription(VIEW, building, min_resubscribe_delay=0.01)
        await retried.subscribe()
        await client.new_subscription("nothing", unknown).subscribe()
        await until(lambda: building.errors and unknown.unsubscribed)
        assert unknown.unsubscribed == [102]
        assert building.errors[0].code == 1100
        fake_view.store.writer.go_live(fake_view.build)
        await until(lambda: building.subscribed)
        fake_view.store.writer.drop_view(VIEW)
        await until(lambda: building.unsubscribed == [2000])
        await client.disconnect()


@protobuf
async def test_python_reads_history(protobuf: bool) -> None:
    fake_view = FakeView()
    async with serving(fake_view) as publisher:
        client = Client(publisher.addresses["websocket"], use_protobuf=protobuf)
        notes = Notes()
        await client.connect()
        sub = client.new_subscription(VIEW, notes)
        await sub.subscribe()
        await until(lambda: notes.subscribed)
        for n in range(5):
            fake_view.put(("a", {"n": n}))
        await until(lambda: len(notes.publications) == 5)

        async def offsets(**request: Any) -> list[int]:
            found = await sub.history(**request)
            assert (found.offset, found.epoch) == (5, fake_view.epoch)
            assert [(pub.offset, plain(pub.data)) for pub in sorted(found.publications, key=by_offset)] == [
                pub for pub in notes.publications if pub[0] in {one.offset for one in found.publications}
            ]
            return [pub.offset for pub in found.publications]

        assert await offsets() == []
        assert await offsets(limit=2) == [1, 2]
        assert await offsets(limit=-1) == [1, 2, 3, 4, 5]
        assert await offsets(limit=9, since=StreamPosition(3, fake_view.epoch)) == [4, 5]
        assert await offsets(limit=2, reverse=True) == [5, 4]
        assert await offsets(limit=9, since=StreamPosition(3, fake_view.epoch), reverse=True) == [2, 1]
        with pytest.raises(ReplyError) as gone:
            await sub.history(limit=1, since=StreamPosition(1, "other"))
        assert gone.value.code == 112
        await client.disconnect()


def by_offset(pub: Any) -> int:
    return int(pub.offset)


@protobuf
async def test_python_calls_and_publishes(protobuf: bool) -> None:
    fake_view = FakeView()
    taken = FakeTopicWriter()
    feeds = [Feed("moves", "game.moves", publish=True, publish_key="player"), Feed("shut", "shut")]
    async with serving(
        fake_view, client_publisher=ClientPublisher(feeds, fake_view.reader, taken.produce)
    ) as publisher:
        client = Client(publisher.addresses["websocket"], use_protobuf=protobuf)
        await client.connect()
        message = await client.rpc("position", packed({"view": VIEW}, protobuf))
        assert plain(message.data) == {"view": VIEW, "position": f"{fake_view.epoch}:0"}
        move = {"player": "ann", "to": "e4"}
        await client.publish("feed:moves", packed(move, protobuf))
        (one,) = taken.records
        assert (one.topic, one.key, json.loads(one.value or b"")) == ("game.moves", b"ann", move)
        for call, code in (
            (client.rpc("nonsense", packed({}, protobuf)), 104),
            (client.rpc("status", packed({}, protobuf)), 107),
            (client.publish("feed:shut", packed(move, protobuf)), 103),
            (client.publish("feed:moves", packed([], protobuf)), 107),
            (client.publish(VIEW, packed(move, protobuf)), 103),
        ):
            with pytest.raises(ReplyError) as refused:
                await call
            assert refused.value.code == code
        assert publisher.stats.publishes == {"written": 1, "refused": 3}
        await client.disconnect()


@protobuf
async def test_python_answers_pings(protobuf: bool) -> None:
    async with serving(FakeView(), ping_interval=0.2) as publisher:
        client = Client(publisher.addresses["websocket"], use_protobuf=protobuf, max_server_ping_delay=5)
        await client.connect()
        await client.ready()
        answered = publisher.stats.pings
        await until(lambda: publisher.stats.pings >= answered + 4)
        assert publisher.stats.connections == 1
        assert publisher.stats.closes == {}
        await client.disconnect()


@pytest.mark.skipif(
    shutil.which("node") is None or not (NODE / "node_modules" / "centrifuge").is_dir(),
    reason="needs node and tests/node/node_modules (make test installs them)",
)
@protobuf
async def test_javascript_sdk_follows_a_view(protobuf: bool) -> None:
    """The script prints its events, one a line; the test acts in between."""
    fake_view = FakeView()
    fake_view.put(("a", {"n": 0}))
    taken = FakeTopicWriter()
    client_publisher = ClientPublisher(
        [Feed("moves", "game.moves", publish=True)], fake_view.reader, taken.produce
    )
    async with serving(fake_view, client_publisher=client_publisher, ping_interval=1.0) as publisher:
        process = await asyncio.create_subprocess_exec(
            "node",
            str(NODE / "follow.mjs"),
            publisher.addresses["websocket"],
            VIEW,
            *(["--protobuf"] if protobuf else []),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None

        async def received(event: str) -> Any:
            """Read on to the next line that tells of this event."""
            assert process.stdout is not None
            async with asyncio.timeout(3 * WAIT):
                while True:
                    message = json.loads(await process.stdout.readline())
                    if message["event"] == event:
                        return message

        async def say(word: str) -> None:
            assert process.stdin is not None
            process.stdin.write(word.encode() + b"\n")
            await process.stdin.drain()

        try:
            assert (await received("subscribed"))["data"]["rows"] == [["a", {"n": 0}]]
            fake_view.put(("a", {"n": 1}))
            pub = await received("publication")
            assert (pub["offset"], pub["data"]["changed"]) == (2, {"n": 1})
            await say("disconnect")
            await received("subscribing")
            await until(lambda: not publisher.stats.connections)
            fake_view.put(("a", {"n": 2}))
            await say("connect")
            again = await received("subscribed")
            assert (again["wasRecovering"], again["recovered"]) == (True, True)
            assert again["data"] == {"op": "resumed", "tier": "log"}
            assert (await received("publication"))["offset"] == 3
            fake_view.crash()
            assert (await received("subscribing"))["code"] == 2500
            again = await received("subscribed")
            assert (again["wasRecovering"], again["recovered"]) == (True, False)
            assert again["data"]["rows"] == [["a", {"n": 2}]]
            assert again["data"]["tier"] == "snapshot"
            fake_view.put(("a", {"n": 3}))
            await received("publication")
            await say("history")
            assert (await received("history"))["offsets"][-1] == 4
            await say("newest")
            newest = await received("history")
            assert newest["offsets"] == [4, 3]
            assert newest["data"][0]["changed"] == {"n": 3}
            await say('rpc position {"view":"odds"}')
            assert (await received("rpc"))["data"]["position"] == f"{fake_view.epoch}:4"
            await say("rpc nonsense {}")
            assert (await received("failed"))["code"] == 104
            await say('publish feed:moves {"to":"e4"}')
            await received("published")
            assert [json.loads(value or b"") for value in taken.values] == [{"to": "e4"}]
            await say("publish feed:other {}")
            assert (await received("failed"))["code"] == 103
            pings = publisher.stats.pings
            await until(lambda: publisher.stats.pings >= pings + 2)
            await say("unsubscribe")
            await received("unsubscribed")
            await until(lambda: describe(publisher.hub, publisher.stats, "")["subscribers"] == 0)
            assert publisher.stats.closes == {}
            await say("end")
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
