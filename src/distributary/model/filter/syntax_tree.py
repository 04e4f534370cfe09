"""A filter as it was written: what the parser makes, and what the reference evaluator reads.

The meaning is SQL's, with three truths. A comparison with a field that is missing, null or of another type is
unknown; ``not`` leaves unknown as it is; a row belongs where the whole is true.
"""

from __future__ import annotations

from dataclasses import dataclass

from distributary.model.filter.scalars import Number

Path = tuple[str, ...]
"""Names of fields, from the outside in."""


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A fixed time, in milliseconds since 1970."""

    ms: Number


@dataclass(frozen=True, slots=True)
class Now:
    """The time at which the filter is asked, and so many milliseconds."""

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
    """Both ends belong to it."""

    path: Path
    low: Literal
    high: Literal


@dataclass(frozen=True, slots=True)
class Like:
    """``%`` stands for any text, ``_`` for any one character, except after ``escape``."""

    path: Path
    pattern: str
    escape: str | None = None


@dataclass(frozen=True, slots=True)
class IsNull:
    """The field is null or missing: true or false, never unknown."""

    path: Path


@dataclass(frozen=True, slots=True)
class Not:
    """Turns true and false round."""

    term: Term


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of them at least."""

    terms: tuple[Term, ...]


Term = Compare | In | Between | Like | IsNull | Not | And | Or


def family(value: Literal) -> str:
    """The type of a literal, in the words of error messages."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text"
    return "time" if isinstance(value, (Timestamp, Now)) else "number"
