"""A filter on many rows at once: they are decoded together, and only the fields that the filter uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from distributary.model.filter.compile import compiled
from distributary.model.filter.normal_form import AllOf, AnyOf, Filter
from distributary.model.filter.row_view import RowView

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

FEW = 100
"""For fewer rows a decoder of their own is not worth its cost."""


class BatchFilter:
    """Tests which rows match a filter.

    Terms are evaluated one after the other, on the rows that are still undecided; a term on a single field is
    evaluated once per value, since there are often few.
    """

    def __init__(self, filter: Filter) -> None:
        self._filter = filter
        self._test = compiled(filter)
        self._names = tuple(sorted(set(_fields_of(filter))))

    def match_rows(self, rows: Sequence[bytes], now_ms: int = 0) -> list[bool]:
        """Test each row, given as JSON, at a time; a row that is not an object has no fields."""
        if len(rows) >= FEW:
            try:
                found = _decoder(self._names).decode(b"[%b]" % b",".join(rows))
            except (msgspec.MsgspecError, UnicodeDecodeError):  # one of them is not an object
                pass
            else:
                if len(found) == len(rows):
                    return _evaluate(self._filter, found, RowView({}, now_ms))
        return [self._test(RowView(_read(row), now_ms)) for row in rows]


def _evaluate(term: Filter, found: Sequence[Any], row: RowView) -> list[bool]:
    """Evaluate a term on rows, each put into ``row``: to create one costs more than most terms."""
    names = set(_fields_of(term))
    if isinstance(term, (AllOf, AnyOf)) and len(names) != 1:
        conjunction = isinstance(term, AllOf)
        left: Sequence[int] = range(len(found))
        for one in term.terms:
            results = _evaluate(one, [found[at] for at in left], row)
            left = [at for at, belongs in zip(left, results, strict=True) if belongs is conjunction]
        out = [not conjunction] * len(found)
        for at in left:
            out[at] = conjunction
        return out
    test, (name,) = compiled(term), names
    known: dict[bytes, bool] = {}
    results = []
    for fields in found:
        value = bytes(fields.get(name) or b"")
        belongs = known.get(value)
        if belongs is None:
            row.reset(fields)
            belongs = known[value] = test(row)
        results.append(belongs)
    return results


def _read(row: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _fields(row)
    except msgspec.MsgspecError:
        return {}


def _fields_of(term: Filter) -> Iterator[str]:
    """Yield the fields that a filter uses, nested ones by their first name."""
    if isinstance(term, (AllOf, AnyOf)):
        for one in term.terms:
            yield from _fields_of(one)
    else:
        yield term.path[0]


@lru_cache(maxsize=256)
def _decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Return a decoder of these fields of a list of rows, undecoded; each row has a ``get`` for them."""
    slots = {name: f"f{at}" for at, name in enumerate(names)}

    def get(self: Any, name: str) -> msgspec.Raw | None:
        raw: msgspec.Raw | None = getattr(self, slots[name])
        return raw

    decoded = msgspec.defstruct(
        "DecodedRow",
        [(slot, msgspec.Raw, None) for slot in slots.values()],
        namespace={"get": get},
        rename={slot: name for name, slot in slots.items()},
        gc=False,
    )
    return msgspec.json.Decoder(list[decoded])  # type: ignore[valid-type]
