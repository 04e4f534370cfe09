"""A filter asked of many rows at once: they are read in one go, and only what the filter looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from distributary.model.filter.compile import Test
from distributary.model.filter.form import Every, Filter, Some
from distributary.model.filter.row import Row

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

FEW = 100
"""For fewer rows than this a way of reading them is not worth making."""


class Sieve:
    """Says of rows whether they belong to a filter, which ``test`` is made of."""

    def __init__(self, filter: Filter, test: Test) -> None:
        self._test = test
        self._names = tuple(sorted(set(_looked(filter))))

    def sift(self, rows: Sequence[bytes], now_ms: int = 0) -> list[bool]:
        """Say it of each row's JSON, at a time; a row that is no object has no fields."""
        test = self._test
        if len(rows) >= FEW:
            try:
                found = _decoder(self._names).decode(b"[%b]" % b",".join(rows))
            except (msgspec.MsgspecError, UnicodeDecodeError):  # one of them is no object: see which
                pass
            else:
                if len(found) == len(rows):
                    return self._ask(found, now_ms)
        return [test(Row(_read(row), now_ms)) for row in rows]

    def _ask(self, found: Sequence[Any], now_ms: int) -> list[bool]:
        """Ask one row after the other, all in one place: to make one costs more than to ask most filters."""
        test, row, out = self._test, Row({}, now_ms), []
        if len(self._names) != 1:
            for fields in found:
                row.turn(fields)
                out.append(test(row))
            return out
        known: dict[bytes, bool] = {}  # of one field there are often few values
        for fields in found:
            value = bytes(fields.f0 or b"")
            belongs = known.get(value)
            if belongs is None:
                row.turn(fields)
                belongs = known[value] = test(row)
            out.append(belongs)
        return out


def _read(row: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _fields(row)
    except msgspec.MsgspecError:
        return {}


def _looked(term: Filter) -> Iterator[str]:
    """The fields that a filter looks at, those of objects by their first name."""
    if isinstance(term, (Every, Some)):
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
