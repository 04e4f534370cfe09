"""The records that are produced: the nth one is always the same, so that what came of them can be checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

Make = Callable[[int], tuple[bytes, bytes]]
"""Gives the key and the value of the nth record."""


def stamped(keys: int) -> Make:
    """Small values with the monotonic clock's ns as ``t``, read when the record is made."""
    names = [b"k%04d" % n for n in range(keys)]
    clock = time.monotonic_ns

    def make(n: int) -> tuple[bytes, bytes]:
        key = names[n % keys]
        return key, b'{"id":"%b","price":%d.%02d,"t":%d}' % (key, n % 90 + 1, n % 100, clock())

    return make


def grouped(keys: int, groups: int, size: int) -> Make:
    """Values of ``size`` bytes of which all but the group changes; a key is always in the same group."""
    names = [b"k%06d" % n for n in range(keys)]
    letters = b"abcdefghijklmnopqrstuvwxyz"
    pads = [bytes([letter]) * size for letter in letters]

    def make(n: int) -> tuple[bytes, bytes]:
        place = _scatter(n) % keys
        head = b'{"group":"%b","n":%d,"note":"' % (group_name(place % groups).encode(), n)
        return names[place], head + pads[n % 26][: size - len(head) - 2] + b'"}'

    return make


def group_name(n: int) -> str:
    """What the nth group is called."""
    return f"g{n:03d}"


def amounts(keys: int, size: int) -> Make:
    """Values of ``size`` bytes with an ``amount`` of two decimals, below zero at times."""
    names = [b"k%06d" % n for n in range(keys)]
    pad = b"x" * size

    def make(n: int) -> tuple[bytes, bytes]:
        cents = _cents(n)
        units, rest = divmod(abs(cents), 100)
        sign = b"-" if cents < 0 else b""
        head = b'{"amount":%b%d.%02d,"n":%d,"note":"' % (sign, units, rest, n)
        return names[_scatter(n) % keys], head + pad[: size - len(head) - 2] + b'"}'

    return make


@dataclass(slots=True)
class Total:
    """A row as it should be: the sum in cents, and how many records it is of."""

    cents: int = 0
    count: int = 0

    @property
    def sum(self) -> Decimal:
        return Decimal(self.cents) / 100


def fold_amounts(keys: int, count: int) -> dict[str, Total]:
    """Fold the first ``count`` records of ``amounts`` in the plainest way."""
    totals: dict[str, Total] = {}
    for n in range(count):
        total = totals.setdefault(f"k{_scatter(n) % keys:06d}", Total())
        total.cents += _cents(n)
        total.count += 1
    return totals


def check_totals(found: dict[str, tuple[Decimal, int]], wanted: dict[str, Total]) -> list[str]:
    """Say which rows are wrong, missing or too many; empty when all is exact."""
    wrong = [f"{key}: missing" for key in wanted.keys() - found.keys()]
    wrong += [f"{key}: should not be there" for key in found.keys() - wanted.keys()]
    for key in wanted.keys() & found.keys():
        if found[key] != (wanted[key].sum, wanted[key].count):
            wrong.append(f"{key}: {found[key]} instead of {(wanted[key].sum, wanted[key].count)}")
    return sorted(wrong)


def maker(kind: str, keys: int, size: int = 0, groups: int = 1) -> Make:
    """The records of a kind by its name."""
    if kind == "stamped":
        return stamped(keys)
    if kind == "grouped":
        return grouped(keys, groups, size)
    if kind == "amounts":
        return amounts(keys, size)
    raise ValueError(f"no records of kind {kind!r}")


def _scatter(n: int) -> int:
    """Spread neighbours: Knuth's multiplicative hash."""
    return (n * 2654435761 & 0xFFFFFFFF) >> 8


def _cents(n: int) -> int:
    return n * 48271 % 200_003 - 50_000
