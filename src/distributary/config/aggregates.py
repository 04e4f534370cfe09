"""The syntax of ``[views.aggregates]``: one function of one Spark SQL expression."""

from __future__ import annotations

import difflib
import re

FUNCTIONS = ("count", "sum", "min", "max", "avg", "last")

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
"""The name of an aggregate, which becomes a field of the row."""

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)


def parse_aggregate(text: str) -> tuple[str, str]:
    """Split ``fn(expr)`` into function and expression; ``count()`` and ``count(*)`` have the expression "".

    The expression itself is Spark's to judge; only quotes and brackets are checked here,
    so that ``sum(a) + sum(b)`` is refused and ``sum((a + b) * 2)`` is not. Raises ValueError.
    """
    match = _CALL.fullmatch(text)
    if match is None:
        raise ValueError(f"expected fn(expression) with fn one of {', '.join(FUNCTIONS)}")
    function, expression = match[1], match[2].strip()
    if function not in FUNCTIONS:
        near = difflib.get_close_matches(function.lower(), FUNCTIONS, 1, 0.6)
        suggestion = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(FUNCTIONS)}"
        raise ValueError(f'unknown function "{function}" ({suggestion})')
    _balanced(expression)
    if function == "count" and expression == "*":
        return function, ""
    if not expression and function != "count":
        raise ValueError(f"{function}() requires an expression, such as {function}(stake)")
    if expression == "*":
        raise ValueError(f"{function}(*) is not supported; name a field, such as {function}(stake)")
    return function, expression


def _balanced(expression: str) -> None:
    depth = 0
    quote = ""
    escaped = False
    for char in expression:
        if quote:
            if escaped:
                escaped = False
            elif char == "\\" and quote != "`":
                escaped = True
            elif char == quote:
                quote = ""
        elif char in "'\"`":
            quote = char
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth < 0:
                raise ValueError("expected one function around the whole expression")
    if quote:
        raise ValueError(f"unclosed {quote}")
    if depth:
        raise ValueError("unclosed (")
