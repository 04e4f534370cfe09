"""A filter on many rows gives the same results as on single rows."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sample_filters import NOW, rows, terms, write

from distributary.model.filter import batch_filter
from distributary.model.filter.syntax_tree import Term
from distributary.model.query import Query
from distributary.reducers.row_json import Fields, write_object
from distributary.store.build_scan import belongs


@pytest.fixture(autouse=True, scope="module")
def _all_at_once() -> Iterator[None]:
    with mock.patch.object(batch_filter, "FEW", 0):
        yield


@given(terms, st.lists(rows, max_size=8))
def test_batch_filter_agrees_with_single_rows(term: Term, rows: list[Fields]) -> None:
    query = Query.parse("v", write(term))
    texts = [write_object(row) for row in rows]
    assert query.match_rows(texts, NOW) == [belongs(query, "k", text, NOW) for text in texts]


@pytest.mark.parametrize("where", ["a = 1", "a = 1 and b.c > 2", "a is null"])
def test_row_that_is_not_an_object_has_no_fields(where: str) -> None:
    rows = [b'{"a":1,"b":{"c":3}}', b"[1]", b'{"a":2,"a":1,"b":{"c":5}}', b"null", b'{"b":7}', b'"a"']
    query = Query.parse("v", where)
    assert list(query.match_rows(rows)) == [belongs(query, "k", row) for row in rows]
    objects = [row for row in rows if row[:1] == b"{"]
    assert list(query.match_rows(objects)) == [belongs(query, "k", row) for row in objects]


def test_query_without_a_filter_matches_all_rows() -> None:
    assert list(Query("v").match_rows([b"{}", b"[]"])) == [True, True]
