from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from distributary.auth.audit import AuditLog
from distributary.httpd.request_audit import Attempt, audit_middleware


@pytest.mark.parametrize(
    ("status", "changes", "noted"),
    [
        (200, False, None),
        (404, False, None),
        (200, True, ("ok", None)),
        (202, True, ("ok", None)),
        (404, True, ("failed", "404")),
        (500, True, ("failed", "500")),
        (401, False, ("refused", "expired")),
        (403, True, ("refused", "expired")),
        (421, False, ("refused", "expired")),
    ],
)
async def test_audit_has_changes_and_refusals(
    tmp_path: Path, status: int, changes: bool, noted: tuple[str, str | None] | None
) -> None:
    async def handle(request: web.Request) -> web.Response:
        why = {"WWW-Authenticate": 'Bearer error_description="expired"'} if status in (401, 403, 421) else {}
        return web.Response(status=status, headers=why)

    path = tmp_path / "audit.log"
    attempt = Attempt("GET /x/{name}", "ann", changes)
    app = web.Application(middlewares=[audit_middleware(AuditLog("control", path), lambda request: attempt)])
    app.add_routes([web.get("/x/{name}", handle)])
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/x/odds%0A?secret=hunter2")).status == status
    if noted is None:
        assert not path.exists()
        return
    (line,) = [json.loads(one) for one in path.read_text().splitlines()]
    assert (line["result"], line.get("reason")) == noted
    assert (line["user"], line["target"], line["address"]) == ("ann", "odds\n", "127.0.0.1")
    assert "hunter2" not in path.read_text()
