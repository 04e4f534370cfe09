from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.servers import free_port

from distributary.errors import StackNotRunning, UsageError
from distributary.subscriber.connection_settings import DEFAULT, Credentials, find_publishers

ADDRESS = "ws://127.0.0.1:8123/connection/websocket"


async def test_given_addresses_are_used(tmp_path: Path) -> None:
    assert await find_publishers(["a:1", "b:2"], "http://unused", {}, tmp_path) == [
        "ws://a:1/connection/websocket",
        "ws://b:2/connection/websocket",
    ]


async def test_the_control_api_is_asked(tmp_path: Path) -> None:
    async def index(request: web.Request) -> web.Response:
        return web.json_response({"publisher": ADDRESS})

    app = web.Application()
    app.add_routes([web.get("/v1", index)])
    async with TestServer(app) as server:
        url = str(server.make_url("/"))
        assert await find_publishers(None, url, {}, tmp_path) == [ADDRESS]
        assert await find_publishers(None, None, {"DISTRIBUTARY_CONTROL_URL": url}, tmp_path) == [ADDRESS]


async def test_missing_control_api_raises(tmp_path: Path) -> None:
    with pytest.raises(StackNotRunning, match="cannot reach the control API"):
        await find_publishers(None, f"http://127.0.0.1:{free_port()}", {}, tmp_path)


async def test_stack_of_the_folder_is_found(tmp_path: Path) -> None:
    parts = [{"name": "kafka", "addresses": {}}, {"name": "publisher", "addresses": {"websocket": ADDRESS}}]
    (tmp_path / "stack.json").write_text(json.dumps({"pid": os.getpid(), "components": parts}))
    assert await find_publishers(None, None, {}, tmp_path) == [ADDRESS]


@pytest.mark.parametrize("text", ["", "[]", '{"pid":999999999,"components":[]}', '{"pid":"x"}'])
async def test_file_of_a_dead_stack_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "stack.json").write_text(text)
    assert await find_publishers(None, None, {}, tmp_path) == [DEFAULT]


ENV = {"DISTRIBUTARY_TOKEN": "t1\n", "DISTRIBUTARY_API_KEY": "k1"}


async def test_given_credentials_precede_the_environment() -> None:
    given = Credentials("t", env=ENV)
    assert (await given.current(), given.headers, given.renewable) == ("t", {}, False)
    assert await given.current(fresh=True) == "t", "there is no other"
    key = Credentials(api_key="k", env=ENV)
    assert (await key.current(), key.headers) == (None, {"X-API-Key": "k"})


async def test_environment_has_credentials() -> None:
    found = Credentials(env=ENV)
    assert (await found.current(), found.headers) == ("t1", {})
    only_key = Credentials(env={"DISTRIBUTARY_API_KEY": "k1"})
    assert (await only_key.current(), only_key.headers) == (None, {"X-API-Key": "k1"})
    nothing = Credentials(env={})
    assert (await nothing.current(), nothing.headers) == (None, {})


async def test_token_is_fetched_when_needed() -> None:
    threads = []

    def get() -> str:
        threads.append(threading.current_thread())
        return f"t{len(threads)}"

    credentials = Credentials(get_token=get, env=ENV)
    assert credentials.renewable
    assert [
        await credentials.current(),
        await credentials.current(),
        await credentials.current(fresh=True),
    ] == [
        "t1",
        "t1",
        "t2",
    ]
    assert threading.main_thread() not in threads, "it may take its time"

    async def coroutine() -> str:
        return "c"

    assert await Credentials("first", get_token=coroutine).current() == "first"
    assert await Credentials(get_token=coroutine).current() == "c"
    assert await Credentials(get_token=lambda: coroutine()).current() == "c"


def test_token_and_key_together_raise() -> None:
    for more in ({"token": "t"}, {"get_token": lambda: "t"}):
        with pytest.raises(UsageError):
            Credentials(api_key="k", **more)
