from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.typedefs import Handler

from distributary.auth import OPEN, STACK, Authenticator, Grant, Operator
from distributary.auth.limiter import Limiter
from distributary.config import Config
from distributary.errors import Forbidden
from distributary.httpd.authorization import Authorization, Requirement, Route, check_requirement
from distributary.store.memory_store import MemoryStore

READER = Grant("ann", views=("odds",))
WATCHER = Grant("eve", operator=Operator.READ)
OPERATOR = Grant("olga", operator=Operator.OPERATE)
AUTHOR = Grant("bob", define=("od*",))
BOSS = Grant("boss", operator=Operator.ADMIN)
EVERYBODY = (READER, WATCHER, OPERATOR, AUTHOR, BOSS)


@pytest.mark.parametrize(
    ("requirement", "allowed"),
    [
        (Requirement.PUBLIC, EVERYBODY),
        (Requirement.USER, EVERYBODY),
        (Requirement.VIEW, (READER,)),
        (Requirement.ROWS, (READER,)),
        (Requirement.DEFINE, (AUTHOR, BOSS)),
        (Requirement.READ, (WATCHER, OPERATOR, BOSS)),
        (Requirement.OPERATE, (OPERATOR, BOSS)),
        (Requirement.ADMIN, (BOSS,)),
    ],
)
def test_grant_meets_requirement_that_it_allows(requirement: Requirement, allowed: tuple[Grant, ...]) -> None:
    check_requirement(STACK, requirement, {"name": "odds"})
    for grant in EVERYBODY:
        if grant in allowed:
            check_requirement(grant, requirement, {"name": "odds"})
        else:
            with pytest.raises(Forbidden, match=grant.user):
                check_requirement(grant, requirement, {"name": "odds"})


@pytest.mark.parametrize("requirement", Requirement)
def test_caller_without_a_token_cannot_change_an_open_stack(requirement: Requirement) -> None:
    if requirement in (Requirement.DEFINE, Requirement.OPERATE, Requirement.ADMIN):
        with pytest.raises(Forbidden):
            check_requirement(OPEN, requirement, {"name": "odds"})
    else:
        check_requirement(OPEN, requirement, {"name": "odds"})


async def test_audit_names_a_request_by_its_route_in_the_table(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response()

    named: list[str] = []

    @web.middleware
    async def look(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        finally:
            named.append(authorization.attempt(request).action)

    config, reader = Config(data_dir=tmp_path), MemoryStore().reader
    table = [Route("GET", "/{name}", handle, Requirement.USER)]
    authorization = Authorization(
        table,
        Authenticator(config, reader.revoked),
        Limiter(config, reader),
        canonical=lambda path: path.removeprefix("/x"),
    )
    app = web.Application(middlewares=[look, authorization.middleware])
    app.add_routes([table[0]._replace(path="/x/{name}").definition()])
    async with TestClient(TestServer(app)) as client:
        assert (await client.head("/x/odds")).status == 200
        assert (await client.get("/nothing/here")).status == 404
    assert named == ["GET /{name}", "GET"]
