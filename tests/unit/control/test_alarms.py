"""Alarms: raised by what is seen, and gone with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.control_api import FEED, VIEW
from tests.unit.control.test_lag import build

from distributary.control.alarms import KINDS, RESTART_SECONDS, STALLED, Alarm, AlarmTracker
from distributary.control.observation import (
    ComponentReport,
    KafkaObservation,
    NextRecord,
    Observation,
    Overview,
    ViewState,
)
from distributary.model.build import Definition
from distributary.model.view import View
from distributary.stack.stack_file import ComponentState, Phase, StackState
from distributary.store.store_types import ProcessHeartbeat, ServerState, ViewInfo

NOW = 1_700_000_000_000
PLAIN = replace(VIEW, key=None)


def view(made: View = PLAIN, **meta: Any) -> ViewState:
    """A view with one build; ``meta`` is what the store has of it."""
    definition = Definition(made, FEED)
    info = ViewInfo(
        live="b1",
        next="",
        definition=definition.text,
        version=0,
        last_record=meta.pop("last_record", 0),
        now=NOW,
        run_id="run",
    )
    return ViewState(info, build(**{"status": "live", **meta}), None, definition)


def at(mark: str) -> ViewState:
    """A view whose only partition stands at a mark."""
    return view(PLAIN, **{"m:0": mark})


def said(part: str, id: str, age_ms: int, **stats: Any) -> ComponentReport:
    return ComponentReport(ProcessHeartbeat(part, id, json.dumps(stats), age_ms), stats)


def observation(second: float = 0.0, **more: Any) -> Observation:
    """An observation; ``views`` and ``heartbeats`` (heartbeats) are those of the store."""
    overview = Overview(more.pop("views", {}), list(more.pop("heartbeats", ())))
    words = {"stores": (ServerState("redis://a", True, []),), **more}
    return Observation(second, NOW + int(second * 1000), overview=overview, **words)


def stack(*parts: ComponentState) -> StackState:
    return StackState("s", 1, "", Phase.READY, list(parts))


def part(state: Phase, **more: Any) -> ComponentState:
    return ComponentState("reducers", state, 77, log="reducers.log", **more)


def alarms_of(*observations: Observation, tracker: AlarmTracker | None = None) -> list[Alarm]:
    tracker = tracker or AlarmTracker()
    found: list[Alarm] = []
    for one in observations:
        tracker.update_lags(one)
        found = tracker.evaluate(one)
    return found


def kafka(end: int = 0, **more: Any) -> KafkaObservation:
    return KafkaObservation(ends={FEED.topic: {0: end}}, **more)


ONE_LOOK: dict[str, tuple[str, Observation]] = {
    "a part that is silent": (
        "part-silent",
        observation(stack=stack(part(Phase.SILENT, error="no sign of life for 5 s"))),
    ),
    "nobody watches": ("part-silent", observation(stack=stack(part(Phase.READY)), supervised=False)),
    "a heartbeat that is old": ("part-silent", observation(heartbeats=[said("publisher", "p", 7_000)])),
    "a driver's child": (
        "part-silent",
        observation(heartbeats=[said("reducers", "1", 10, silent=["the daemon: 6 s"])]),
    ),
    "a driver's child that is gone": (
        "part-restarting",
        observation(heartbeats=[said("reducers", "1", 10, daemon_restarted=2.5)]),
    ),
    "a part that restarts": (
        "part-restarting",
        observation(stack=stack(part(Phase.RESTARTING, error="was killed"))),
    ),
    "a part that starts again": (
        "part-restarting",
        observation(stack=stack(part(Phase.STARTING, restarts=1))),
    ),
    "a part that was given up": (
        "part-restarting",
        observation(stack=stack(part(Phase.FAILED, error="no memory"))),
    ),
    "a part that was restarted": (
        "part-restarting",
        observation(stack=stack(part(Phase.READY, restarts=1, restarted=NOW / 1000 - 3))),
    ),
    "a view whose query failed": (
        "view-restarting",
        observation(views={"odds": view(failed=f"{NOW - 2_000} it broke")}),
    ),
    "a view that is stopped": (
        "view-stopped",
        observation(views={"odds": view(status="stopped", reason="bad SQL")}),
    ),
    "a view that waits": ("view-waiting", observation(views={"odds": view(reason="there is no topic odds")})),
    "a view whose source is silent": (
        "view-stale",
        observation(views={"odds": view(replace(PLAIN, stale_after=10.0), last_record=NOW - 11_000)}),
    ),
    "a view without slots": (
        "view-degraded",
        observation(
            views={"odds": view()},
            heartbeats=[said("reducers", "1", 10, views={"odds": {"engine_reason": "few"}})],
        ),
    ),
    "a view that lacks records": ("incomplete", observation(views={"odds": view(incomplete=1)})),
    "a store that does not respond": (
        "store-unreachable",
        observation(stores=(ServerState("redis://a", False, ["odds"]),)),
    ),
    "a store that takes no writes": (
        "store-read-only",
        observation(stores=(ServerState("redis://a", True, [], refuses="it is a replica"),)),
    ),
    "a store that is nearly full": (
        "store-nearly-full",
        observation(stores=(ServerState("redis://a", True, [], used=95, limit=100),)),
    ),
    "a Kafka that does not respond": (
        "kafka-unreachable",
        observation(kafka=KafkaObservation(False, "timed out")),
    ),
    "partitions without a leader": ("kafka-no-leader", observation(kafka=kafka(leaderless=("odds-0",)))),
    "partitions that lack replicas": (
        "kafka-under-replicated",
        observation(kafka=kafka(under_replicated=("odds-0",))),
    ),
    "a disk that is nearly full": ("disk-nearly-full", observation(free_bytes={"/data": 10 << 20})),
}

OVER_TIME = {"view-stalled", "view-behind", "dead-letters", "log-short"}


def test_every_kind_of_alarm_has_a_case() -> None:
    assert {name for name, _ in ONE_LOOK.values()} | OVER_TIME == set(KINDS)


@pytest.mark.parametrize(("name", "seen"), ONE_LOOK.values(), ids=ONE_LOOK)
def test_alarm_is_raised_and_cleared_by_observations(name: str, seen: Observation) -> None:
    tracker = AlarmTracker()
    (alarm,) = alarms_of(seen, tracker=tracker)
    assert (alarm.name, alarm.since) == (name, NOW)
    assert alarm.text
    assert alarm.hint
    assert alarms_of(observation(1.0), tracker=tracker) == []


def test_healthy_stack_has_no_alarms() -> None:
    parts = [
        ComponentState(name, Phase.READY, 10 + n) for n, name in enumerate(("kafka", "store", "publisher-1"))
    ]
    heartbeats = [
        said("publisher", "x", 900, pid=12),
        said("reducers", "9", 50_000),
        said("reducer", "odds/b1/0", 9_000),
    ]
    well = observation(
        stack=stack(*parts, part(Phase.READY)),
        kafka=kafka(5),
        views={"odds": at("4:1")},
        heartbeats=heartbeats,
    )
    assert alarms_of(well) == [], "the driver of before, whose heartbeat is still there, was replaced"


def test_records_that_wait_and_are_not_folded_are_named_with_their_age() -> None:
    tracker, views = AlarmTracker(), {"odds": at("4:1")}
    assert alarms_of(observation(0.0, views=views, kafka=kafka(5)), tracker=tracker) == []
    assert alarms_of(observation(1.0, views=views, kafka=kafka(9)), tracker=tracker) == []
    late = observation(2.0 + STALLED, views=views, kafka=kafka(9))
    tracker.update_lags(late)
    assert tracker.stalled() == [(("odds", "b1"), FEED.topic, {0: 5})]
    (alarm,) = tracker.evaluate(replace(late, next_records={("odds", "b1"): {0: NextRecord(0, 5, NOW)}}))
    assert alarm.name == "view-stalled"
    assert "4 records wait and none was folded for 12 s" in alarm.text
    assert alarms_of(observation(13.0, views={"odds": at("8:1")}, kafka=kafka(9)), tracker=tracker) == []


def test_transaction_marker_is_no_waiting_record() -> None:
    tracker, views = AlarmTracker(), {"odds": at("4:1")}
    alarms_of(observation(0.0, views=views, kafka=kafka(6)), tracker=tracker)
    later = observation(3.0, views=views, kafka=kafka(6))
    tracker.update_lags(later)
    assert tracker.stalled()
    assert tracker.evaluate(replace(later, next_records={("odds", "b1"): {0: None}})) == []
    assert tracker.lags["odds", "b1"].records == 0
    for second in (60.0, 120.0):
        assert alarms_of(observation(second, views=views, kafka=kafka(6)), tracker=tracker) == []
        assert tracker.stalled() == [], "it is not looked up again"
    alarms_of(observation(121.0, views=views, kafka=kafka(7)), tracker=tracker)
    alarms_of(observation(124.0, views=views, kafka=kafka(7)), tracker=tracker)
    assert tracker.stalled(), "there is more now"


def test_view_that_folds_but_not_fast_enough_is_behind() -> None:
    tracker = AlarmTracker()
    for second in range(15):
        seen = observation(float(second), views={"odds": at(f"{second}:1")}, kafka=kafka(second * 100 + 10))
        found = alarms_of(seen, tracker=tracker)
    assert [alarm.name for alarm in found] == ["view-behind"]


def test_dead_letters_raise_an_alarm_while_they_arrive() -> None:
    tracker = AlarmTracker()
    alarms_of(observation(0.0, views={"odds": view(dead=0)}, kafka=kafka()), tracker=tracker)
    (alarm,) = alarms_of(observation(1.0, views={"odds": view(dead=12)}, kafka=kafka()), tracker=tracker)
    assert alarm.name == "dead-letters"
    assert "12 records" in alarm.text
    assert f"{FEED.topic}.dead-letters" in alarm.hint
    for second in range(2, 12):
        found = alarms_of(
            observation(float(second), views={"odds": view(dead=12)}, kafka=kafka()), tracker=tracker
        )
    assert found == []


@pytest.mark.parametrize(("rate", "names"), [(2_000, ["log-short"]), (1_000, [])])
def test_log_that_reaches_back_less_than_a_minute(rate: int, names: list[str]) -> None:
    """A log of 100,000 changes, of which the oldest are gone."""

    def state(second: int) -> ViewState:
        found = view(seq=1_000_000 + rate * second)
        assert found.live is not None
        return replace(found, live=replace(found.live, floor=found.live.seq - 100_000))

    tracker = AlarmTracker()
    for second in range(8):
        found = alarms_of(
            observation(float(second), views={"odds": state(second)}, kafka=kafka()), tracker=tracker
        )
    assert [alarm.name for alarm in found] == names


def test_since_is_the_first_of_an_unbroken_series() -> None:
    tracker, bad = AlarmTracker(), {"free_bytes": {"/data": 1}}
    assert alarms_of(observation(0.0, **bad), observation(5.0, **bad), tracker=tracker)[0].since == NOW
    assert alarms_of(observation(6.0), tracker=tracker) == []
    assert alarms_of(observation(7.0, **bad), tracker=tracker)[0].since == NOW + 7_000


def test_errors_come_before_warnings() -> None:
    found = alarms_of(observation(free_bytes={"/data": 1}, stores=(ServerState("redis://a", False, []),)))
    assert [alarm.severity for alarm in found] == ["error", "warning"]


def test_restart_is_reported_for_a_limited_time() -> None:
    before = part(Phase.READY, restarts=1, restarted=NOW / 1000 - RESTART_SECONDS - 1)
    assert alarms_of(observation(stack=stack(before))) == []
    assert (
        alarms_of(
            observation(views={"odds": view(failed=f"{NOW - RESTART_SECONDS * 1000 - 1:.0f} it broke")})
        )
        == []
    )


@given(
    st.lists(
        st.builds(
            lambda at, end, done, up: (at, end, min(end, done), up),
            st.integers(1, 5),
            st.integers(0, 50),
            st.integers(0, 50),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_any_sequence_of_observations_gives_a_lag(steps: list[tuple[int, int, int, bool]]) -> None:
    tracker, second = AlarmTracker(), 0
    for step, end, done, up in steps:
        second += step
        seen = observation(float(second), views={"odds": at(f"{done}:0")}, kafka=kafka(end) if up else None)
        for alarm in alarms_of(seen, tracker=tracker):
            assert alarm.name in ("view-stalled", "view-behind")
            assert done < end


SILENT_CASES: dict[str, Callable[[], Observation]] = {
    "of a process without a supervisor": lambda: observation(
        heartbeats=[said("publisher", "p", 7_000, pid=5)]
    ),
    "of one that is supervised": lambda: observation(
        stack=stack(ComponentState("publisher", Phase.READY, 5)),
        heartbeats=[said("publisher", "p", 7_000, pid=5)],
    ),
}


@pytest.mark.parametrize("make", SILENT_CASES.values(), ids=SILENT_CASES)
def test_old_heartbeat_is_silent(make: Callable[[], Observation]) -> None:
    assert [alarm.name for alarm in alarms_of(make())] == ["part-silent"]
