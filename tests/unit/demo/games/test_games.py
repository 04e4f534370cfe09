"""Every sport keeps to the one shape: clock, chances, end."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.demo.games import GAMES
from distributary.demo.games.basketball import Basketball
from distributary.demo.games.football import Football
from distributary.demo.games.game import Game, either, line
from distributary.demo.games.tennis import Tennis
from distributary.demo.teams import Sport

sports = st.sampled_from(sorted(GAMES))
seeds = st.integers(0, 10_000)


def decided(game: Game) -> set[str]:
    return {market for market, found in game.chances().items() if max(found) == 1.0}


@settings(max_examples=40, deadline=None)
@given(sports, seeds, st.floats(0.05, 1.5))
def test_game_ends_with_every_market_decided(sport: Sport, seed: int, step: float) -> None:
    rng = Random(seed)
    game = GAMES[sport](rng, "Home", "Away")
    settled: set[str] = set()
    clock = 0.0
    for _ in range(20_000):
        chances = game.chances()
        assert set(chances) == {market.id for market in game.markets}
        for market in game.markets:
            assert len(chances[market.id]) == len(market.outcomes)
            assert sum(chances[market.id]) == pytest.approx(1)
            assert min(chances[market.id]) >= 0
        assert settled <= decided(game), "a decided market opened again"
        settled = decided(game)
        if game.over:
            break
        game.play(rng, step)
        assert game.clock >= clock
        clock = game.clock
    assert game.over
    assert clock >= game.SHORTEST
    assert settled == set(game.chances())


@settings(max_examples=20, deadline=None)
@given(sports, seeds)
def test_no_game_ends_early(sport: Sport, seed: int) -> None:
    rng = Random(seed)
    game = GAMES[sport](rng, "Home", "Away")
    while game.clock < game.SHORTEST * 0.95:
        game.play(rng, 0.25)
        assert not game.over


def test_goal_increases_the_chance_of_its_side() -> None:
    game = Football(Random(1), "Home", "Away")
    before = game.chances()
    game.goals[0] += 1
    after = game.chances()
    assert after["1x2"][0] > before["1x2"][0]
    assert after["1x2"][2] < before["1x2"][2]
    assert after["ou25"][0] > before["ou25"][0]


def test_three_goals_decide_the_total() -> None:
    game = Football(Random(1), "Home", "Away")
    game.goals[:] = [2, 1]
    assert {"ou25", "btts"} <= decided(game)
    assert game.chances()["ou25"] == (1.0, 0.0)


def test_football_match_has_a_half_time() -> None:
    rng, periods = Random(3), []
    game = Football(rng, "Home", "Away")
    while not game.over:
        periods.append(game.period)
        game.play(rng, 0.5)
    assert list(dict.fromkeys(periods)) == ["1st half", "Half-time", "2nd half"]
    assert game.period == "Full time"


def test_tied_basketball_game_goes_into_overtime() -> None:
    game = Basketball(Random(1), "Home", "Away")
    game.rates = (0.0, 0.0)
    game.points[:] = [80, 80]
    game.clock = game.length
    game.play(Random(1), 0.1)
    assert not game.over
    assert game.period == "Overtime"


def test_late_lead_in_basketball_nearly_wins() -> None:
    game = Basketball(Random(1), "Home", "Away")
    game.points[:] = [100, 80]
    game.clock = 47.0
    assert game.chances()["winner"][0] > 0.99


@pytest.mark.parametrize(
    ("sets", "games", "score"),
    [([], (0, 0), "0-0"), ([(6, 4)], (3, 2), "6-4 3-2"), ([(6, 4), (6, 7)], (1, 0), "6-4 6-7 1-0")],
)
def test_tennis_score_is_formatted(sets: list[tuple[int, int]], games: tuple[int, int], score: str) -> None:
    game = Tennis(Random(1), "Home", "Away")
    game.sets, game.games = sets, games
    assert game.score == score
    assert game.period == f"Set {len(sets) + 1}"


def test_set_each_makes_three_sets_certain() -> None:
    game = Tennis(Random(1), "Home", "Away")
    game.sets = [(6, 4), (4, 6)]
    assert game.chances()["sets25"] == (1.0, 0.0)


def test_helpers_format_and_complement() -> None:
    assert either(0.25) == (0.25, 0.75)
    assert (line(1.5), line(-0.5)) == ("+1.5", "-0.5")
