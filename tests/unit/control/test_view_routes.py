from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.control_api import FEED, VIEW, Api

from distributary.config import Auth
from distributary.control.view_routes import read_definition
from distributary.errors import BadDefinition
from distributary.model.build import Build, Definition, load_definition
from distributary.model.feed import Feed


async def test_new_view_is_defined(api: Api) -> None:
    reply = await api.call("PUT", "/v1/views/odds", {"feed": "odds", "key": "market_id"}, 202)
    assert reply == {"name": "odds", "build": VIEW.build_id(FEED), "state": "building", "changed": True}
    info = await api.store.reader.view("odds")
    assert info is not None
    assert json.loads(info.definition)["view"]["key"] == "market_id"


async def test_same_definition_again_changes_nothing(api: Api) -> None:
    api.define()
    reply = await api.call("PUT", "/v1/views/odds", {"feed": "odds", "key": "market_id"})
    assert (reply["changed"], reply["state"]) == (False, "live")


async def test_definition_in_a_status_can_be_sent_back(api: Api) -> None:
    api.define(replace(VIEW, ttl=60.5, reduce="aggregate", aggregates={"n": "count()"}, window=60.0))
    shown = await api.get("/v1/views/odds/status")
    assert not (await api.call("PUT", "/v1/views/odds", shown["definition"]))["changed"]


async def test_changed_view_is_built_beside_the_live_one(api: Api) -> None:
    live = api.define()
    reply = await api.call("PUT", "/v1/views/odds", {"feed": "odds", "key": "other"}, 202)
    shown = await api.get("/v1/views/odds/status")
    assert (shown["build"], shown["status"]) == (live.id, "live")
    assert (shown["next"]["build"], shown["next"]["status"]) == (reply["build"], "building")


async def test_feed_may_come_along(api: Api) -> None:
    body = {"feed": {"topic": "bets"}, "key": "id"}
    await api.call("PUT", "/v1/views/bets", body, 202)
    feeds = (await api.get("/v1/feeds"))["feeds"]
    assert [(feed["name"], feed["topic"], feed["views"]) for feed in feeds] == [
        ("bets", "bets", ["bets"]),
        ("odds", "sportsbook.odds", []),
    ]
    await api.call("PUT", "/v1/views/bets-too", {"feed": "bets"}, 202)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"feed": "ods"}, 'unknown feed "ods"'),
        ({}, "feed"),
        ({"feed": "odds", "keey": "a"}, 'did you mean "key"?'),
        ({"feed": "odds", "reduce": "median"}, "expected merge, latest, aggregate"),
        ({"feed": "odds", "ttl": "soon"}, "ttl"),
        ({"feed": "odds", "ttl": [1]}, "ttl"),
        ({"feed": "odds", "name": "other"}, "but the path has"),
        ({"feed": {"topic": "a b"}}, "expected a Kafka topic"),
        ({"feed": 5}, "feed"),
        ({"view": {"feed": "odds"}, "key": "a"}, 'unknown field "key"'),
    ],
)
async def test_invalid_definition_is_refused_with_the_reason(api: Api, body: Any, said: str) -> None:
    error = await api.call("PUT", "/v1/views/odds", body, 400)
    assert error["code"] == "bad-definition"
    assert said in error["message"]
    assert await api.store.reader.views() == []


async def test_bad_name_is_refused(api: Api) -> None:
    assert (
        "expected a name" in (await api.call("PUT", "/v1/views/No%20Name", {"feed": "odds"}, 400))["message"]
    )


