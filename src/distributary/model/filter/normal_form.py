"""The nodes of the normal form, and its serialized form.

It has no ``not``: every leaf is true or false, and false if its field is missing, null or of another type. So
two truth values are enough, and the laws of sets apply.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any, Literal

from distributary.errors import BadQuery
from distributary.model.filter.scalars import Number, number, read_number
from distributary.model.filter.syntax_tree import Path

Kind = Literal["text", "number", "truth", "moment", "now"]
"""The type of a field. ``moment`` is a time; so is ``now``, with offsets from the time of evaluation."""

Plain = str | bool | Number
"""A value of a kind: a string, an exact number, a boolean, milliseconds, or an offset in milliseconds."""

Bound = tuple[Plain, bool]
"""A limit of a range, and whether it is inclusive."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """The field equals one of the values, which are sorted."""

    path: Path
    kind: Kind
    values: tuple[Plain, ...]


@dataclass(frozen=True, slots=True)
class NoneOf:
    """The field is of the kind and equals none of the values (of which there may be none)."""

    path: Path
    kind: Kind
    values: tuple[Plain, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """The field is of the kind and within the limits, of which there is at least one."""

    path: Path
    kind: Kind
    low: Bound | None
    high: Bound | None


@dataclass(frozen=True, slots=True)
class LikePattern:
    """The field is a string that matches a canonical pattern, or (``negated``) one that does not."""

    path: Path
    pattern: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Null:
    """The field is null or missing, or (``negated``) neither of them."""

    path: Path
    negated: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    """All terms are true. Sorted by text, without duplicates, without a nested AllOf."""

    terms: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one term is true. Sorted by text, without duplicates, without a nested AnyOf."""

    terms: tuple[Filter, ...]


Leaf = OneOf | NoneOf | Range | LikePattern | Null
Filter = Leaf | AllOf | AnyOf

ALWAYS = AllOf(())
NEVER = AnyOf(())

_KINDS: dict[str, Kind] = {
    "text": "text",
    "number": "number",
    "truth": "truth",
    "moment": "moment",
    "now": "now",
}


def paths(term: Filter) -> frozenset[Path]:
    """Return the fields that a filter uses."""
    if isinstance(term, AllOf | AnyOf):
        return frozenset(path for one in term.terms for path in paths(one))
    return frozenset((term.path,))


def dump(term: Filter) -> list[Any]:
    """Convert to lists, for JSON; ``load`` is the inverse."""
    match term:
        case AllOf(terms):
            return ["and", *map(dump, terms)]
        case AnyOf(terms):
            return ["or", *map(dump, terms)]
        case OneOf(path, kind, values):
            return ["in", _path(path), kind, *(_plain(kind, value) for value in values)]
        case NoneOf(path, kind, values):
            return ["not in", _path(path), kind, *(_plain(kind, value) for value in values)]
        case Range(path, kind, low, high):
            return ["range", _path(path), kind, _bound(kind, low, ">"), _bound(kind, high, "<")]
        case LikePattern(path, pattern, negated):
            return ["not like" if negated else "like", _path(path), pattern]
        case Null(path, negated):
            return ["not null" if negated else "null", _path(path)]


def text(term: Filter) -> str:
    """Serialize the normal form: the result is equal for equal filters, and only for them."""
    return json.dumps(dump(term), separators=(",", ":"), ensure_ascii=False)


def load(body: Any) -> Filter:
    """Parse what ``dump`` returned. Raises BadQuery for anything else."""
    try:
        return _load(body)
    except (ValueError, TypeError, IndexError, KeyError, RecursionError):
        shown = json.dumps(body)[:80]
        raise BadQuery(f"{shown} is not the normal form of a filter", hint="subscribe again") from None


def _load(body: Any) -> Filter:
    name, *rest = body
    if name in ("and", "or"):
        terms = tuple(_load(one) for one in rest)
        return AllOf(terms) if name == "and" else AnyOf(terms)
    names = [rest[0]] if isinstance(rest[0], str) else rest[0]
    path = tuple(sys.intern(one) for one in names)  # the same few names in all queries of a view
    if name in ("null", "not null"):
        return Null(path, name == "not null")
    if name in ("like", "not like"):
        return LikePattern(path, str(rest[1]), name == "not like")
    kind = _KINDS[rest[1]]
    if name == "range":
        return Range(path, kind, _read_bound(kind, rest[2]), _read_bound(kind, rest[3]))
    values = tuple(_read(kind, one) for one in rest[2:])
    if name not in ("in", "not in"):
        raise ValueError(name)
    return OneOf(path, kind, values) if name == "in" else NoneOf(path, kind, values)


def _path(path: Path) -> str | list[str]:
    return path[0] if len(path) == 1 else list(path)


def _plain(kind: Kind, value: Plain) -> str | bool:
    return value if isinstance(value, (str, bool)) else number(str(value))


def _bound(kind: Kind, bound: Bound | None, sign: str) -> list[str | bool] | None:
    return None if bound is None else [sign + "=" if bound[1] else sign, _plain(kind, bound[0])]


def _read(kind: Kind, value: Any) -> Plain:
    if kind == "truth":
        return bool(value)
    if kind == "text":
        return str(value)
    found = read_number(value)
    if found is None:
        raise ValueError(value)
    return found


def _read_bound(kind: Kind, bound: Any) -> Bound | None:
    return None if bound is None else (_read(kind, bound[1]), bound[0].endswith("="))
