from __future__ import annotations

import pytest

from distributary.config.aggregates import parse_aggregate


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sum(stake)", ("sum", "stake")),
        (" avg ( price * 100 ) ", ("avg", "price * 100")),
        ("count()", ("count", "")),
        ("count(*)", ("count", "")),
        ("count(stake)", ("count", "stake")),
        ("max((a + b) * coalesce(c, 0))", ("max", "(a + b) * coalesce(c, 0)")),
        ("last(concat(a, ')'))", ("last", "concat(a, ')')")),
        (r"min(replace(a, '\'', ''))", ("min", r"replace(a, '\'', '')")),
    ],
)
def test_parse_aggregate_accepts_one_function(text: str, parts: tuple[str, str]) -> None:
    assert parse_aggregate(text) == parts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("stake", "expected fn"),
        ("", "expected fn"),
        ("sum(stake", "expected fn"),
        ("sun(stake)", 'did you mean "sum"'),
        ("SUM(stake)", 'did you mean "sum"'),
        ("median(stake)", "unknown function"),
        ("sum()", "requires an expression"),
        ("sum(*)", "name a field"),
        ("sum(a) + sum(b)", "one function around"),
        ("sum((a)", "unclosed"),
        ("last('a)", "unclosed"),
    ],
)
def test_parse_aggregate_rejects_other_strings(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_aggregate(text)
