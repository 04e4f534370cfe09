from __future__ import annotations

from tests.unit.control.conftest import Api


async def test_alive(api: Api) -> None:
    assert await api.get("/healthz") == {"status": "ok"}


async def test_ready_when_nothing_is_wrong(api: Api) -> None:
    assert await api.get("/readyz") == {"status": "ok", "alarms": []}


async def test_not_ready_says_why_and_lists_the_alarms(api: Api) -> None:
    api.define(status="stopped")
    async with api.client.get("/readyz") as reply:
        assert reply.status == 503
        said = await reply.json()
    assert said["error"]["message"] == "not ready: view odds is stopped: because"
    assert said["error"]["retry"]
    assert [(alarm["name"], alarm["subject"]) for alarm in said["alarms"]] == [("view-stopped", "odds")]


async def test_metrics(api: Api) -> None:
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
