"""Where a reader or a reducer stands."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """A point in a view's history: ``seq`` counts changes, ``epoch`` says which count.

    Two positions compare only within one epoch; a new epoch means that the
    count before it cannot be trusted any more.
    """

    epoch: str
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read ``epoch:seq``; raises ValueError with what was wrong."""
        epoch, colon, seq = text.rpartition(":")
        if not colon or not epoch or not (seq.isascii() and seq.isdigit()):
            raise ValueError(f"a position looks like EPOCH:NUMBER, not {text!r}")
        return cls(epoch, int(seq))


class Mark(NamedTuple):
    """How far a reducer has folded one partition.

    Every record before ``offset`` is folded, and so are the first ``part``
    rows that the record at ``offset`` gives (a select may explode it).
    """

    offset: int
    part: int = 0

    def __str__(self) -> str:
        return f"{self.offset}:{self.part}"

    @classmethod
    def parse(cls, text: str) -> Mark:
        """Read what ``str`` wrote."""
        offset, _, part = text.partition(":")
        return cls(int(offset), int(part or 0))
