"""From what was seen of the rounds to the figures."""

from __future__ import annotations

from bench.cycles import figures, known
from bench.held import SIZES, Held


def test_growth_is_of_the_last_round_over_the_first() -> None:
    grown = [(100 << 20, 50 << 20), (101 << 20, 60 << 20)]
    found = figures(1_000, [4.0, 2.0], grown, {"bytes_per_query": 9.6})
    assert found["cycles_s"] == 500.0
    assert (found["cycles_rss_growth"], found["cycles_rss_growth_jvm"]) == (0.01, 0.2)
    assert (found["cycles_rss_mib"], found["bytes_per_query"]) == (101.0, 10)


def test_queries_are_known_when_every_reducer_knows_all() -> None:
    def said(*counts: int) -> Held:
        rest = [0] * (len(SIZES) - 1)
        return Held({}, {str(at): (count, *rest) for at, count in enumerate(counts)}, (0, 0))

    assert known(said(5, 5), 5)
    assert not known(said(5, 4), 5)
    assert not known(said(), 5)
