"""The state of the board, and how it is drawn."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console

from distributary.demo.board import GLOW, SPAN, Board, plain, quantile, render
from distributary.subscriber.subscribed_change import SubscribedChange

NOW = 1_700_000_000.0


def match(id: str, status: str = "live", **more: Any) -> dict[str, Any]:
    row = {"match_id": id, "name": f"Home {id} v Away {id}", "sport": "football", "score": "2-1"}
    return {**row, "minute": 67, "period": "2nd half", "status": status, **more}


def price(key: str, value: str, status: str = "open") -> dict[str, Any]:
    return {"market_id": key, "price": Decimal(value), "status": status}


class Feeder:
    """Applies changes as a subscriber would deliver them."""

    def __init__(self) -> None:
        self.board = Board({"page": "http://127.0.0.1:8001/"})
        self.rows: dict[str, dict[str, dict[str, Any]]] = {"odds": {}, "matches": {}}
        self.now = NOW

    def snapshot(self, view: str, rows: dict[str, dict[str, Any]], **more: Any) -> None:
        self.rows[view] = dict(rows)
        self.board.apply(view, SubscribedChange("snapshot", rows=rows, **more), self.rows[view], self.now)

    def change(self, view: str, key: str, row: dict[str, Any], delay_ms: int = 5) -> None:
        op = "change" if key in self.rows[view] else "add"
        self.rows[view][key] = row
        time = round(self.now * 1000) - delay_ms
        change = SubscribedChange(op, key, row, time=time)  # type: ignore[arg-type]
        self.board.apply(view, change, self.rows[view], self.now)

    def remove(self, view: str, key: str) -> None:
        del self.rows[view][key]
        change = SubscribedChange("remove", key, time=round(self.now * 1000))
        self.board.apply(view, change, self.rows[view], self.now)

    def drawn(self, width: int = 110) -> str:
        console = Console(width=width, color_system=None, file=io.StringIO())
        with console.capture() as captured:
            console.print(render(self.board, self.now))
        return captured.get()


@pytest.fixture
def feeder() -> Feeder:
    made = Feeder()
    made.snapshot("matches", {"1": match("1")})
    made.snapshot(
        "odds",
        {
            f"1:1x2:{o}": price(f"1:1x2:{o}", p)
            for o, p in (("home", "1.50"), ("draw", "4.20"), ("away", "7.00"))
        },
    )
    return made


def test_empty_board_can_be_drawn() -> None:
    text = Feeder().drawn()
    assert "0 changes/s" in text
    assert "p50 -" in text


def test_match_shows_clock_score_and_prices(feeder: Feeder) -> None:
    line = next(line for line in feeder.drawn().splitlines() if "Home 1" in line)
    assert line.split() == ["67'", "Home", "1", "v", "Away", "1", "2-1", "1.50", "4.20", "7.00"]


def test_moved_price_has_an_arrow_for_a_while(feeder: Feeder) -> None:
    feeder.change("odds", "1:1x2:home", price("1:1x2:home", "1.60"))
    feeder.change("odds", "1:1x2:away", price("1:1x2:away", "6.60"))
    text = feeder.drawn()
    assert "1.60 ▲" in text
    assert "6.60 ▼" in text
    feeder.now += GLOW
    assert "▲" not in feeder.drawn()


def test_first_price_of_a_row_has_no_arrow(feeder: Feeder) -> None:
    feeder.change("odds", "1:ou25:over", price("1:ou25:over", "2.00"))
    assert feeder.board.direction("1:ou25:over", NOW) == ""


def test_sport_without_a_draw_has_an_empty_column() -> None:
    feeder = Feeder()
    feeder.snapshot("matches", {"2": match("2", sport="tennis", period="Set 2", score="6-4 3-2")})
    rows = {
        f"2:winner:{side}": price(f"2:winner:{side}", p) for side, p in (("home", "1.50"), ("away", "2.60"))
    }
    feeder.snapshot("odds", rows)
    line = next(line for line in feeder.drawn().splitlines() if "Home 2" in line)
    assert line.split()[-4:] == ["6-4", "3-2", "1.50", "2.60"]
    assert line.startswith("Set 2")


def test_figures_count_changes_and_latency(feeder: Feeder) -> None:
    for n in range(100):
        feeder.change("odds", "1:1x2:home", price("1:1x2:home", f"{2 + n / 100:.2f}"), delay_ms=n + 1)
    figures = feeder.board.figures(NOW)
    assert figures.changes == 100
    assert figures.rate == 100 / SPAN
    assert figures.p50 == pytest.approx(51, abs=1)
    assert figures.p99 == pytest.approx(100, abs=1)
    later = feeder.board.figures(NOW + SPAN)
    assert (later.changes, later.rate, later.p50) == (100, 0, None)


def test_producer_clock_ahead_gives_no_negative_latency(feeder: Feeder) -> None:
    feeder.change("odds", "1:1x2:home", price("1:1x2:home", "1.61"), delay_ms=-50)
    assert feeder.board.figures(NOW).p50 == 0


def test_busiest_matches_are_shown_in_a_stable_order() -> None:
    feeder = Feeder()
    rows = {str(n): match(str(n)) for n in range(8, 13)}
    feeder.snapshot("matches", {**rows, "7": match("7", "finished"), "13": match("13", "upcoming")})
    feeder.snapshot("odds", {f"{n}:1x2:home": price("", "2.00") for n in rows})
    for n, moves in (("12", 9), ("8", 3), ("10", 5)):
        for move in range(moves):
            feeder.change("odds", f"{n}:1x2:home", price("", f"2.{move + 1:02}"))
    assert feeder.board.busiest(3) == ["8", "10", "12"]
    assert feeder.board.busiest(99) == ["8", "9", "10", "11", "12", "13"]


def test_removed_match_is_not_shown(feeder: Feeder) -> None:
    feeder.change("odds", "1:1x2:home", price("1:1x2:home", "1.70"))
    feeder.remove("odds", "1:1x2:home")
    feeder.remove("matches", "1")
    assert "Home 1" not in feeder.drawn()
    assert feeder.board.direction("1:1x2:home", NOW) == ""


def test_stale_board_shows_it(feeder: Feeder) -> None:
    assert "no new records" not in feeder.drawn()
    feeder.board.apply("matches", SubscribedChange("stale"), feeder.rows["matches"], NOW)
    assert "no new records from the source" in feeder.drawn()
    assert "no new records from the source" in plain(feeder.board, NOW)
    feeder.board.apply("matches", SubscribedChange("fresh"), feeder.rows["matches"], NOW)
    assert "no new records" not in feeder.drawn()
    feeder.snapshot("matches", feeder.rows["matches"], stale=True)
    assert "no new records" in feeder.drawn()


def test_addresses_are_not_cut_in_a_narrow_window(feeder: Feeder) -> None:
    assert "http://127.0.0.1:8001/" in feeder.drawn(width=60)


def test_plain_line_has_the_figures(feeder: Feeder) -> None:
    feeder.change("odds", "1:1x2:home", price("1:1x2:home", "1.70"))
    assert plain(feeder.board, NOW) == "1 changes, 0/s, latency p50 5 ms p99 5 ms, 1 live matches, 3 prices"


@pytest.mark.parametrize(("q", "value"), [(0.0, 1), (0.5, 6), (0.99, 10), (1.0, 10)])
def test_quantile_is_the_nearest_rank(q: float, value: float) -> None:
    assert quantile(range(1, 11), q) == value
    assert quantile([], q) is None