async def test_feed_with_a_known_name_must_be_the_same(api: Api) -> None:
    api.define()
    body = {"feed": {"name": "odds", "topic": "another"}}
    error = await api.call("PUT", "/v1/views/more", body, 400)
    assert 'the feed "odds" is another one in the view "odds"' in error["message"]
    rules: dict[str, Any] = {"reduce": "m:f", "reduce_events": "m:g"}
    api.context.config = replace(api.config, auth=Auth(functions=("m:*",)))
    body = {"feed": {"name": "moves", "topic": "m"}, "events": {"name": "odds", "topic": "another"}, **rules}
    error = await api.call("PUT", "/v1/views/more", body, 400)
    assert 'the feed "odds" is another one in the view "odds"' in error["message"]
    await api.call("PUT", "/v1/views/more", body | {"events": {"name": "ticks", "topic": "t"}}, 202)
    feeds = {feed["name"]: feed["views"] for feed in (await api.call("GET", "/v1/feeds"))["feeds"]}
    assert feeds == {"odds": ["odds"], "moves": ["more"], "ticks": ["more"]}


async def test_view_is_removed_with_everything(api: Api) -> None:
    api.define()
    await api.post("/v1/subscriptions", {"view": "odds"}, 201)
    await api.call("DELETE", "/v1/views/odds", status=204)
    assert (await api.call("DELETE", "/v1/views/odds", status=404))["code"] == "view-not-found"
    assert (await api.get("/v1/views"))["views"] == []


async def test_view_description_has_all_figures(api: Api) -> None:
    build = api.define(replace(VIEW, stale_after=10.0))
    driver = {"build": build.id, "engine": "realtime"}
    api.store.writer.heartbeat("reducers", "1", json.dumps({"views": {"odds": driver}}))
    api.kafka.ends = {FEED.topic: {0: 10}}
    claimed = api.store.writer.claim(build, "t", 1)
    assert api.store.writer.advance(build, claimed.claim, {0: 7})
    for id, p99 in (("1", 8.0), ("2", 9.5)):
        said = {"subscribers": 2, "published": 5, "e2e_p50_ms": 4.0, "e2e_p99_ms": p99}
        api.store.writer.heartbeat("publisher", id, json.dumps({"views": {"odds": said}}))
    api.store.writer.mark_source_active("odds")
    api.now += 11
    await api.get("/v1/views/odds/status")
    shown = await api.get("/v1/views/odds/status")
    assert (shown["engine"], shown["rate"], shown["lag"]) == ("realtime", 0.0, 3)
    assert shown["lag_seconds"] >= 0
    assert shown["position"] == {"0": {"offset": 7, "end": 10}}
    assert (shown["subscribers"], shown["published"], shown["e2e_p99_ms"]) == (4, 10, 9.5)
    assert (shown["rows"], shown["seq"], shown["stale"], shown["next"]) == (0, 0, True, None)
    (again,) = (await api.get("/v1/views"))["views"]
    assert again | {"lag_seconds": 0} == shown | {"lag_seconds": 0}


async def test_figures_of_a_silent_driver_are_null(api: Api) -> None:
    build = api.define()
    driver = {"build": build.id, "engine": "realtime", "lag": 0}
    api.store.writer.heartbeat("reducers", "1", json.dumps({"views": {"odds": driver}}))
    api.kafka.ends = {FEED.topic: {0: 10}}
    assert (await api.get("/v1/views/odds/status"))["engine"] == "realtime"
    api.now += 16
    shown = await api.get("/v1/views/odds/status")
    assert (shown["engine"], shown["lag"]) == (None, 10), "the lag is Kafka's and the store's"
    api.kafka.down = True
    assert (await api.get("/v1/views/odds/status"))["lag"] is None, "nobody knows"


async def test_build_under_way_shows_its_own_figures(api: Api) -> None:
    live = api.define()
    build = (await api.call("PUT", "/v1/views/odds", {"feed": "odds", "key": "other"}, 202))["build"]
    api.kafka.ends = {FEED.topic: {0: 500}}
    claimed = api.store.writer.claim(live, "t", 1)
    assert api.store.writer.advance(live, claimed.claim, {0: 499})
    driver = {"build": live.id, "next": {"build": build}}
    api.store.writer.heartbeat("reducers", "1", json.dumps({"views": {"odds": driver}}))
    api.store.writer.heartbeat("reducer", f"odds/{build}/0", '{"queries":3}')
    api.store.writer.heartbeat("reducer", f"odds/{build}/1", '{"queries":4}')
    shown = await api.get("/v1/views/odds/status")
    assert (shown["lag"], shown["queries"]) == (1, None)
    assert (shown["next"]["lag"], shown["next"]["queries"]) == (500, 4)


