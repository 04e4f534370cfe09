"""How many records make one group: as many as may be, within a time and a size. Pure."""

from __future__ import annotations

MOST = 5_000
FIRST = 64
SECONDS = 0.5
"""What folding one group should take at most."""


class GroupSize:
    """Grows by doubling while groups are quick, and shrinks at once when one was slow or too large."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.records = min(FIRST, most)

    def took(self, records: int, seconds: float) -> None:
        """Note how long a group of so many records took."""
        if records <= 0:
            return
        within = int(min(self._most, records * SECONDS / max(seconds, 1e-6)))
        wish = min(within, self.records * 2 if records >= self.records else self.records)
        self.records = max(1, min(self._most, wish))

    def too_large(self, records: int) -> None:
        """Note that a group of so many records, more than one, was too large to be written."""
        self.records = max(1, records // 2)
