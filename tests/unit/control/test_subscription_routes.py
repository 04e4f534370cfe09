from __future__ import annotations

import asyncio
import io
import json
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.clock import LIMIT
from tests.support.control_api import Api

from distributary.control import subscription_routes
from distributary.control.subscription_routes import sweep_once
from distributary.model.command import Command
from distributary.model.order import parse_order
from distributary.model.query import Query
from distributary.store.contract import SWEEP_BATCH


async def test_subscription_is_registered_then_announced(api: Api) -> None:
    api.define()
    reply = await api.post("/v1/subscriptions", {"view": "odds", "where": "sport = 'football'"}, 201)
    query = Query.parse("odds", "sport = 'football'")
    assert str(uuid.UUID(reply["id"])) == reply["id"]
    assert reply["channel"] == query.channel
    assert reply["query"] == query.text
    assert reply["publisher"] == "ws://127.0.0.1:8000/connection/websocket"
    assert reply["events"] == f"http://127.0.0.1:8001/v1/views/odds/events?subscription={reply['id']}"
    assert (reply["state"], reply["expires_in"]) == ("waiting", 60)
    found = await api.store.reader.subscription("odds", reply["id"])
    assert found is not None
    assert not found.begun
    (command,) = api.announced.commands
    assert (command.op, command.view, command.subscription) == ("subscribe", "odds", reply["id"])
    assert command.query == query.text


async def test_equal_queries_share_a_channel(api: Api) -> None:
    api.define()
    first = await api.post("/v1/subscriptions", {"view": "odds", "where": "a = 1.0 and b = 'x'"}, 201)
    second = await api.post("/v1/subscriptions", {"view": "odds", "where": 'b = "x" and a = 1'}, 201)
    assert first["channel"] == second["channel"]
    assert first["id"] != second["id"]


@pytest.mark.parametrize("body", [{"keys": ["b", "a"]}, {}, {"keys": None, "where": None}])
async def test_subscriptions_to_keys_orders_and_filters_are_created(api: Api, body: dict[str, Any]) -> None:
    api.define()
    reply = await api.post("/v1/subscriptions", {"view": "odds"} | body, 201)
    assert reply["query"] == ('{"keys":["a","b"]}' if body.get("keys") else "{}")


async def test_the_first_rows_of_a_query(api: Api) -> None:
    api.define()
    body = {"view": "odds", "where": "a = 1", "order": "price desc, b.c", "limit": 10}
    reply = await api.post("/v1/subscriptions", body, 201)
    query = Query.parse("odds", "a = 1").ordered(parse_order("price desc, b.c", 10))
    assert (reply["channel"], reply["query"]) == (query.channel, query.text)


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ({"order": "price dsc", "limit": 1}, "bad-query", "character 7 of the order"),
        ({"order": 5, "limit": 1}, "bad-request", '"order" is'),
        ({"order": "a", "limit": "1"}, "bad-request", '"limit" is'),
        ({"order": "a", "limit": 1_001}, "bad-request", '"limit" is 1,001'),
        ({"order": "a"}, "bad-query", "order requires limit"),
        ({"limit": 3}, "bad-query", "limit requires order"),
    ],
)
async def test_invalid_orders_are_refused(api: Api, body: dict[str, Any], code: str, said: str) -> None:
    api.define()
    error = await api.post("/v1/subscriptions", {"view": "odds"} | body, 400)
    assert error["code"] == code
    assert said in error["message"]


async def test_subscription_shows_what_conflation_dropped(api: Api) -> None:
    api.define()
    id = (await api.post("/v1/subscriptions", {"view": "odds"}, 201))["id"]
    assert "pace" not in await api.get(f"/v1/subscriptions/{id}")
    await api.store.reader.heartbeat("publisher", "p0", "nonsense")
    await api.store.reader.heartbeat("publisher", "p1", json.dumps({"paces": {}}))
    told = {"conflated": 7, "dropped": 1}
    await api.store.reader.heartbeat("publisher", "p2", json.dumps({"paces": {id: told}}))
    assert (await api.get(f"/v1/subscriptions/{id}"))["pace"] == told


