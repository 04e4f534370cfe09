from __future__ import annotations

import os

from tests.support.control_api import Api

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
    assert [(part["name"], part["pid"], part["heartbeat_age_ms"]) for part in status["components"]] == [
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
    assert (await api.get("/v1/status"))["components"] == []


async def test_status_lists_alarms(api: Api) -> None:
    api.define(status="stopped")
    (alarm,) = (await api.get("/v1/status"))["alarms"]
    assert (alarm["name"], alarm["text"]) == ("view-stopped", "view odds is stopped: because")
    assert alarm["hint"]
    assert alarm["since"] > 0


async def test_index_contains_the_publishers_url(api: Api) -> None:
    index = await api.get("/v1")
    assert await api.get("/") == index
    assert index["publisher"] == "ws://127.0.0.1:8000/connection/websocket"
    assert "/v1/views/{name}" in index["resources"]


async def test_healthz_is_ok(api: Api) -> None:
    assert await api.get("/healthz") == {"status": "ok"}


async def test_ready_when_nothing_is_wrong(api: Api) -> None:
    assert await api.get("/readyz") == {"status": "ok", "alarms": []}


async def test_readyz_lists_alarms_if_not_ready(api: Api) -> None:
    api.define(status="stopped")
    async with api.client.get("/readyz") as reply:
        assert reply.status == 503
        said = await reply.json()
    assert said["error"]["message"] == "not ready: view odds is stopped: because"
    assert said["error"]["retry"]
    assert [(alarm["name"], alarm["subject"]) for alarm in said["alarms"]] == [("view-stopped", "odds")]


async def test_metrics_have_views_requests_and_commands(api: Api) -> None:
    api.define()
    await api.get("/v1/views/odds/status")
    await api.get("/v1/views/none/status", 404)
    async with api.client.get("/metrics") as reply:
        assert reply.content_type == "text/plain"
        lines = (await reply.text()).splitlines()
    assert 'distributary_view_live{view="odds"} 1.0' in lines
    assert (
        'distributary_control_requests_total{request="GET /v1/views/{name}/status",status="404"} 1.0' in lines
    )
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert not any("None" in line for line in lines)


async def test_alarms_are_metrics(api: Api) -> None:
    api.define(status="stopped")
    async with api.client.get("/metrics") as reply:
        lines = (await reply.text()).splitlines()
    assert 'distributary_alarm{alarm="view-stopped",severity="error",subject="odds"} 1.0' in lines
    assert 'distributary_alarms{severity="error"} 1.0' in lines
    assert 'distributary_alarms{severity="warning"} 0.0' in lines
