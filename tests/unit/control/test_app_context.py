from __future__ import annotations

from dataclasses import replace

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from tests.support.control_api import Api

from distributary.config import Config, Publisher
from distributary.control.app_context import events_address, http_address, websocket_address


@pytest.mark.parametrize(
    ("publisher", "host", "websocket", "http"),
    [
        (Publisher(), "x", "ws://127.0.0.1:8000/connection/websocket", "http://127.0.0.1:8001"),
        (
            Publisher(host="0.0.0.0"),
            "box:8080",
            "ws://box:8000/connection/websocket",
            "http://box:8001",
        ),
        (Publisher(host="::"), "[::1]:8080", "ws://[::1]:8000/connection/websocket", "http://[::1]:8001"),
        (Publisher(host="::1"), "x", "ws://[::1]:8000/connection/websocket", "http://[::1]:8001"),
        (
            Publisher(advertised_url="wss://s.example"),
            "x",
            "wss://s.example/connection/websocket",
            "https://s.example",
        ),
    ],
)
def test_urls_are_those_that_callers_can_reach(
    publisher: Publisher, host: str, websocket: str, http: str
) -> None:
    config = replace(Config(), publisher=publisher)
    assert websocket_address(config, host) == websocket
    assert http_address(config, host) == http
    assert events_address(config, host, "a b", "id") == f"{http}/v1/views/a%20b/events?subscription=id"


async def test_write_over_a_lost_connection_is_repeated(api: Api) -> None:
    calls: list[str] = []

    def write(name: str) -> None:
        calls.append(name)
        if len(calls) == 1:
            raise RedisConnectionError("gone")

    await api.context.write(write, "odds")
    assert calls == ["odds", "odds"]
