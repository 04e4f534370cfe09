"""Normalizes a syntax tree, so that equivalent filters become equal as often as is cheap.

``not`` is pushed down to the leaves, where it inverts a comparison: with three truth values that is
equivalent, since unknown stays unknown. Then conditions on one field are combined: limits to one range,
equalities to one list; a contradiction becomes NEVER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from distributary.model.filter.like import ANY, canonical_pattern, matcher
from distributary.model.filter.normal_form import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Bound,
    Filter,
    Kind,
    Leaf,
    LikePattern,
    NoneOf,
    Null,
    OneOf,
    Plain,
    Range,
    text,
)
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

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def normalize(term: Term, negated: bool = False) -> Filter:
    """Return the normal form of a filter, or of its negation."""
    match term:
        case Not(inner):
            return normalize(inner, not negated)
        case And(terms):
            return (any_of if negated else all_of)(normalize(one, negated) for one in terms)
        case Or(terms):
            return (all_of if negated else any_of)(normalize(one, negated) for one in terms)
        case Compare(path, op, value):
            return _compared(path, _OPPOSITE[op] if negated else op, value)
        case In(path, values):
            if negated:
                return all_of(_compared(path, "!=", value) for value in values)
            return any_of(_compared(path, "=", value) for value in values)
        case Between(path, low, high):
            if negated:
                return any_of((_compared(path, "<", low), _compared(path, ">", high)))
            return all_of((_compared(path, ">=", low), _compared(path, "<=", high)))
        case Like(path, pattern, escape):
            canonical, plain = canonical_pattern(pattern, escape)
            if plain is not None:
                return _compared(path, "!=" if negated else "=", plain)
            if canonical == ANY:
                return NEVER if negated else NoneOf(path, "text", ())
            return LikePattern(path, canonical, negated)
        case IsNull(path):
            return Null(path, negated)


def all_of(terms: Iterable[Filter]) -> Filter:
    """Return the normal form of a conjunction of normal forms."""
    flat = [inner for term in terms for inner in (term.terms if isinstance(term, AllOf) else (term,))]
    out: list[Filter] = [term for term in flat if isinstance(term, AnyOf)]
    if NEVER in out:
        return NEVER
    for leaves in _by_path(flat):
        together = _both(leaves)
        if together is None:
            return NEVER
        out += together
    return _joined(AllOf, out)


def any_of(terms: Iterable[Filter]) -> Filter:
    """Return the normal form of a disjunction of normal forms."""
    flat = [inner for term in terms for inner in (term.terms if isinstance(term, AnyOf) else (term,))]
    out: list[Filter] = [term for term in flat if isinstance(term, AllOf)]
    if ALWAYS in out:
        return ALWAYS
    for leaves in _by_path(flat):
        together = _either(leaves)
        if together is None:
            return ALWAYS
        out += together
    return _joined(AnyOf, out)


def _compared(path: Path, op: str, value: Literal) -> Filter:
    kind, plain = _kind(value)
    if kind == "truth":  # not true is false, for a boolean
        return OneOf(path, kind, (plain if op == "=" else not plain,))
    if op == "=":
        return OneOf(path, kind, (plain,))
    if op == "!=":
        return NoneOf(path, kind, (plain,))
    bound = (plain, op in ("<=", ">="))
    return Range(path, kind, bound, None) if op[0] == ">" else Range(path, kind, None, bound)


def _kind(value: Literal) -> tuple[Kind, Plain]:
    if isinstance(value, bool):
        return "truth", value
    if isinstance(value, str):
        return "text", value
    if isinstance(value, Timestamp):
        return "moment", value.ms
    if isinstance(value, Now):
        return "now", value.offset
    return "number", value


def _by_path(terms: list[Filter]) -> Iterable[list[Leaf]]:
    found: dict[Path, list[Leaf]] = {}
    for term in terms:
        if not isinstance(term, (AllOf, AnyOf)):
            found.setdefault(term.path, []).append(term)
    return found.values()


def _by_kind(leaves: Iterable[Leaf]) -> dict[Kind, list[Leaf]]:
    found: dict[Kind, list[Leaf]] = {}
    for leaf in leaves:
        if not isinstance(leaf, Null):
            found.setdefault("text" if isinstance(leaf, LikePattern) else leaf.kind, []).append(leaf)
    return found


def _joined(join: type[AllOf] | type[AnyOf], terms: list[Filter]) -> Filter:
    ordered = sorted({text(term): term for term in terms}.items())
    return ordered[0][1] if len(ordered) == 1 else join(tuple(term for _, term in ordered))


def _both(leaves: list[Leaf]) -> list[Leaf] | None:
    """Combine all conditions on one field; None if they contradict each other."""
    kinds = _by_kind(leaves)
    nulls = {leaf.negated: leaf for leaf in leaves if isinstance(leaf, Null)}
    if False in nulls:
        return None if kinds or True in nulls else [nulls[False]]
    if not kinds:
        return [nulls[True]]
    # A string or a number may also be a time; nothing else is of two kinds.
    if len(kinds.keys() - {"moment", "now"}) > 1 or ("truth" in kinds and len(kinds) > 1):
        return None
    out: list[Leaf] = []
    for kind, those in kinds.items():
        together = _within(leaves[0].path, kind, those)
        if together is None:
            return None
        out += together
    return out


def _within(path: Path, kind: Kind, leaves: list[Leaf]) -> list[Leaf] | None:
    """Combine all conditions of one kind on one field; None if they contradict each other."""
    # 1. Collect values, exclusions and the strictest limits.
    allowed: set[Plain] | None = None
    excluded: set[Plain] = set()
    low: Bound | None = None
    high: Bound | None = None
    likes: list[LikePattern] = []
    for leaf in leaves:
        match leaf:
            case OneOf(_, _, values):
                allowed = set(values) if allowed is None else allowed & set(values)
            case NoneOf(_, _, values):
                excluded |= set(values)
            case Range(_, _, lower, upper):
                low = _tighter(low, lower, _rises)
                high = _tighter(high, upper, _falls)
            case LikePattern():
                likes.append(leaf)

    def fits(value: Plain) -> bool:
        inside = (low is None or _above(value, low)) and (high is None or _above(value, high, _falls))
        return inside and all(_like(like.pattern)(str(value)) != like.negated for like in likes)

    # 2. An empty range is a contradiction; a range of one value is that value.
    if low is not None and high is not None and not _rises(low[0], high[0]):
        if low[0] != high[0]:
            return None
        allowed = {low[0]} if allowed is None else allowed & {low[0]}
    # 3. With a list of values, the other conditions only select from it.
    if allowed is not None:
        left = tuple(sorted(value for value in allowed - excluded if fits(value)))
        return [OneOf(path, kind, left)] if left else None
    # 4. Else an excluded limit makes the range exclusive, and other exclusions remain if inside of it.
    if low is not None and low[0] in excluded:
        low = (low[0], False)
    if high is not None and high[0] in excluded:
        high = (high[0], False)
    out: list[Leaf] = list(likes)
    if low is not None or high is not None:
        out.append(Range(path, kind, low, high))
    apart = tuple(sorted(value for value in excluded if fits(value)))
    if apart or not out:
        out.append(_unequal(path, kind, apart))
    return out


def _unequal(path: Path, kind: Kind, values: tuple[Plain, ...]) -> NoneOf:
    """Without values it means only that the field is of the kind, which does not depend on the time."""
    return NoneOf(path, "moment" if kind == "now" and not values else kind, values)


def _either(leaves: list[Leaf]) -> list[Leaf] | None:
    """Combine alternative conditions on one field; None if one of them is always true."""
    nulls = {leaf.negated: leaf for leaf in leaves if isinstance(leaf, Null)}
    if len(nulls) == 2:
        return None
    if True in nulls:  # every other condition implies that there is a value
        return [nulls[True]]
    out: list[Leaf] = list(nulls.values())
    for kind, those in _by_kind(leaves).items():
        among: set[Plain] = set()
        apart: set[Plain] | None = None
        for leaf in those:
            match leaf:
                case OneOf(_, _, values):
                    among |= set(values)
                case NoneOf(_, _, values):
                    apart = set(values) if apart is None else apart & set(values)
                case _:
                    out.append(leaf)
        path = leaves[0].path
        if apart is not None:
            out.append(_unequal(path, kind, tuple(sorted(apart - among))))
        elif among:
            out.append(OneOf(path, kind, tuple(sorted(among))))
    return out


Order = Callable[[Plain, Plain], bool]


def _rises(one: Plain, other: Plain) -> bool:
    return one < other  # type: ignore[operator]


def _falls(one: Plain, other: Plain) -> bool:
    return one > other  # type: ignore[operator]


def _tighter(one: Bound | None, other: Bound | None, order: Order) -> Bound | None:
    """Return the stricter of two limits."""
    if one is None or other is None:
        return one or other
    if one[0] == other[0]:
        return (one[0], one[1] and other[1])
    return other if order(one[0], other[0]) else one


def _above(value: Plain, bound: Bound, order: Order = _rises) -> bool:
    return order(bound[0], value) or (bound[1] and bound[0] == value)


_like = lru_cache(maxsize=64)(matcher)