async def test_invalid_heartbeat_is_ignored(api: Api) -> None:
    api.define()
    for id, said in enumerate(["", "[]", '{"views":3}', '{"views":{"odds":null}}']):
        api.store.writer.heartbeat("reducers", str(id), said)
    assert (await api.get("/v1/views/odds/status"))["lag"] is None
    assert len((await api.get("/v1/status"))["components"]) == 4


def test_equal_definitions_have_equal_text() -> None:
    assert Definition(VIEW, FEED).text == Definition(replace(VIEW), replace(FEED)).text
    assert Definition(VIEW, FEED).build == Build("odds", VIEW.build_id(FEED)).id


async def test_definition_of_another_version_is_no_error(api: Api) -> None:
    api.store.writer.define("later", "b", '{"view":{"shape":"new"}}')
    api.define()
    shown = await api.get("/v1/views/later/status")
    assert (shown["definition"], shown["feed"]) == (None, "")
    assert len((await api.get("/v1/feeds"))["feeds"]) == 1


async def test_settings_for_readers_need_no_build(api: Api) -> None:
    api.define()
    reply = await api.call(
        "PUT", "/v1/views/odds", {"feed": "odds", "key": "market_id", "stale_after": 5}, 202
    )
    assert (reply["changed"], reply["state"]) == (True, "live")


async def test_the_old_definition_again_ends_the_build_beside_it(api: Api) -> None:
    api.define()
    await api.call("PUT", "/v1/views/odds", {"feed": "odds", "key": "other"}, 202)
    reply = await api.call("PUT", "/v1/views/odds", {"feed": "odds", "key": "market_id"}, 202)
    assert (reply["changed"], reply["state"]) == (True, "live")
    assert (await api.get("/v1/views/odds/status"))["next"] is None


def test_feed_without_a_name_takes_the_views() -> None:
    found = read_definition("bets", {"feed": {"topic": "t"}}, [])
    assert (found.view.feed, found.feed.name, found.feed.topic) == ("bets", "bets", "t")


def test_feed_in_full_goes_before_a_known_one() -> None:
    body = {"view": {"feed": "odds"}, "feed": {"topic": "newer"}}
    assert read_definition("odds", body, [FEED]).feed.topic == "newer"


def test_null_in_a_definition_means_the_default() -> None:
    assert (
        read_definition("odds", {"feed": "odds", "ttl": None, "reduce": None}, [FEED]).view.reduce == "merge"
    )


def test_view_of_an_unknown_feed_is_refused() -> None:
    body = {"view": {"feed": "other"}, "feed": {"name": "odds", "topic": "t"}}
    with pytest.raises(BadDefinition, match='unknown feed "other"'):
        read_definition("odds", body, [])


def test_event_feed_comes_by_name_or_in_full() -> None:
    rules = {"reduce": "m:f", "reduce_events": "m:g"}
    ticks = {"name": "ticks", "topic": "t"}
    known = read_definition("odds", {"feed": "odds", "events": "ticks", **rules}, [FEED, Feed("ticks", "t")])
    assert known.events == Feed("ticks", "t")
    assert read_definition("odds", {"feed": "odds", "events": ticks, **rules}, [FEED]) == known
    assert read_definition("odds", json.loads(known.text), []) == known
    assert load_definition(known.text) == known
    assert known.build != known._replace(events=Feed("ticks", "another")).build
    with pytest.raises(BadDefinition, match='unknown feed "ticks"'):
        read_definition("odds", {"feed": "odds", "events": "ticks", **rules}, [FEED])
