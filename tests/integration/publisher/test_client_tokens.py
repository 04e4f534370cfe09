"""The SDKs with tokens that last a second: they fetch others on their own, and stop when told to."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import Any

import pytest
from centrifuge import Client, ClientEventHandler
from tests.integration.publisher.test_clients import NODE, Notes, protobuf
from tests.integration.publisher.test_publisher_authorization import (
    french,
    german,
    none_left,
    token,
    two_rows,
)
from tests.support.fake_view import VIEW, until
from tests.support.serving_publisher import WAIT, serving
from tests.support.signed_tokens import SECRET

from distributary.config import Auth

AUTH = Auth(hmac_secret=SECRET, revocation_delay=0.0)
"""With the usual grace: clients get a new token when the old one ends, not before."""


class Ends(ClientEventHandler):  # type: ignore[misc]
    def __init__(self) -> None:
        self.codes: list[int] = []

    async def on_disconnected(self, ctx: Any) -> None:
        self.codes.append(ctx.code)


@protobuf
async def test_python_sdk_refreshes_its_token(protobuf: bool) -> None:
    fake_view = two_rows()
    given: list[str] = []
    own: list[str] = []
    give = german

    async def get_token() -> str:
        given.append(give("ann", lasts=-60 if not given else 1))
        return given[-1]

    async def get_own(channel: str) -> str:
        own.append(token(channel=channel, lasts=1))
        return own[-1]

    async with serving(fake_view, auth=AUTH) as publisher:
        ends, notes, narrow = Ends(), Notes(), Notes()
        url = publisher.addresses["websocket"]
        client = Client(url, ends, get_token=get_token, use_protobuf=protobuf, min_reconnect_delay=0.01)
        await client.connect()
        await client.new_subscription(VIEW, notes).subscribe()
        await client.new_subscription(f"{VIEW}?keys=de,fr", narrow, get_token=get_own).subscribe()
        await until(lambda: notes.subscribed and narrow.subscribed)
        for found in (notes, narrow):
            assert [key for key, _ in found.states[0]["rows"]] == ["de"]
        assert (len(given), publisher.stats.accepted) == (2, 2), "the first was over: 109"
        await until(lambda: len(given) >= 3 and len(own) >= 2)
        assert publisher.stats.accepted == 2, "refreshed, not connected again"
        fake_view.put(("fr", {"c": "FR", "n": 1}), ("de", {"c": "DE", "n": 1}))
        await until(lambda: notes.publications and narrow.publications)
        assert [data["key"] for _, data in notes.publications + narrow.publications] == ["de", "de"]
        # Another filter with the next token: subscribed again by itself, with its rows.
        give = french
        await until(lambda: len(notes.states) == 2 and len(narrow.states) == 2)
        for found in (notes, narrow):
            assert [key for key, _ in found.states[1]["rows"]] == ["fr"]
            assert not found.subscribed[1].recovered
        await fake_view.reader.revoke("ann")
        await until(lambda: ends.codes == [3500])
        await until(lambda: none_left(publisher))


@pytest.mark.skipif(
    shutil.which("node") is None or not (NODE / "node_modules" / "centrifuge").is_dir(),
    reason="needs node and tests/node/node_modules (make test installs them)",
)
@protobuf
async def test_javascript_sdk_refreshes_its_token(protobuf: bool) -> None:
    fake_view = two_rows()
    async with serving(fake_view, auth=AUTH) as publisher:
        process = await asyncio.create_subprocess_exec(
            *("node", str(NODE / "follow.mjs"), publisher.addresses["websocket"], VIEW, "--tokens"),
            *(["--protobuf"] if protobuf else []),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        request: list[str] = []
        give = german

        async def received(event: str) -> Any:
            """Read up to the next line with this event; requests for a token get one."""
            assert process.stdin is not None
            assert process.stdout is not None
            async with asyncio.timeout(3 * WAIT):
                while True:
                    message = json.loads(await process.stdout.readline())
                    if message["event"] == "token":
                        request.append(message["of"])
                        first = request.count(message["of"]) == 1
                        made = give if message["of"] == "connection" else token
                        process.stdin.write(f"token {made('ann', lasts=-60 if first else 1)}\n".encode())
                        if message["of"] == event:
                            return message
                    elif message["event"] == event:
                        return message

        try:
            assert [key for key, _ in (await received("subscribed"))["data"]["rows"]] == ["de"]
            assert (request.count("connection"), request.count("subscription")) == (2, 2), (
                "each first was over"
            )
            accepted = publisher.stats.accepted
            await received("connection")
            await received("subscription")
            assert publisher.stats.accepted == accepted, "refreshed, not connected again"
            fake_view.put(("fr", {"c": "FR", "n": 1}), ("de", {"c": "DE", "n": 1}))
            assert (await received("publication"))["data"]["key"] == "de"
            give = french
            assert (await received("subscribing"))["code"] == 2502
            again = await received("subscribed")
            assert [key for key, _ in again["data"]["rows"]] == ["fr"]
            assert not again["recovered"]
            await fake_view.reader.revoke("ann")
            assert (await received("disconnected"))["code"] == 3500
            await until(lambda: none_left(publisher))
        finally:
            process.kill()
            await process.wait()
