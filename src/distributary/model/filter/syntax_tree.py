"""The syntax tree of a filter: the result of the parser, and the input of the reference evaluator.

The semantics are SQL's, with three truth values. A comparison with a field that is missing, null or of
another type is unknown; ``not`` of unknown is unknown; a row matches if the whole filter is true.
"""

from __future__ import annotations

from dataclasses import dataclass

from distributary.model.filter.scalars import Number

Path = tuple[str, ...]
"""Names of nested fields, the outermost first."""


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A fixed time, in milliseconds since 1970."""

    ms: Number


@dataclass(frozen=True, slots=True)
class Now:
    """The time of evaluation plus an offset in milliseconds."""

    offset: int


Literal = str | int | bool | Number | Timestamp | Now


@dataclass(frozen=True, slots=True)
class Compare:
    """``op`` is one of = != < <= > >=."""

    path: Path
    op: str
    value: Literal


@dataclass(frozen=True, slots=True)
class In:
    """The field equals one of the values, which are all of one type."""

    path: Path
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """The field is between both ends, inclusive."""

    path: Path
    low: Literal
    high: Literal


@dataclass(frozen=True, slots=True)
class Like:
    """``%`` matches any string, ``_`` any one character, except after ``escape``."""

    path: Path
    pattern: str
    escape: str | None = None


@dataclass(frozen=True, slots=True)
class IsNull:
    """The field is null or missing: true or false, never unknown."""

    path: Path


@dataclass(frozen=True, slots=True)
class Not:
    """The negation: unknown stays unknown."""

    term: Term


@dataclass(frozen=True, slots=True)
class And:
    """All terms are true."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one term is true."""

    terms: tuple[Term, ...]


Term = Compare | In | Between | Like | IsNull | Not | And | Or


def family(value: Literal) -> str:
    """Return the type of a literal, for error messages."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "string"
    return "time" if isinstance(value, (Timestamp, Now)) else "number"
