"""The documentation of filters: its examples are valid, its limits and costs are the real ones."""

from __future__ import annotations

import re

import pytest
from tests.support.doc_blocks import ROOT, blocks

from distributary.model.filter import lexer, parse
from distributary.model.filter.parse import MAX_DEPTH, MAX_IN, MAX_LIKE, MAX_TERMS, MAX_TEXT
from distributary.model.query import Query
from distributary.model.query_plan import MAX_BRANCHES, plans

PAGE = "docs/how-to/filters.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
EXAMPLES = [line for block in blocks(PAGE) if block.language == "sql" for line in block.text.splitlines()]
ROWS = [
    example
    for cell in re.findall(r"^\| (`.*?`) \|", TEXT, re.MULTILINE)
    for example in re.findall(r"`([^`…]+)`", cell)
    if re.match(r"\w+ ", example) and not example.startswith("and")
]


@pytest.mark.parametrize("where", [*EXAMPLES, *ROWS])
def test_examples_of_the_page_are_valid(where: str) -> None:
    assert Query.parse("v", where).filter is not None


def test_page_has_examples() -> None:
    assert len(EXAMPLES) >= 5
    assert len(ROWS) >= 10


def test_limits_of_the_page_are_the_real_ones() -> None:
    page_text = " ".join(TEXT.split())
    assert f"at most {MAX_TEXT:,} characters, {MAX_TERMS:,} conditions and {MAX_DEPTH} levels" in page_text
    assert f"a pattern {MAX_LIKE:,} characters; a field {lexer.MAX_NAMES} names" in page_text
    assert f"up to {MAX_IN:,}, of one type" in page_text
    assert f"an `or` of up to {MAX_BRANCHES} parts" in page_text


def test_equal_queries_of_the_page_are_equal() -> None:
    assert Query.parse("v", "a in (2, 1)").id == Query.parse("v", "a = 1.0 or a = 2").id


@pytest.mark.parametrize("where", ["a like 'x%'", "a != 1", "a not in (1, 2)", "a is not null"])
def test_expensive_queries_of_the_page_are_expensive(where: str) -> None:
    assert [plan.steps for plan in plans(1, Query.parse("v", where))] == [()]


def test_times_of_the_page_are_parsed() -> None:
    for text in ("timestamp '2026-01-31' + 36h", "timestamp '2026-01-31' - interval '2 days'"):
        parse(f"t > {text}")
