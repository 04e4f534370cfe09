"""The simulated sportsbook: properties that hold for any seed."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.demo.sportsbook import MATCHES, ODDS, Event, Sportsbook, encode, events

START = datetime(2026, 3, 14, 15, 0, tzinfo=UTC)
seeds = st.integers(0, 10_000)


def play(
    seed: int, seconds: float, *, rate: float = 60.0, matches: int = 12, speed: float = 12.0
) -> Iterator[tuple[float, Event]]:
    """Events with the moment they happen at."""
    now = 0.0
    book = Sportsbook(Random(seed), START, matches=matches, speed=speed)
    for delay, event in events(book, rate):
        assert delay >= 0
        now += delay
        if now > seconds:
            return
        yield now, event


def markets(rows: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for key, row in rows.items():
        found[key.rpartition(":")[0]].append(row)
    return found


@settings(max_examples=8, deadline=None)
@given(seeds)
def test_every_record_has_its_fields(seed: int) -> None:
    for _, event in play(seed, 60):
        if event.value is None:
            continue
        if event.topic == ODDS:
            assert event.key == event.value["market_id"]
            assert event.key.split(":")[0] == event.value["match_id"]
            assert event.value["status"] in ("open", "suspended", "settled")
            price = event.value["price"]
            assert isinstance(price, Decimal)
            assert price > 1
            assert price.as_tuple().exponent == -2
            assert ("result" in event.value) == (event.value["status"] == "settled")
        else:
            assert event.topic == MATCHES
            assert event.key == event.value["match_id"]
            assert event.value["status"] in ("upcoming", "live", "finished")
            assert datetime.fromisoformat(event.value["starts"]).tzinfo is not None


@settings(max_examples=6, deadline=None)
@given(seeds)
def test_open_market_contains_the_margin(seed: int) -> None:
    rows: dict[str, dict[str, Any]] = {}
    # Rows of one moment belong together, so a market is looked at when time moves on.
    for _, group in itertools.groupby(play(seed, 60), key=lambda item: item[0]):
        touched = set()
        for _, event in group:
            if event.topic != ODDS:
                continue
            if event.value is None:
                rows.pop(event.key)
            else:
                rows[event.key] = event.value
                touched.add(event.key.rpartition(":")[0])
        for market, selections in markets({k: r for k, r in rows.items()}).items():
            if market in touched and all(row["status"] == "open" for row in selections):
                assert len(selections) in (2, 3)
                assert 1.02 < sum(1 / row["price"] for row in selections) < 1.08


@settings(max_examples=6, deadline=None)
@given(seeds)
def test_clock_never_goes_back_and_finished_match_never_changes(seed: int) -> None:
    last: dict[str, tuple[int, str]] = {}
    order = ["upcoming", "live", "finished"]
    for _, event in play(seed, 120, speed=60):
        if event.topic != MATCHES or event.value is None:
            continue
        minute, status = event.value["minute"], event.value["status"]
        before = last.get(event.key, (0, "upcoming"))
        assert minute >= before[0]
        assert order.index(status) >= order.index(before[1])
        assert before[1] != "finished"
        last[event.key] = (minute, status)


@settings(max_examples=6, deadline=None)
@given(seeds)
def test_same_seed_gives_the_same_events(seed: int) -> None:
    assert list(play(seed, 5)) == list(play(seed, 5))


def test_another_seed_gives_other_events() -> None:
    assert list(play(1, 5)) != list(play(2, 5))


@pytest.mark.parametrize("rate", [60.0, 500.0])
def test_events_have_the_given_rate(rate: float) -> None:
    # Thousands of changes a minute at the usual pace; what was listed at the start is not counted.
    found = sum(now > 0 for now, _ in play(7, 120, rate=rate))
    assert found == pytest.approx(120 * rate, rel=0.15)


def test_goal_suspends_every_open_market_and_moves_the_prices() -> None:
    rows: dict[str, dict[str, Any]] = {}
    scores: dict[str, str] = {}
    goals = moved = 0
    at_goal: dict[str, dict[str, Decimal]] = {}
    for _, group in itertools.groupby(play(3, 600), key=lambda item: item[0]):
        scored = set()
        for _, event in group:
            if event.value is None:
                continue
            if event.topic == ODDS:
                rows[event.key] = event.value
                match, before = event.value["match_id"], at_goal.get(event.value["match_id"])
                if before and event.value["status"] == "open" and event.key in before:
                    moved += before.pop(event.key) != event.value["price"]
            elif event.value["sport"] == "football":
                before_score = scores.get(event.key, event.value["score"])
                scores[event.key] = event.value["score"]
                if before_score != event.value["score"] and event.value["status"] == "live":
                    scored.add(event.key)
        for match in scored:
            goals += 1
            here = {k: row for k, row in rows.items() if row["match_id"] == match}
            assert {row["status"] for row in here.values()} <= {"suspended", "settled"}
            at_goal[match] = {k: row["price"] for k, row in here.items() if row["status"] == "suspended"}
    assert goals > 3
    assert moved > goals


def test_matches_end_settled_and_are_replaced() -> None:
    matches: dict[str, dict[str, Any]] = {}
    odds: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    left = 0
    for now, event in play(7, 300, speed=60):
        rows = odds if event.topic == ODDS else matches
        if event.value is None:
            del rows[event.key]
            left += event.topic == MATCHES
            continue
        rows[event.key] = event.value
        if event.topic == MATCHES:
            seen.add(event.key)
            if now > 0:
                assert sum(row["status"] != "finished" for row in matches.values()) in (11, 12, 13)
    assert len(seen) > 20
    assert left > 5
    assert {row["match_id"] for row in odds.values()} == set(matches)
    for id, match in matches.items():
        if match["status"] == "finished":
            results = [row for row in odds.values() if row["match_id"] == id]
            assert {row["status"] for row in results} == {"settled"}
            for market in markets({row["market_id"]: row for row in results}).values():
                assert sorted(row["result"] for row in market).count("won") == 1


def test_no_side_plays_two_matches_at_once() -> None:
    book = Sportsbook(Random(7), START)
    sides = [side for match in book.matches for side in (match.home, match.away)]
    assert len(sides) == len(set(sides))


def test_sportsbook_takes_many_matches() -> None:
    assert len(Sportsbook(Random(7), START, matches=80).open()) > 500


def test_close_removes_every_row() -> None:
    book = Sportsbook(Random(7), START)
    keys = {(event.topic, event.key) for event in book.open()}
    closing = book.close()
    assert {(event.topic, event.key) for event in closing} == keys
    assert all(event.value is None for event in closing)


def test_price_is_encoded_with_both_decimals() -> None:
    assert encode({"price": Decimal("2.50")}) == b'{"price":2.50}'
    _, event = next(item for item in play(7, 1) if item[1].topic == ODDS)
    assert event.value is not None
    assert re.search(rb'"price":[0-9]+\.[0-9]{2}[,}]', encode(event.value))
