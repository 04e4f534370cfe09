from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.control.row_formats import ARROW, CSV, FORMATS, JSON, NDJSON
from distributary.httpd.content_negotiation import choose

OFFERED = list(FORMATS)


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/json", JSON),
        ("Text/CSV", CSV),
        ("text/csv; charset=utf-8", CSV),
        ("text/*", CSV),
        ("application/*", JSON),
        ("application/*;q=0.5, text/csv;q=0.6", CSV),
        ("application/json;q=0.1, */*;q=0.9", NDJSON),
        ("application/json;q=0, */*", NDJSON),
        ("*/*;q=0.1, application/vnd.apache.arrow.stream", ARROW),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", JSON),
        ("text/html, application/x-ndjson;q=0.001", NDJSON),
        ("text/csv, application/json", JSON),
        ("nonsense, text/csv;q=many, ;;", JSON),
        ("text/html", None),
        ("application/json;q=0", None),
        ("*/*;q=0", None),
        ("text/csv;q=0, text/*", None),
        ("application/jso", None),
    ],
)
def test_best_media_type_is_chosen(header: str, chosen: str | None) -> None:
    assert choose(header, OFFERED) == chosen


@given(st.text(alphabet="ap/*;q=0.15, textcsvjson+", max_size=60))
def test_any_header_gives_an_answer(header: str) -> None:
    assert choose(header, OFFERED) in (*OFFERED, None)
