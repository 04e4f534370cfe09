"""A filter asked of many rows at once: they are read in one go, and only what the filter looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from distributary.model.filter.compile import compiled
from distributary.model.filter.normal_form import AllOf, AnyOf, Filter
from distributary.model.filter.row_view import Row

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

FEW = 100
"""For fewer rows than this a way of reading them is not worth making."""


class BatchFilter:
    """Says of rows whether they belong to a filter.

    Terms are asked one after the other, of the rows that they may still decide; one that looks at a single
    field is asked once of each value, for there are often few.
    """

    def __init__(self, filter: Filter) -> None:
        self._filter = filter
        self._test = compiled(filter)
        self._names = tuple(sorted(set(_looked(filter))))

    def match_rows(self, rows: Sequence[bytes], now_ms: int = 0) -> list[bool]:
        """Say it of each row's JSON, at a time; a row that is no object has no fields."""
        if len(rows) >= FEW:
            try:
                found = _decoder(self._names).decode(b"[%b]" % b",".join(rows))
            except (msgspec.MsgspecError, UnicodeDecodeError):  # one of them is no object: see which
                pass
            else:
                if len(found) == len(rows):
                    return _ask(self._filter, found, Row({}, now_ms))
        return [self._test(Row(_read(row), now_ms)) for row in rows]


def _ask(term: Filter, found: Sequence[Any], row: Row) -> list[bool]:
    """Ask a term of rows, each put into ``row``: to make one costs more than to ask most terms."""
    names = set(_looked(term))
    if isinstance(term, (AllOf, AnyOf)) and len(names) != 1:
        conjunction = isinstance(term, AllOf)
        left: Sequence[int] = range(len(found))
        for one in term.terms:
            said = _ask(one, [found[at] for at in left], row)
            left = [at for at, belongs in zip(left, said, strict=True) if belongs is conjunction]
        out = [not conjunction] * len(found)
        for at in left:
            out[at] = conjunction
        return out
    test, (name,) = compiled(term), names
    known: dict[bytes, bool] = {}
    said = []
    for fields in found:
        value = bytes(fields.get(name) or b"")
        belongs = known.get(value)
        if belongs is None:
            row.turn(fields)
            belongs = known[value] = test(row)
        said.append(belongs)
    return said


def _read(row: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _fields(row)
    except msgspec.MsgspecError:
        return {}


def _looked(term: Filter) -> Iterator[str]:
    """The fields that a filter looks at, those of objects by their first name."""
    if isinstance(term, (AllOf, AnyOf)):
        for one in term.terms:
            yield from _looked(one)
    else:
        yield term.path[0]


@lru_cache(maxsize=256)
def _decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Reads these fields of a list of rows, as they stand; each row has a ``get`` for them."""
    places = {name: f"f{at}" for at, name in enumerate(names)}

    def get(self: Any, name: str) -> msgspec.Raw | None:
        raw: msgspec.Raw | None = getattr(self, places[name])
        return raw

    looked = msgspec.defstruct(
        "Looked",
        [(place, msgspec.Raw, None) for place in places.values()],
        namespace={"get": get},
        rename={place: name for name, place in places.items()},
        gc=False,
    )
    return msgspec.json.Decoder(list[looked])  # type: ignore[valid-type]
