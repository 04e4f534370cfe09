from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.support.app_routes import route_names
from tests.support.control_api import FEED, Announced, Api, check
from tests.support.store_groups import change, group

from distributary.auth.api_keys import create_key
from distributary.auth.token_issuer import sign_token
from distributary.config import Auth, Config
from distributary.control.app_context import Context
from distributary.control.control_app import ROUTES, make_app
from distributary.errors import ConfigError, CredentialsMissing, Forbidden, TokenExpired
from distributary.httpd.authorization import AUTHORIZATION, Requirement, challenge
from distributary.model.query import Query
from distributary.model.view import View
from distributary.store.memory_reader import MemoryReader
from distributary.store.memory_store import MemoryStore

KEY, HASH = create_key()
AUTH = Auth(
    hmac_secret="a secret of the tests, long enough for HS256",
    keys={"reports": json.dumps({"hash": HASH, "views": ["odds"], "operator": "read"})},
    revocation_delay=0.0,
)
BETS = View("bets", "odds", key="id")


class Closed(Api):
    """The API with permission on."""

    def __init__(self, data_dir: Path) -> None:
        self.now = 1_000_000.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.announced = Announced()
        self.config = Config(feeds=(FEED,), data_dir=data_dir, auth=AUTH)
        self.context = Context(self.config, self.store.reader, self.store.writer, self.announced)
        self.client = TestClient(TestServer(make_app(self.context)))

    def fill(self) -> None:
        """Two views, and in odds a row of each of two countries."""
        self.define(BETS)
        build = self.define()
        claimed = self.store.writer.claim(build, "topic-id", 1)
        opened = self.store.writer.open(build, 0, claimed.claim)
        rows = [change("de", {"country": "DE"}), change("fr", {"country": "FR"})]
        self.store.writer.write(group(build, opened, claimed.claim.generation, 1, 10, rows))

    async def ask(
        self, method: str, path: str, status: int = 200, *, body: Any = None, **headers: Any
    ) -> tuple[Any, Any]:
        """Call with headers; gives the reply's headers and its body."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.request(method, path, json=body, headers=sent) as reply:
            if method == "HEAD":
                assert reply.status == status
                return reply.headers, None
            return reply.headers, await check(reply, status)


def bearer(user: str = "ann", **allowed: Any) -> dict[str, Any]:
    token, _ = sign_token(AUTH, user, allowed, 600)
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[Closed]:
    api = Closed(tmp_path)
    api.fill()
    async with api.client:
        yield api


def test_application_serves_the_routes_of_its_table(api: Api) -> None:
    assert route_names(make_app(api.context)) == {route.name for route in ROUTES}


REQUIREMENTS = {route.name: route.requirement for route in ROUTES}
PROTECTED = [name for name, required in REQUIREMENTS.items() if required is not Requirement.PUBLIC]
ADDRESSES = {
    "{name}": "odds",
    "{id}": "9b2d3f2e-0000-4000-8000-000000000000",
    "{user}": "ann",
}


def address(route: str) -> tuple[str, str]:
    method, _, path = route.partition(" ")
    for name, value in ADDRESSES.items():
        path = path.replace(name, value)
    return method, path


@pytest.mark.parametrize("route", [route.name for route in ROUTES])
async def test_every_route_but_public_ones_requires_a_token(closed: Closed, route: str) -> None:
    method, path = address(route)
    if REQUIREMENTS[route] is Requirement.PUBLIC:
        await closed.ask(method, path)
        return
    headers, error = await closed.ask(method, path, 401)
    assert error["code"] == "credentials-missing"
    assert headers["WWW-Authenticate"] == 'Bearer realm="distributary"'
    headers, error = await closed.ask(method, path, 401, Authorization="Bearer abracadabra")
    assert error["code"] == "token-refused"
    assert 'error="invalid_token", error_description="malformed"' in headers["WWW-Authenticate"]
    if method == "GET":
        await closed.ask("HEAD", path, 401)


@pytest.mark.parametrize("route", PROTECTED)
async def test_token_without_claims_reads_nothing(closed: Closed, route: str) -> None:
    method, path = address(route)
    if "/subscriptions/" in route:
        await closed.ask(method, path, 404, **bearer())
    elif route == "GET /v1/views":
        assert (await closed.ask(method, path, **bearer()))[1] == {"views": []}
    else:
        body = {"view": "odds"} if method == "POST" else None
        headers, error = await closed.ask(method, path, 403, body=body, **bearer())
        assert error["code"] == "forbidden"
        assert 'error="insufficient_scope"' in headers["WWW-Authenticate"]


async def test_head_needs_what_get_needs(closed: Closed) -> None:
    await closed.ask("HEAD", "/healthz")
    await closed.ask("HEAD", "/v1/views/odds", **bearer(views=["odds"]))
    await closed.ask("HEAD", "/v1/views/odds", 403, **bearer(views=["bets"]))


async def test_operators_read_operate_and_define_by_their_level(closed: Closed) -> None:
    for path in ("/v1/status", "/v1/feeds"):
        for level in ("read", "operate", "admin"):
            await closed.ask("GET", path, **bearer(operator=level))
        await closed.ask("GET", path, 403, **bearer(views=["*"], define=["*"]))
    for path in ("/v1/users/bob/revoke", "/v1/tokens/4f1c/revoke"):
        for level in ("operate", "admin"):
            await closed.ask("POST", path, **bearer(operator=level))
        await closed.ask("POST", path, 403, **bearer(operator="read"))
    body = {"feed": "odds", "key": "id"}
    for allowed in ({"views": ["*"]}, {"operator": "operate"}, {"define": ["less"]}):
        await closed.ask("PUT", "/v1/views/more", 403, body=body, **bearer(**allowed))
        await closed.ask("DELETE", "/v1/views/odds", 403, **bearer(**allowed))
    await closed.ask("PUT", "/v1/views/more", 202, body=body, **bearer(operator="admin"))
    await closed.ask("DELETE", "/v1/views/more", 204, **bearer(operator="admin"))


async def test_views_that_are_not_allowed_look_the_same_whether_they_exist(closed: Closed) -> None:
    mine = bearer(views=["odds"])
    said = [
        (await closed.ask("GET", f"/v1/views/{name}/status", 403, **mine))[1]["message"].replace(name, "X")
        for name in ("bets", "none")
    ]
    assert said[0] == said[1]
    assert [view["name"] for view in (await closed.ask("GET", "/v1/views", **mine))[1]["views"]] == ["odds"]
    await closed.ask("GET", "/v1/views/odds/status", **mine)


def keys_of(reply: Any) -> list[str]:
    return [key for key, _ in reply["rows"]]


async def test_rows_are_those_that_the_filter_allows(closed: Closed) -> None:
    german = bearer(views=["odds"], rows="country = 'DE'")
    for asked in ("", "?where=country%20in%20('DE','FR')", "?keys=de,fr", "?where=not%20(country='IT')"):
        assert keys_of((await closed.ask("GET", f"/v1/views/odds{asked}", **german))[1]) == ["de"]
        assert keys_of((await closed.ask("GET", f"/v1/views/odds{asked}", **bearer(views=["*"])))[1]) == [
            "de",
            "fr",
        ]
    for asked in ("?where=country='FR'", "?keys=fr"):
        assert keys_of((await closed.ask("GET", f"/v1/views/odds{asked}", **german))[1]) == []


async def test_page_of_another_users_result_is_refused(closed: Closed) -> None:
    _, first = await closed.ask("GET", "/v1/views/odds?limit=1", **bearer(views=["odds"]))
    assert first["next"]
    german = bearer("bob", views=["odds"], rows="country = 'DE'")
    await closed.ask("GET", f"/v1/views/odds?limit=1&page={first['next']}", 400, **german)


async def test_response_to_a_user_is_not_cached_publicly(closed: Closed) -> None:
    for path in ("/v1/views/odds", "/v1/views"):
        headers, _ = await closed.ask("GET", path, **bearer(views=["odds"]))
        assert headers["Cache-Control"].startswith("private")
        assert "public" not in headers["Cache-Control"]
        assert "Authorization" in ",".join(headers.getall("Vary"))
    headers, _ = await closed.ask("GET", "/v1/views/odds", **bearer(views=["odds"]))
    again = {"If-None-Match": headers["ETag"], **bearer("bob", views=["odds"], rows="country = 'DE'")}
    async with closed.client.get("/v1/views/odds", headers=again) as reply:
        assert reply.status == 200, "the same address is another reply for another user"


async def test_position_in_a_response_belongs_to_its_row_filter(closed: Closed) -> None:
    told = []
    for rows in ("", "country = 'DE'", "country = 'FR'"):
        shown = bearer(views=["odds"], rows=rows) if rows else bearer(views=["odds"])
        headers, body = await closed.ask("GET", "/v1/views/odds", **shown)
        epochs = {headers["Distributary-Position"].split(":")[0], body["position"].split(":")[0]}
        assert len(epochs) == 1
        told.append(epochs.pop())
    assert len(set(told)) == 3
    # The same rows, asked for under no filter: not the same reply.
    german, _ = await closed.ask("GET", "/v1/views/odds", **bearer(views=["odds"], rows="country = 'DE'"))
    path = "/v1/views/odds?where=country%20%3D%20'DE'"
    free, body = await closed.ask("GET", path, **bearer(views=["odds"]))
    assert body["position"].startswith(f"{told[0]}:")
    assert free["ETag"] != german["ETag"]


async def test_subscription_is_narrowed(closed: Closed) -> None:
    german = bearer(views=["odds"], rows="country = 'DE'")
    for body, where in (
        ({}, "country = 'DE'"),
        ({"where": "sport = 'tennis'"}, "country = 'DE' and sport = 'tennis'"),
    ):
        _, made = await closed.ask("POST", "/v1/subscriptions", 201, body={"view": "odds", **body}, **german)
        assert made["channel"] == Query.parse("odds", where).channel
    _, made = await closed.ask(
        "POST", "/v1/subscriptions", 201, body={"view": "odds", "keys": ["fr"]}, **german
    )
    assert made["channel"] == Query.of_keys("odds", ["fr"]).narrowed("country = 'DE'").channel
    assert closed.announced.commands[-1].query == made["query"]
    await closed.ask("POST", "/v1/subscriptions", 403, body={"view": "bets"}, **german)


async def test_subscription_is_unknown_to_other_users(closed: Closed) -> None:
    body = {"view": "odds"}
    _, made = await closed.ask("POST", "/v1/subscriptions", 201, body=body, **bearer(views=["odds"]))
    path = f"/v1/subscriptions/{made['id']}"
    _, unknown = await closed.ask("GET", address("GET /v1/subscriptions/{id}")[1], 404, **bearer())
    for other in (
        bearer("bob", views=["odds"]),
        bearer("bob", operator="admin"),  # who may change views, but read none
        bearer(views=["odds"], rows="country = 'DE'"),
    ):
        _, error = await closed.ask("GET", path, 404, **other)
        assert error["message"] == unknown["message"].replace(ADDRESSES["{id}"], made["id"])
        await closed.ask("POST", f"{path}/begin", 404, **other)
        await closed.ask("DELETE", path, 404, **other)
    await closed.ask("GET", path, **bearer("boss", operator="admin", views=["*"]))
    await closed.ask("POST", f"{path}/begin", **bearer(views=["odds"]))
    await closed.ask("DELETE", path, 204, **bearer(views=["odds"]))


async def test_api_key_allows_what_its_settings_say(closed: Closed) -> None:
    given: list[dict[str, Any]] = [{"Authorization": f"ApiKey {KEY}"}, {"X_API_Key": KEY}]
    for headers in given:
        await closed.ask("GET", "/v1/status", **headers)
        await closed.ask("GET", "/v1/views/odds", **headers)
        await closed.ask("DELETE", "/v1/views/odds", 403, **headers)
    headers, error = await closed.ask("GET", "/v1/status", 401, X_API_Key=KEY + "x")
    assert (error["code"], "api-key" in headers["WWW-Authenticate"]) == ("token-refused", True)


async def test_revoked_user_is_refused_from_then_on(closed: Closed) -> None:
    mine = bearer(views=["odds"])
    closed.now = 4_000_000_000.0  # the store's clock: after the token was issued
    await closed.ask("GET", "/v1/views/odds", **mine)
    await closed.ask("POST", "/v1/users/ann/revoke", **bearer("boss", operator="admin"))
    headers, error = await closed.ask("GET", "/v1/views/odds", 401, **mine)
    assert error["message"] == "the token was revoked"
    assert 'error_description="revoked"' in headers["WWW-Authenticate"]
    await closed.ask("GET", "/v1/views/odds", **bearer("bob", views=["odds"]))


async def test_store_that_does_not_answer_lets_nobody_in(
    closed: Closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(self: object, users: object) -> Any:
        raise ConnectionError("gone")

    monkeypatch.setattr(MemoryReader, "revoked", down)
    async with (
        TestClient(TestServer(make_app(closed.context))) as client,
        client.get("/v1/views", headers=bearer(operator="admin")) as reply,
    ):
        assert (await check(reply, 503))["code"] == "store-unavailable"


async def test_response_of_a_handler_that_forgets_the_filter_is_not_sent(
    closed: Closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distributary.control.row_routes.narrow_query", lambda request, query: query)
    _, error = await closed.ask("GET", "/v1/views/odds", 403, **bearer(views=["odds"]))
    assert "bug in the server" in error["hint"]


async def test_route_without_an_entry_needs_an_admin(closed: Closed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed.client.app[AUTHORIZATION], "_requirements", {})
    await closed.ask("GET", "/v1", 403, **bearer(views=["*"], operator="read"))
    await closed.ask("GET", "/v1", **bearer(operator="admin"))


async def test_unknown_routes_are_not_found(closed: Closed) -> None:
    await closed.ask("GET", "/v1/nothing", 404)
    await closed.ask("PATCH", "/v1/views/odds", 405)


async def test_api_without_settings_is_open(api: Api) -> None:
    api.define()
    reply = await api.post("/v1/subscriptions", {"view": "odds"}, 201)
    assert reply["query"] == "{}"
    async with api.client.get("/v1/views") as got:
        assert "private" not in got.headers.get("Cache-Control", "")


def test_invalid_keys_prevent_the_start() -> None:
    store = MemoryStore()
    auth = Auth(keys={"a": json.dumps({"hash": HASH, "rows": "a ="})})
    with pytest.raises(ConfigError, match=r"auth\.keys\.a"):
        make_app(Context(Config(auth=auth), store.reader, store.writer, Announced()))


def test_challenge_contains_the_reason_only() -> None:
    assert challenge(CredentialsMissing("x")) == 'Bearer realm="distributary"'
    assert challenge(TokenExpired("x")).endswith('error="invalid_token", error_description="expired"')
    assert challenge(Forbidden('a "b"')).endswith('error="insufficient_scope"')


async def test_author_defines_named_views_of_topics_that_it_may_read(closed: Closed) -> None:
    """Otherwise a view over a topic of others would be a way to read it."""
    author = bearer(define=["ann-*"], consume=["sportsbook.*"])
    body = {"feed": "odds", "key": "id"}
    await closed.ask("PUT", "/v1/views/ann-1", 202, body=body, **author)
    await closed.ask("PUT", "/v1/views/bob-1", 403, body=body, **author)
    await closed.ask("DELETE", "/v1/views/odds", 403, **author)
    other = {"feed": {"name": "pay", "topic": "payroll"}, "key": "id"}
    _, error = await closed.ask("PUT", "/v1/views/ann-2", 403, body=other, **author)
    assert 'consume the topic "payroll"' in error["message"]
    events = {**body, "events": {"name": "pay", "topic": "payroll"}, "reduce": "m:f", "reduce_events": "m:g"}
    await closed.ask("PUT", "/v1/views/ann-2", 403, body=events, **author)
    await closed.ask("DELETE", "/v1/views/ann-1", 204, **author)


async def test_functions_are_for_admins_and_from_the_list(closed: Closed) -> None:
    body = {"feed": "odds", "key": "id", "reduce": "os:system"}
    author = bearer(define=["*"], consume=["*"])
    _, error = await closed.ask("PUT", "/v1/views/more", 403, body=body, **author)
    assert "only admins may define views with functions" in error["message"]
    _, error = await closed.ask("PUT", "/v1/views/more", 400, body=body, **bearer(operator="admin"))
    assert "os:system is not allowed" in error["message"]
    closed.context.config = replace(closed.config, auth=replace(AUTH, functions=("folds.*:*",)))
    await closed.ask("PUT", "/v1/views/more", 400, body=body, **bearer(operator="admin"))
    body["reduce"] = "folds.streaks:fold"
    await closed.ask("PUT", "/v1/views/more", 202, body=body, **bearer(operator="admin"))
    _, error = await closed.ask("PUT", "/v1/views/more", 403, body=body, **author)


async def test_names_of_hidden_views_are_not_revealed(closed: Closed) -> None:
    closed.define(View("payroll-2026", "odds", key="id"))
    for path in ("/v1/views/payroll-2025", "/v1/views/payroll-2025/status"):
        _, error = await closed.ask("GET", path, 404, **bearer(views=["payroll-2025", "odds"]))
        assert "payroll-2026" not in error["hint"]
        assert "bets" not in error["hint"]
    body = {"view": "payroll-2025"}
    _, error = await closed.ask("POST", "/v1/subscriptions", 404, body=body, **bearer(views=["payroll-2025"]))
    assert "payroll-2026" not in error["hint"]


async def test_definition_and_reason_are_for_operators(closed: Closed) -> None:
    build = closed.define()
    closed.store.writer.update_build(build, status="stopped", reason="row 'iban-1' is owned by another")
    for path in ("/v1/views/odds/status", "/v1/views"):
        _, reader = await closed.ask("GET", path, **bearer(views=["odds"]))
        assert "iban-1" not in json.dumps(reader)
        assert "sportsbook.odds" not in json.dumps(reader)
        _, operator = await closed.ask("GET", path, **bearer(views=["odds"], operator="read"))
        assert "iban-1" in json.dumps(operator)
        assert "sportsbook.odds" in json.dumps(operator)


async def test_open_stack_is_changed_by_its_own_token_only(api: Api) -> None:
    api.define()
    body = {"feed": "odds", "key": "id"}
    async with TestClient(api.client.server) as anybody:
        for method, path in (
            ("PUT", "/v1/views/more"),
            ("DELETE", "/v1/views/odds"),
            ("POST", "/v1/users/ann/revoke"),
            ("POST", "/v1/tokens/4f1c/revoke"),
        ):
            async with anybody.request(method, path, json=body) as reply:
                error = await check(reply, 403)
            assert "`token` of its data folder" in error["hint"]
        for path in ("/v1/status", "/v1/views", "/v1/views/odds", "/v1/views/odds/status", "/v1/feeds"):
            async with anybody.get(path) as reply:
                await check(reply, 200)
        async with anybody.post("/v1/subscriptions", json={"view": "odds"}) as reply:
            await check(reply, 201)
        await api.call("PUT", "/v1/views/more", body, 202)


async def test_columns_that_are_not_allowed_are_neither_shown_nor_asked_by(closed: Closed) -> None:
    ann = bearer(views=["odds"], columns=["name"])
    for path in ("/v1/views/odds", "/v1/views/odds?fields=country,name", "/v1/views/odds?key=de"):
        _, found = await closed.ask("GET", path, **ann)
        assert found["rows"]
        assert all("country" not in one for _, one in found["rows"])
    for path in ("/v1/views/odds?where=country = 'DE'",):
        _, error = await closed.ask("GET", path, 403, **ann)
        assert 'the field "country"' in error["message"]
    for body in ({"where": "country = 'DE'"}, {"order": "country", "limit": 1}):
        await closed.ask("POST", "/v1/subscriptions", 403, body={"view": "odds", **body}, **ann)


async def test_audit_log_has_what_was_changed_and_what_was_refused(closed: Closed, tmp_path: Path) -> None:
    body = {"feed": "odds", "key": "id"}
    boss, ann = bearer("boss", operator="admin"), bearer(views=["odds"])
    await closed.ask("GET", "/v1/views/odds", **ann)
    await closed.ask("PUT", "/v1/views/more", 202, body=body, **boss)
    await closed.ask("PUT", "/v1/views/more", 400, body={"feed": 7}, **boss)
    await closed.ask("PUT", "/v1/views/more", 403, body=body, **ann)
    await closed.ask("GET", "/v1/views/bets", 403, **ann)
    await closed.ask("POST", "/v1/users/bob/revoke", **boss)
    await closed.ask("GET", "/v1/views/odds", 401)
    await closed.ask("GET", "/v1/views/odds", 401, Authorization="Bearer abracadabra")
    await closed.ask("GET", "/v1/views", 403, Origin="https://evil.example")
    text = (tmp_path / "audit.log").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    assert [
        (one["user"], one["action"], one["target"], one["result"], one.get("reason")) for one in found
    ] == [
        ("boss", "PUT /v1/views/{name}", "more", "ok", None),
        ("boss", "PUT /v1/views/{name}", "more", "failed", "400"),
        ("ann", "PUT /v1/views/{name}", "more", "refused", "403"),
        ("ann", "GET /v1/views/{name}", "bets", "refused", "403"),
        ("boss", "POST /v1/users/{user}/revoke", "bob", "ok", None),
        ("", "GET /v1/views/{name}", "odds", "refused", "401"),
        ("", "GET /v1/views/{name}", "odds", "refused", "malformed"),
        ("", "GET /v1/views", "", "refused", "403"),
    ]
    assert {one["address"] for one in found} == {"127.0.0.1"}
    for secret in ("abracadabra", boss["Authorization"].split()[1], AUTH.hmac_secret):
        assert secret not in text
