"""The queries and changes of the matching benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import match
from bench.figures import TARGETS
from bench.spec import Match

from distributary.model.query import Query


def test_many_and_few_queries_have_the_same_matches() -> None:
    few, many = (
        match.check(match.hold(match.texts(count)), match.changes(count, 200)) / 200
        for count in (1_000, 8_000)
    )
    assert few == pytest.approx(many, rel=0.1)
    assert 8 < few < 14


def test_the_matches_are_those_of_the_queries() -> None:
    texts = match.texts(1_000)
    index = match.hold(texts)
    queries = [Query.load(match.VIEW, text) for text in texts]
    for key, _, new in match.changes(1_000, 5):
        assert index.of(key, new) == {n for n, query in enumerate(queries) if query.matches(key, new)}


async def test_it_gives_the_figures_that_have_targets(tmp_path: Path) -> None:
    said: list[str] = []
    found = await match.measure(Match(queries=2_000, few=1_000, changes=20, rounds=1), tmp_path, said.append)
    assert {name for name in TARGETS if name.startswith("match_")} <= found.keys()
    assert all(value > 0 for value in found.values())
