"""The Python subscriber at a publisher with authorization."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from tests.integration.publisher.test_publisher_authorization import AUTH, KEY, french, german, two_rows
from tests.support.clock import LIMIT
from tests.support.fake_view import VIEW, until
from tests.support.serving_publisher import WAIT, serving

import distributary
from distributary.errors import SubscribeError
from distributary.subscriber.sync_subscriber import subscribe_sync


async def test_refreshed_token_keeps_the_connection() -> None:
    fake_view = two_rows()
    got = []
    give = german

    async def get_token() -> str:
        got.append(give("ann", lasts=2))
        return got[-1]

    async with serving(fake_view, auth=AUTH) as publisher:
        url = publisher.addresses["websocket"]
        async with (
            asyncio.timeout(3 * WAIT),
            distributary.subscribe(VIEW, url=url, get_token=get_token) as it,
        ):
            assert set(it.rows) == {"de"}
            await anext(it)
            await until(lambda: len(got) >= 3)
            assert publisher.stats.accepted == 1, "refreshed, not connected again"
            fake_view.put(("fr", {"c": "FR", "n": 1}), ("de", {"c": "DE", "n": 1}))
            assert (await anext(it)).key == "de"
            # The next token has another filter: all rows are sent again.
            give = french
            change = await anext(it)
            assert (change.op, set(it.rows)) == ("snapshot", {"fr"})


async def test_expired_token_is_replaced_at_the_next_connection() -> None:
    fake_view = two_rows()
    tokens = iter([german(lasts=-1), german()])
    async with serving(fake_view, auth=AUTH) as publisher:
        url = publisher.addresses["websocket"]
        async with distributary.subscribe(VIEW, url=url, get_token=lambda: next(tokens)) as it:
            assert set(it.rows) == {"de"}


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ({}, "a token or an API key is needed"),
        ({"token": "x"}, "invalid token: malformed"),
        ({"token": german(lasts=-1)}, "109"),
    ],
)
async def test_rejected_client_gets_the_reason(shown: dict[str, Any], message: str) -> None:
    async with serving(two_rows(), auth=AUTH) as publisher:
        with pytest.raises(SubscribeError, match=message):
            async with distributary.subscribe(VIEW, url=publisher.addresses["websocket"], **shown):
                pass


async def test_environment_authenticates_the_subscriber(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(two_rows(), auth=AUTH) as publisher:
        url = publisher.addresses["websocket"]
        monkeypatch.setenv("DISTRIBUTARY_API_KEY", KEY)
        async with distributary.subscribe(VIEW, url=url) as it:
            assert set(it.rows) == {"de"}
        monkeypatch.setenv("DISTRIBUTARY_TOKEN", french())
        async with distributary.subscribe(VIEW, url=url) as it:
            assert set(it.rows) == {"fr"}
        command = [sys.executable, "-m", "distributary.cli", "subscribe", VIEW, "--url", url]
        done = await asyncio.to_thread(
            subprocess.run, [*command, "--max", "0", "--json"], capture_output=True, timeout=30 * LIMIT
        )
        assert set(json.loads(done.stdout)["rows"]) == {"fr"}, done.stderr

        def plain() -> set[str]:
            with subscribe_sync(VIEW, url=url, get_token=german) as changes:
                return set(changes.rows)

        assert await asyncio.to_thread(plain) == {"de"}
