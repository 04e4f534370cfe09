from __future__ import annotations

from tests.unit.control.conftest import Api

from distributary.errors import KafkaUnavailable


async def _good() -> None:
    pass


async def _bad() -> None:
    raise KafkaUnavailable("no broker answers")


async def test_alive(api: Api) -> None:
    assert await api.get("/healthz") == {"status": "ok"}


async def test_ready_when_all_answer(api: Api) -> None:
    api.context.checks |= {"store": _good, "kafka": _good}
    assert await api.get("/readyz") == {"status": "ok", "store": "ok", "kafka": "ok"}


async def test_not_ready_names_who_is_missing(api: Api) -> None:
    api.context.checks |= {"store": _good, "kafka": _bad}
    error = await api.get("/readyz", 503)
    assert error["message"] == "not ready: kafka: no broker answers"
    assert error["retry"]


async def test_metrics(api: Api) -> None:
    api.define()
    await api.get("/v1/views/odds/status")
    await api.get("/v1/views/none/status", 404)
    async with api.client.get("/metrics") as reply:
        assert reply.content_type == "text/plain"
        lines = (await reply.text()).splitlines()
    assert 'distributary_view_live{view="odds"} 1' in lines
    assert (
        'distributary_control_requests_total{request="GET /v1/views/{name}/status",status="404"} 1' in lines
    )
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert not any("None" in line for line in lines)
