"""Checks of names, functions and filters that feeds, views and topics contain.

Each returns the string in its normal form, or raises ValueError. Messages do not repeat the string: the
caller adds where it is.
"""

from __future__ import annotations

import re
from typing import Any

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")

RULES = ("merge", "latest", "aggregate")
ENGINES = ("auto", "realtime", "microbatch")


def name(text: str) -> str:
    """Check the name of a feed or a view."""
    if not _NAME.fullmatch(text):
        raise ValueError("expected a name: a lower-case letter, then up to 62 of a-z 0-9 _ -")
    return text


def not_blank(text: str) -> str:
    """Check that a string is not empty."""
    if not text.strip():
        raise ValueError("expected a string that is not empty")
    return text


def topic(text: str) -> str:
    """Check the name of a Kafka topic by Kafka's own rule."""
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        raise ValueError("expected a Kafka topic: up to 249 of a-z A-Z 0-9 . _ -")
    return text


def topic_or_empty(text: str) -> str:
    """Check the name of a Kafka topic; "" stands for the default name."""
    return text and topic(text)


def row_filter(value: Any) -> str:
    """Check a filter, as live queries have it."""
    from distributary.errors import BadQuery
    from distributary.model.filter import parse  # only for the few files that contain one

    if not isinstance(value, str):
        raise ValueError('expected a filter such as "stake >= 1000" (a name with dots is quoted)')
    try:
        parse(value)
    except BadQuery as error:
        raise ValueError(str(error)) from None
    return value


def rule(text: str) -> str:
    """Check a reduce rule: a built-in rule, or the import path of a Python function."""
    if text not in RULES and not _FUNCTION.fullmatch(text):
        raise ValueError(f'expected {", ".join(RULES)} or a function as "package.module:function"')
    return text


def function(text: str) -> str:
    """Check the import path of a Python function."""
    if not _FUNCTION.fullmatch(text):
        raise ValueError('expected a function as "package.module:function"')
    return text
