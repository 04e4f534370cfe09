from __future__ import annotations

from typing import Any, NoReturn

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from tests.support.control_api import Api

from distributary import errors
from distributary.control.app_context import ERRORS


async def test_unknown_path_is_not_found(api: Api) -> None:
    assert (await api.get("/v2/nothing", 404))["code"] == "not-found"


async def test_wrong_method_lists_the_allowed_ones(api: Api) -> None:
    error = await api.call("PATCH", "/v1/views/odds", status=405)
    assert error["hint"] == "it accepts DELETE, GET, HEAD, PUT"


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (RedisConnectionError("refused"), 503, "store-unavailable"),
        (RuntimeError("secret detail"), 500, "error"),
        (errors.ConfigError("x"), 400, "config"),
    ],
)
async def test_every_exception_becomes_an_error_response(
    api: Api, monkeypatch: pytest.MonkeyPatch, raised: Exception, status: int, code: str
) -> None:
    async def fail(*_: Any) -> NoReturn:
        raise raised

    monkeypatch.setattr(api.store.reader, "views", fail)
    error = await api.get("/v1/views", status)
    assert error["code"] == code
    assert "secret" not in error["message"]


async def test_path_cannot_forge_lines_of_the_log(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> NoReturn:
        raise RuntimeError

    monkeypatch.setattr(api.store.reader, "view", fail)
    await api.get("/v1/views/a%0A%1BERROR forged/status", 500)
    (said,) = [one.getMessage() for one in caplog.records if "failed" in one.getMessage()]
    assert said == "GET /v1/views/a%0A%1BERROR%20forged/status failed"


async def test_response_has_security_headers(api: Api) -> None:
    for path in ("/v1", "/v1/nothing", "/metrics"):
        async with api.client.get(path) as reply:
            assert reply.headers["X-Content-Type-Options"] == "nosniff"
            assert reply.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"


def test_every_error_of_the_api_has_a_status() -> None:
    for kind in errors.RequestError.__subclasses__():
        assert ERRORS.response(kind("x")).status in (400, 403, 404, 406, 409, 410, 413, 421, 429, 503)
        assert ("Retry-After" in ERRORS.response(kind("x")).headers) == kind.retry
