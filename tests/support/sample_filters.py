"""Filters and rows for any test: few names and values, so that they meet, and the odd ones among them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from distributary.model.filter.syntax_tree import (
    And,
    Between,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Now,
    Or,
    Path,
    Term,
    Timestamp,
)
from distributary.reducers.row_json import Fields, read_object

NOW = 1_767_225_600_000
"""2026-01-01T00:00:00Z"""

paths: st.SearchStrategy[Path] = st.sampled_from(
    [("a",), ("b",), ("c",), ("a", "x"), ("a", "x", "y"), ("od`d é",)]
)
texts = st.sampled_from(["", "x", "xy", "yx", "xxy", "é", "z\U0001f600", "%", "_", "\\", "it's", "1", "true"])
numerals = st.sampled_from(
    "0 1 2 -1 1.5 1.50 15e-1 0.1 0.10000000000000001 9007199254740993 9007199254740992 1e400 -1e400 1e-400 "
    f"123456789012345678901234567890.5 1e30 {NOW} {NOW}.5".split()
)
numbers: st.SearchStrategy[Literal] = numerals.map(Decimal)
moments: st.SearchStrategy[Literal] = st.sampled_from([NOW, NOW - 1, NOW + 1, NOW + 1000]).map(Timestamp)
nows: st.SearchStrategy[Literal] = st.sampled_from([0, 1, -1, 1000, -90_000]).map(Now)
times = moments | nows
patterns = st.lists(st.sampled_from(["x", "y", "%", "_", "é", "\\", "\n"]), max_size=6).map("".join)


_signs = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_kinds: list[st.SearchStrategy[Any]] = [texts, numbers, times]
_escaped = st.lists(st.sampled_from(["x", "!%", "!_", "!!", "%", "_"]), max_size=4).map("".join)

leaves: st.SearchStrategy[Term] = st.one_of(
    st.builds(Compare, paths, _signs, st.one_of(_kinds)),
    st.builds(Compare, paths, st.sampled_from(["=", "!="]), st.booleans()),
    *(st.builds(Between, paths, kind, kind) for kind in _kinds),
    *(
        st.builds(In, paths, st.lists(kind, min_size=1, max_size=3).map(tuple))
        for kind in (*_kinds, st.booleans())
    ),
    st.builds(Like, paths, patterns),
    st.builds(Like, paths, _escaped, st.just("!")),
    st.builds(IsNull, paths),
)


def _join(inner: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    several = st.lists(inner, min_size=2, max_size=4).map(tuple)
    return several.map(And) | several.map(Or) | inner.map(Not)


terms: st.SearchStrategy[Term] = st.recursive(leaves, _join, max_leaves=8)


def untimed(term: Term) -> bool:
    """Whether no ``now()`` is in it."""
    return "now()" not in write(term)


def write(term: Term) -> str:
    """A text that is read as this very tree."""
    match term:
        case And(parts):
            return " and ".join(f"({write(part)})" for part in parts)
        case Or(parts):
            return " OR ".join(f"({write(part)})" for part in parts)
        case Not(part):
            return f"not ({write(part)})"
        case IsNull(path):
            return f"{_path(path)} is null"
        case Compare(path, op, value):
            return f"{_path(path)}{op}{_literal(value)}"
        case In(path, values):
            return f"{_path(path)} in ({', '.join(map(_literal, values))})"
        case Between(path, low, high):
            return f"{_path(path)} between {_literal(low)} and {_literal(high)}"
        case Like(path, pattern, escape):
            tail = f" escape '{escape}'" if escape else ""
            return f"{_path(path)} like {_literal(pattern)}{tail}"


def _path(path: Path) -> str:
    return ".".join(name if name.isidentifier() else f"`{name.replace('`', '``')}`" for name in path)


def _literal(value: Literal) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'" if "x" in value else json.dumps(value)
    if isinstance(value, Now):
        return f"now() {'-' if value.offset < 0 else '+'} {abs(value.offset)}ms"
    if isinstance(value, Timestamp):
        return f"timestamp '2026-01-01' + {int(value.ms) - NOW}ms".replace("+ -", "- ")
    return str(value)


_iso = st.sampled_from(
    [
        "2026-01-01",
        "2026-01-01T00:00:00Z",
        "2026-01-01 01:00:01+01:00",
        "2025-12-31T23:59:59.9995Z",
        "2026-13-01",
    ]
)
scalars: st.SearchStrategy[str] = (
    numerals | (texts | _iso).map(json.dumps) | texts.map(lambda text: json.dumps(text, ensure_ascii=False))
    | st.sampled_from(["null", "true", "false", "[]", "[1]", "{}", "1e99999999999999999999"])
)  # fmt: skip
_deep = scalars.map(lambda inner: '{"y":' + inner + "}")
_nested = (scalars | _deep).map(lambda inner: '{"x":' + inner + "}")
json_rows = st.dictionaries(st.sampled_from(["a", "b", "c", "d", "od`d é"]), scalars | _nested, max_size=5)


def _fields(row: dict[str, str]) -> Fields:
    return read_object(("{" + ",".join(f"{json.dumps(k)}:{v}" for k, v in row.items()) + "}").encode())


rows: st.SearchStrategy[Fields] = json_rows.map(_fields)


def fields(row: dict[str, Any]) -> Fields:
    """A row of Python values."""
    return read_object(json.dumps(row).encode())
