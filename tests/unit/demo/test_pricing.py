"""Prices are exact, on the ladder, and add up to the bookmaker's margin."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.demo.pricing import LADDER, LIKELIEST, OVERROUND, on_ladder, prices, tempered

chances = st.integers(2, 3).flatmap(
    lambda n: st.lists(st.floats(0.0, 1.0), min_size=n, max_size=n).filter(lambda xs: sum(xs) > 0.01)
)
noises = st.lists(st.floats(-0.3, 0.3), min_size=3, max_size=3)


def shares_of(weights: list[float], noise: list[float]) -> list[float]:
    total = sum(weights)
    return tempered([w / total for w in weights], noise[: len(weights)])


@given(chances, noises)
def test_tempered_chances_add_up_and_none_is_certain(weights: list[float], noise: list[float]) -> None:
    shares = shares_of(weights, noise)
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0
    assert max(shares) <= LIKELIEST + 1e-9


@given(chances, noises)
def test_prices_contain_the_margin(weights: list[float], noise: list[float]) -> None:
    found = prices(shares_of(weights, noise))
    assert all(price > 1 for price in found)
    # Rounding to the ladder moves each price by at most half a rung.
    assert float(sum(1 / price for price in found)) == pytest.approx(OVERROUND, abs=0.03)


@given(st.floats(0.5, 5_000))
def test_price_is_on_the_ladder_with_two_decimals(fair: float) -> None:
    price = on_ladder(fair)
    assert int(price * 100) in LADDER
    assert price.as_tuple().exponent == -2


@given(st.floats(1.01, 999))
def test_price_is_the_nearest_on_the_ladder(fair: float) -> None:
    off = abs(float(on_ladder(fair)) - fair)
    assert off <= min(abs(rung / 100 - fair) for rung in LADDER) + 1e-9


@pytest.mark.parametrize(
    ("fair", "price"), [(0.2, "1.01"), (1.854, "1.85"), (2.511, "2.52"), (3.57, "3.55"), (9_999, "1000.00")]
)
def test_known_prices_are_on_the_ladder(fair: float, price: str) -> None:
    assert on_ladder(fair) == Decimal(price)


def test_likelier_outcome_has_the_lower_price() -> None:
    home, draw, away = prices([0.5, 0.3, 0.2])
    assert home < draw < away
