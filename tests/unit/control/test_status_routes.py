from __future__ import annotations

import os

from tests.unit.control.conftest import Api

from distributary.stack.processes import birth
from distributary.stack.stack_file import ComponentState, Phase, StackState
from distributary.stack.stack_file import write as write_state


async def test_parts_feeds_and_views_in_one_reply(api: Api) -> None:
    api.define()
    parts = [ComponentState("kafka", Phase.READY, 11), ComponentState("publisher-1", Phase.READY, 12)]
    parts += [ComponentState("publisher-2", Phase.READY, 13)]
    write_state(api.config.data_dir, StackState("s1", os.getpid(), birth(os.getpid()), Phase.READY, parts))
    api.store.writer.heartbeat("publisher", "13", '{"connections":3,"channels":2,"subscribers":5}')
    api.store.writer.heartbeat("reducers", "77", '{"pid":77}')
    api.store.writer.heartbeat("reducer", "odds/b/0", '{"pid":78}')
    api.now += 2
    status = await api.get("/v1/status")
    assert status["stack"] == "s1"
    assert [(part["name"], part["pid"], part["beat_age_ms"]) for part in status["parts"]] == [
        ("kafka", 11, None),
        ("publisher-1", 12, None),
        ("publisher-2", 13, 2000),
        ("reducers", 77, 2000),
    ]
    assert status["publishers"] == {"connections": 3, "channels": 2, "subscribers": 5}
    assert [feed["views"] for feed in status["feeds"]] == [["odds"]]
    assert [view["name"] for view in status["views"]] == ["odds"]
    (store,) = status["stores"]
    assert (store["address"], store["answers"], store["views"]) == ("memory", True, ["odds"])
    assert status["alarms"] == []


async def test_without_a_stack_file_the_store_is_enough(api: Api) -> None:
    assert (await api.get("/v1/status"))["parts"] == []


async def test_what_is_wrong_is_said(api: Api) -> None:
    api.define(status="stopped")
    (alarm,) = (await api.get("/v1/status"))["alarms"]
    assert (alarm["name"], alarm["text"]) == ("view-stopped", "view odds is stopped: because")
    assert alarm["hint"]
    assert alarm["since"] > 0


async def test_the_index_says_where_the_publisher_is(api: Api) -> None:
    index = await api.get("/v1")
    assert await api.get("/") == index
    assert index["publisher"] == "ws://127.0.0.1:8000/connection/websocket"
    assert "/v1/views/{name}" in index["resources"]
