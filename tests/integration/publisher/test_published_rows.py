"""What a client publishes returns through Kafka, the reducers and the store as a change."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import websockets
from tests.support.clock import LIMIT
from tests.support.serving_publisher import Raw
from tests.support.stack import Feeding

from distributary.publisher.codec.protobuf_codec import PROTOBUF


async def test_published_message_becomes_a_row(feeding: Feeding) -> None:
    view = await feeding.view(
        key="player", feed={"publish": True, "publish_key": "player", "partitioned_by": "player"}
    )
    url = feeding.stack.addresses["websocket"]
    player = f"p-{uuid.uuid4().hex[:6]}"
    async with websockets.connect(url, proxy=None, subprotocols=["centrifuge-protobuf"]) as socket:  # type: ignore[list-item]
        client = Raw(socket, PROTOBUF)
        await client.connect()
        await client.send({"id": 2, "subscribe": {"channel": view}})
        assert (await client.next())["subscribe"]["data"]["rows"] == []
        move = {"player": player, "x": 1}
        await client.send({"id": 3, "publish": {"channel": f"feed:f{feeding.topic}", "data": move}})
        seen: dict[str, Any] = {}
        async with asyncio.timeout(30 * LIMIT):
            while len(seen) < 2:
                message = await client.next()
                if message.get("id") == 3:
                    assert "publish" in message, message
                    seen["answer"] = message
                elif "pub" in message.get("push", {}):
                    seen["change"] = message["push"]["pub"]["data"]
        assert (seen["change"]["op"], seen["change"]["key"], seen["change"]["row"]) == ("add", player, move)
