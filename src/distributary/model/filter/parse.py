"""Parses a filter into its syntax tree.

    filter     = conjunct { or conjunct }
    conjunct   = factor { and factor }
    factor     = { not } ( "(" filter ")" | condition )
    condition  = operand ( = == != <> < <= > >= ) operand            (one of them a field)
               | field [not] in "(" literal { , literal } ")"
               | field [not] between literal and literal
               | field [not] like string [ escape string ]
               | field is [not] null
    field      = name { . name }
    literal    = string | [-] number | true | false | null | time { (+ -) duration }
    time       = timestamp string | now "(" ")"
    duration   = number unit | interval string

Every limit is checked while parsing, so that the cost grows only with the length of the filter.
"""

from __future__ import annotations

from distributary.errors import BadQuery
from distributary.model.filter.lexer import LITERAL, Token, TokenReader, bad
from distributary.model.filter.like import BadPattern, canonical_pattern
from distributary.model.filter.syntax_tree import (
    And,
    Between,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Path,
    Term,
    family,
)

MAX_TEXT = 16_384
MAX_DEPTH = 64
MAX_TERMS = 1_000
MAX_IN = 1_000
MAX_LIKE = 1_000

_COMPARE = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse(text: str, *, now: bool = True) -> Term:
    """Parse a filter; without ``now``, ``now()`` is rejected. Raises BadQuery, which names the character."""
    if len(text) > MAX_TEXT:
        raise BadQuery(f"a filter of {len(text):,} characters is too long", hint=f"the limit is {MAX_TEXT:,}")
    return _Parser(text, now).whole()


class _Parser(TokenReader):
    def __init__(self, text: str, now: bool) -> None:
        super().__init__(text, now)
        self._depth = 0
        self._terms = 0

    def whole(self) -> Term:
        term = self._filter()
        if self.peek.kind != "end":
            raise self.expected("and, or, or the end")
        return term

    # --- and, or, not ---

    def _filter(self) -> Term:
        terms = [self._conjunct()]
        while self.skip("or"):
            terms.append(self._conjunct())
        return terms[0] if len(terms) == 1 else Or(tuple(terms))

    def _conjunct(self) -> Term:
        terms = [self._factor()]
        while self.skip("and"):
            terms.append(self._factor())
        return terms[0] if len(terms) == 1 else And(tuple(terms))

    def _factor(self) -> Term:
        before = self._depth
        nots = 0
        while self.peek.word == "not":
            self._deeper()
            nots += 1
        if self.peek.word == "(":
            self._deeper()
            term = self._filter()
            if not self.skip(")"):
                raise self.expected("and, or, or )")
        else:
            term = self._condition()
        self._depth = before
        for _ in range(nots):
            term = Not(term)
        return term

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.bad("nested too deeply", f"nest at most {MAX_DEPTH} levels of ( and not")
        self.take()

    # --- one condition ---

    def _condition(self) -> Term:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise self.bad("too many conditions", f"the limit is {MAX_TERMS:,}; in (…) counts as one")
        if self.is_field():
            return self._field_condition(self.path())
        start = self.peek
        literal = self.literal(f"the name of a field, or {LITERAL}")
        op = _COMPARE.get(self.peek.word)
        if op is None:
            raise self.expected("a comparison such as =")
        self.take()
        if not self.is_field():
            raise self.expected("the name of a field")
        return self._compare(self.path(), _MIRRORED[op], literal, start)

    def _field_condition(self, path: Path) -> Term:
        if self.peek.word in _COMPARE:
            op = _COMPARE[self.take().word]
            start = self.peek
            return self._compare(path, op, self.literal(LITERAL), start)
        if self.skip("is"):
            negated = self.skip("not")
            if not self.skip("null"):
                raise self.expected("null" if negated else "null or not null")
            return _unless(negated, IsNull(path))
        negated = self.skip("not")
        if self.skip("in"):
            return _unless(negated, self._in(path))
        if self.skip("between"):
            return _unless(negated, self._between(path))
        if self.skip("like"):
            return _unless(negated, self._like(path))
        if negated:
            raise self.expected("in, between or like")
        hint = f"for a field that is true or false write {path[-1]} = true"
        raise self.expected("a comparison such as =, in, between, like or is null", hint)

    def _compare(self, path: Path, op: str, value: Literal | None, start: Token) -> Term:
        if value is None:
            if op not in ("=", "!="):
                raise bad(self.text, start.at, "null has no order", "write is null or is not null")
            return _unless(op == "!=", IsNull(path))
        if isinstance(value, bool) and op not in ("=", "!="):
            raise bad(self.text, start.at, "true and false have no order", "compare them with = or !=")
        return Compare(path, op, value)

    def _in(self, path: Path) -> Term:
        if not self.skip("("):
            raise self.expected("(")
        values: list[Literal] = []
        while True:
            start = self.peek
            if len(values) == MAX_IN:
                raise self.bad("too many values", f"in (…) takes at most {MAX_IN:,}")
            value = self.value(LITERAL, "for null write: or … is null")
            if values and family(value) != family(values[0]):
                why = f"a {family(value)} among values of another type ({family(values[0])})"
                raise bad(self.text, start.at, why, "give values of one type, and join others with or")
            values.append(value)
            if self.skip(")"):
                return In(path, tuple(values))
            if not self.skip(","):
                raise self.expected(", or )")

    def _between(self, path: Path) -> Term:
        start = self.peek
        low = self.value(LITERAL, "write is null for null")
        if isinstance(low, bool):
            raise bad(self.text, start.at, "true and false have no order", "compare them with = or !=")
        if not self.skip("and"):
            raise self.expected("and")
        start = self.peek
        high = self.value(LITERAL, "write is null for null")
        if family(high) != family(low):
            why = f"a {family(high)} as the upper end of a range that begins with a {family(low)}"
            raise bad(self.text, start.at, why, "give both ends of between the same type")
        return Between(path, low, high)

    def _like(self, path: Path) -> Term:
        start = self.peek
        if start.kind != "string":
            raise self.expected("a string in quotes")
        pattern = self.take().text
        if len(pattern) > MAX_LIKE:
            why = f"a pattern of {len(pattern):,} characters"
            raise bad(self.text, start.at, why, f"a pattern has at most {MAX_LIKE:,}")
        escape = None
        if self.skip("escape"):
            if self.peek.kind != "string" or len(self.peek.text) != 1 or self.peek.text in "%_":
                raise self.expected("one character in quotes, but not % or _")
            escape = self.take().text
        try:
            canonical_pattern(pattern, escape)
        except BadPattern as error:
            raise bad(self.text, start.at, f"{error} (character {error.at + 1} of the pattern)") from None
        return Like(path, pattern, escape)


def _unless(negated: bool, term: Term) -> Term:
    return Not(term) if negated else term
