"""The queries that the swarm asks."""

from __future__ import annotations

from bench.ask import where

from distributary.model.query import Query


def test_no_two_numbers_give_one_query() -> None:
    ids = {Query.parse("board", where(n)).id for n in range(2_000)}
    assert len(ids) == 2_000