async def test_subscription_begins_once(api: Api) -> None:
    api.define()
    id = (await api.post("/v1/subscriptions", {"view": "odds"}, 201))["id"]
    assert (await api.post(f"/v1/subscriptions/{id}/begin"))["state"] == "begun"
    assert (await api.get(f"/v1/subscriptions/{id}"))["state"] == "begun"
    error = await api.post(f"/v1/subscriptions/{id}/begin", status=409)
    assert error["code"] == "already-begun"
    assert [command.op for command in api.announced.commands] == ["subscribe", "begin"]


async def test_subscription_shows_how_long_it_lives(api: Api) -> None:
    api.define()
    made = await api.post("/v1/subscriptions", {"view": "odds", "where": "a = 1"}, 201)
    api.now += 20
    shown = await api.get(f"/v1/subscriptions/{made['id']}")
    assert shown == made | {"expires_in": 40}


async def test_subscription_ends_once(api: Api) -> None:
    api.define()
    id = (await api.post("/v1/subscriptions", {"view": "odds"}, 201))["id"]
    await api.call("DELETE", f"/v1/subscriptions/{id}", status=204)
    for method in ("DELETE", "GET"):
        assert (await api.call(method, f"/v1/subscriptions/{id}", status=404))[
            "code"
        ] == "subscription-not-found"
    assert api.store.writer.registry("odds")[1] == []
    assert api.announced.commands[-1].op == "end"


async def test_lapsed_subscription_is_unknown(api: Api) -> None:
    api.define()
    id = (await api.post("/v1/subscriptions", {"view": "odds"}, 201))["id"]
    api.now += 61
    assert (await api.post(f"/v1/subscriptions/{id}/begin", status=404))["code"] == "subscription-not-found"


async def test_subscription_is_created_while_kafka_is_down(api: Api) -> None:
    api.define()
    api.announced.down = True
    await api.post("/v1/subscriptions", {"view": "odds"}, 201)
    async with api.client.get("/metrics") as reply:
        assert 'distributary_control_commands_total{result="failed"} 1' in await reply.text()


async def test_unknown_view_names_the_nearest(api: Api) -> None:
    api.define()
    error = await api.post("/v1/subscriptions", {"view": "ods"}, 404)
    assert (error["code"], error["hint"]) == ("view-not-found", 'did you mean "odds"?')


@pytest.mark.parametrize(("status", "said"), [("building", "is being built"), ("stopped", "is stopped")])
async def test_view_that_is_being_built_is_retryable(api: Api, status: str, said: str) -> None:
    api.define(status=status)
    error = await api.post("/v1/subscriptions", {"view": "odds"}, 503)
    assert error["retry"]
    assert said in error["message"]


BAD: list[tuple[bytes | Any, str, str]] = [
    (b"", "bad-request", "the body is empty"),
    (b"{", "bad-request", "not valid JSON"),
    (b'{"\xff": 1}', "bad-request", "cannot parse the body as JSON"),
    (b"[" * 100_000, "bad-request", "cannot parse the body as JSON"),
    ([], "bad-request", "the body is an array"),
    ("odds", "bad-request", "the body is a string"),
    ({}, "bad-request", '"view" is missing'),
    ({"view": 1}, "bad-request", '"view" is a number'),
    ({"view": "odds", "where": True}, "bad-request", '"where" is a boolean'),
    ({"view": "odds", "keys": "a"}, "bad-request", '"keys" is a string'),
    ({"view": "odds", "keys": ["a", 2]}, "bad-request", '"keys"[1] is a number'),
    ({"view": "odds", "keys": ["a"], "where": "b = 1"}, "bad-request", "not both"),
    ({"view": "odds", "were": "b = 1"}, "bad-request", 'unknown field "were"'),
    ({"view": "odds", "keys": []}, "bad-query", "at least one key"),
    ({"view": "odds", "keys": [str(n) for n in range(10_001)]}, "bad-query", "too many"),
    ({"view": "odds", "where": "sport >> 1"}, "bad-query", "at character 8"),
    ({"view": "odds", "where": "sport ="}, "bad-query", "ends at character 8"),
    ({"view": "odds", "where": "a = 1 xor b = 2"}, "bad-query", "at character 7"),
    ({"view": "odds", "where": "a = '" + "x" * 20_000 + "'"}, "bad-query", "too long"),
]


@pytest.mark.parametrize(("body", "code", "said"), BAD)
async def test_invalid_body_is_refused_with_the_reason(api: Api, body: Any, code: str, said: str) -> None:
    api.define()
    error = await api.post("/v1/subscriptions", body, 400)
    assert error["code"] == code
    assert said in error["message"]
    assert api.store.writer.registry("odds")[1] == []
    assert api.announced.commands == []


async def test_huge_body_is_refused(api: Api) -> None:
    error = await api.post("/v1/subscriptions", io.BytesIO(b" " * (1024 * 1024 + 1)), 413)
    assert error["message"] == "the body is too large"


async def test_kafka_that_is_slow_does_not_hold_a_subscriber_up(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.define()
    gate = asyncio.Event()

    async def slow(command: Command) -> None:
        await gate.wait()
        api.announced.commands.append(command)

    monkeypatch.setattr(api.announced, "send", slow)
    monkeypatch.setattr("distributary.control.subscription_routes._ANNOUNCE_TIMEOUT", 0.01)
    await api.post("/v1/subscriptions", {"view": "odds"}, 201)
    gate.set()
    await asyncio.gather(*api.context.sending)
    assert [command.op for command in api.announced.commands] == ["subscribe"]


async def test_urls_of_a_subscription_have_its_fields(api: Api) -> None:
    api.define()
    asked = {"view": "odds", "where": "a = 1"}
    reply = await api.post("/v1/subscriptions", asked | {"fields": "price,b.c"}, 201)
    query = Query.parse("odds", "a = 1")
    assert reply["channel"] == f"{query.channel}?fields=price,b.c"
    assert reply["events"].endswith(f"?subscription={reply['id']}&fields=price,b.c")
    assert reply["query"] == query.text, "who asks for other fields shares the query"
    listed = await api.post("/v1/subscriptions", asked | {"fields": ["price", "b.c"]}, 201)
    assert listed["channel"] == reply["channel"]


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [("", "bad-query", "character 1"), ("a,", "bad-query", "character 3"), ([], "bad-query", "character 1"),
     (5, "bad-request", '"fields" is'), ([1], "bad-request", '"fields" is')],
)  # fmt: skip
async def test_invalid_fields_are_refused(api: Api, fields: Any, code: str, said: str) -> None:
    api.define()
    error = await api.post("/v1/subscriptions", {"view": "odds", "fields": fields}, 400)
    assert (error["code"], said in error["message"]) == (code, True)


async def test_lapsed_subscriptions_are_removed_and_announced(api: Api) -> None:
    api.define()
    old = (await api.post("/v1/subscriptions", {"view": "odds", "where": "a = 1"}, 201))["id"]
    api.now += 50
    young = (await api.post("/v1/subscriptions", {"view": "odds", "where": "a = 2"}, 201))["id"]
    api.now += 20
    assert await sweep_once(api.context) == 1
    assert [(c.op, c.subscription) for c in api.announced.commands][-1] == ("end", old)
    assert len(api.store.writer.registry("odds")[1]) == 1
    await api.get(f"/v1/subscriptions/{young}")


async def test_sweep_has_servers_share_revocations(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, inner = asyncio.Event(), api.store.reader.revoked

    async def revoked(users: Sequence[str]) -> dict[str, int]:
        asked.set()
        return await inner(users)

    monkeypatch.setattr(api.store.reader, "revoked", revoked)
    monkeypatch.setattr(subscription_routes, "SWEEP_SECONDS", 0.001)
    task = asyncio.create_task(subscription_routes.sweep_forever(api.context))
    try:
        await asyncio.wait_for(asked.wait(), 10 * LIMIT)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_sweep_goes_on_while_there_are_more(api: Api) -> None:
    api.define()
    many = SWEEP_BATCH * 3 + 1
    for number in range(many):
        await api.store.reader.register(
            "odds", query_id=f"q{number}", text="{}", subscription=f"s{number}", ttl_ms=1_000, begun=False
        )
    api.now += 2
    assert await sweep_once(api.context) == many
    assert len([c for c in api.announced.commands if c.op == "end"]) == many
    assert not api.store.writer.registry("odds")[1]
